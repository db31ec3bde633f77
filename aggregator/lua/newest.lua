#!lua
-- Keeps what the newest release of each metric says: one of an epoch that ended earlier than what is kept
-- changes nothing, whenever it comes.
--
-- KEYS  newest releases
-- ARGV  (metric, last day of its epoch as YYYY-MM-DD, text) for each

for at = 1, #ARGV, 3 do
  local kept = redis.call('HGET', KEYS[1], ARGV[at])
  if not kept or string.sub(kept, 1, 10) <= ARGV[at + 1] then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1] .. ' ' .. ARGV[at + 2])
  end
end
