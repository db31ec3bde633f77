#!lua flags=allow-oom
-- Erases a device in a single step: its record, its answers, the marks and memos that are named, and
-- remembers the pseudonym alone, so that nothing is taken from it again. Safe to repeat. May write when
-- memory is full: it frees some.
--
-- KEYS  life, ledger bucket, answers bucket, erased pseudonyms, counters; then marks and memos
-- ARGV  pseudonym, the same as a signed integer, generation that the shard must have reached
-- Returns erased (1: only now, 0: it was before, -1: the shard was put back by a backup), whether the
-- device had a record, the shard's generation.

local life, ledger, answers, erased, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local pseudonym, member = ARGV[1], ARGV[2]

local generation = tonumber(redis.call('HGET', life, 'generation') or 0)
if generation < tonumber(ARGV[3]) then
  return {-1, 0, generation}
end

local new = redis.call('SADD', erased, member)
local known = redis.call('HDEL', ledger, pseudonym)
redis.call('HDEL', answers, pseudonym)
for at = 6, #KEYS do
  redis.call('SREM', KEYS[at], member)
end
-- Also by nothing: whoever repeats this waits for replicas, and WAIT is about what was written here.
redis.call('HINCRBY', counters, 'erasures', new)
return {new, known, generation}
