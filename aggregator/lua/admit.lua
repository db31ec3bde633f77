#!lua
-- Uses an invitation up, for one blinded message; the same may be asked again. All scores are 0, so
-- that members lie in the order of their bytes and nothing tells when which of them came.
--
-- KEYS  sorted set of unused, sorted set of used (digest of invitation and of blinded message, joined),
--       hash of all surveys' invitations
-- ARGV  digest of the invitation, of the blinded message, field that counts what was used
-- Returns 1 if it is or was used for this message, 0 if there is no such invitation, -1 if it was used
-- for another.

local unused, used, counts = KEYS[1], KEYS[2], KEYS[3]
local invitation, pair = ARGV[1], ARGV[1] .. ARGV[2]

local found = redis.call('ZRANGEBYLEX', used, '[' .. invitation, '[' .. invitation .. string.rep('\255', 32))
if found[1] then
  return found[1] == pair and 1 or -1
end
if not redis.call('ZSCORE', unused, invitation) then
  return 0
end
redis.call('ZADD', used, 0, pair)
redis.call('ZREM', unused, invitation)
redis.call('HINCRBY', counts, ARGV[3], 1)
return 1
