#!lua flags=no-writes
-- What a shard tells operators, in one answer.
--
-- KEYS  counters, stream, life
-- Returns the counters as a flat list, milliseconds since the oldest unfolded entry came (0 if there is
-- none) by the store's own clock, bytes of the stream, generation.

local counters = redis.call('HGETALL', KEYS[1])
-- The fold trims what it has folded in the same step, so whatever the stream holds is unfolded.
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local age = 0
if oldest then
  local now = redis.call('TIME')
  age = math.max(0, now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(string.match(oldest[1], '^%d+')))
end
local bytes = redis.call('MEMORY', 'USAGE', KEYS[2]) or 0
return {counters, age, bytes, tonumber(redis.call('HGET', KEYS[3], 'generation') or '0')}
