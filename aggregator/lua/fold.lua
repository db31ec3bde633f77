#!lua flags=allow-oom
-- Commits a fold: whole new tallies and the cursor, if nobody has folded the same entries meanwhile
-- and no tally that would change is frozen. May write when memory is full, since it is what drains it.
--
-- KEYS  cursor, stream, frozen epochs, counters, set of groups, popcounts, reports by metric and
--       version, then a tally per touched group
-- ARGV  cursor that was read, cursor to write, lowest stream id to keep, reports folded, reports too
--       late, microseconds that this took, number of groups, their names, their packed popcounts (empty
--       for those that have none), their reports; then (group's number, cohort, packed counts) for each
-- Returns committed, lost (somebody else was faster, or the store has lost what was read) or frozen.

local cursor, stream, frozen, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local known, popcounts, reports = KEYS[5], KEYS[6], KEYS[7]
local groups = tonumber(ARGV[7])

if (redis.call('GET', cursor) or '0-0') ~= ARGV[1] then
  redis.call('HINCRBY', counters, 'lost', 1)
  return 'lost'
end
-- A store that lost its last writes in a power cut stands where it stood before them: the same cursor
-- again, without what was read. That comes again, from devices that were not answered.
if #redis.call('XRANGE', stream, ARGV[2], ARGV[2]) == 0 then
  redis.call('HINCRBY', counters, 'lost', 1)
  return 'lost'
end
for number = 1, groups do
  local series, epoch = string.match(ARGV[7 + number], '^(%a+:[^:]+):(%d+):')
  local until_epoch = redis.call('HGET', frozen, series)
  if until_epoch and tonumber(epoch) <= tonumber(until_epoch) then
    redis.call('HINCRBY', counters, 'lost', 1)
    return 'frozen'
  end
end

for at = 7 + 3 * groups + 1, #ARGV, 3 do
  redis.call('HSET', KEYS[7 + tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2])
end
for number = 1, groups do
  local name, histogram = ARGV[7 + number], ARGV[7 + groups + number]
  redis.call('SADD', known, name)
  if histogram ~= '' then
    redis.call('HSET', popcounts, name, histogram)
  end
  local metric, version = string.match(name, '^%a+:([^:]+):%d+:(%x+):')
  redis.call('HINCRBY', reports, metric .. ':' .. version, ARGV[7 + 2 * groups + number])
end
redis.call('SET', cursor, ARGV[2])
redis.call('HINCRBY', counters, 'folded', ARGV[4])
redis.call('HINCRBY', counters, 'late', ARGV[5])
redis.call('HINCRBY', counters, 'commits', 1)
redis.call('HINCRBY', counters, 'microseconds', ARGV[6])
-- Exact, not '~', which would leave folded reports behind; and never DEL, which forgets the last id.
redis.call('XTRIM', stream, 'MINID', ARGV[3])
return 'committed'
