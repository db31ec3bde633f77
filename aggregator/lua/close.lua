#!lua flags=allow-oom
-- Raises the last closed epoch of a series; it never falls. Run on the watermarks it makes intake
-- refuse the epoch, run on the frozen epochs it makes the fold refuse it.
--
-- KEYS  watermarks or frozen epochs, stream
-- ARGV  series, epoch
-- Returns the id of the last stream entry, '0-0' if there is none: all that came before is at most that.

local before, epoch = redis.call('HGET', KEYS[1], ARGV[1]), ARGV[2]
if before and tonumber(before) > tonumber(epoch) then
  epoch = before
end
-- Also what is there: whoever repeats this waits for replicas, and WAIT is about what was written here.
redis.call('HSET', KEYS[1], ARGV[1], epoch)
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
return last[1] and last[1][1] or '0-0'
