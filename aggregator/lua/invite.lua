#!lua
-- Adds invitations to a survey's unused ones.
--
-- KEYS  sorted set of unused, hash of all surveys' invitations
-- ARGV  field that counts what was made, then digests
-- Returns how many are new.

local members = {}
for at = 2, #ARGV do
  members[#members + 1] = 0
  members[#members + 1] = ARGV[at]
end
local new = redis.call('ZADD', KEYS[1], unpack(members))
redis.call('HINCRBY', KEYS[2], ARGV[1], new)
return new
