#!lua
-- Adds to a counter that vanishes when its window is over.
--
-- KEYS  counter
-- ARGV  what to add, length of a window in seconds
-- Returns the sum in this window.

local amount, seconds = tonumber(ARGV[1]), tonumber(ARGV[2])
if not amount or not seconds or amount < 1 or seconds < 1 then
  return redis.error_reply('ERR count.lua takes two numbers of at least 1')
end
local sum = redis.call('INCRBY', KEYS[1], amount)
if redis.call('TTL', KEYS[1]) < 0 then
  redis.call('EXPIRE', KEYS[1], seconds)
end
return sum
