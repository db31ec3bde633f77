#!lua flags=no-writes
-- Adds up how many reports a tally holds, so that only one number travels.
--
-- KEYS  tally
-- Returns the sum over cohorts of their first counter.

local reports = 0
for _, packed in ipairs(redis.call('HVALS', KEYS[1])) do
  reports = reports + struct.unpack('<I4', packed)
end
return reports
