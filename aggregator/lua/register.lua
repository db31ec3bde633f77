#!lua
-- Appends a registry version unless it is there already.
--
-- KEYS  hash of digest -> text, list of digests in the order they came
-- ARGV  digest, text
-- Returns 1 if it is new.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
