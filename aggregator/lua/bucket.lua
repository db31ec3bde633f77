#!lua flags=no-writes
-- Reads a ledger bucket and who of it has paid for what, in one answer however many metrics are memoized.
--
-- KEYS  bucket of the ledger, then a set of payers per channel
-- Returns the records as a flat list, then the members of each set; no sets if there are no records.

local records = redis.call('HGETALL', KEYS[1])
local answer = {records}
if #records > 0 then
  for number = 2, #KEYS do
    answer[number] = redis.call('SMEMBERS', KEYS[number])
  end
end
return answer
