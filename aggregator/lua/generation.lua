#!lua flags=allow-oom
-- Raises a shard's generation, which never falls, unless the shard was put back by a backup. May
-- write when memory is full: the fold worker does this, and must go on to drain the store.
--
-- KEYS  life
-- ARGV  generation that the shard must have, generation to raise it to, Unix time
-- Returns the generation it has then; one below the first argument is what was found.

local found = tonumber(redis.call('HGET', KEYS[1], 'generation') or '0')
if found < tonumber(ARGV[1]) or found >= tonumber(ARGV[2]) then
  return found
end
redis.call('HSET', KEYS[1], 'generation', ARGV[2], 'raised_at', ARGV[3])
return tonumber(ARGV[2])
