#!lua flags=allow-oom
-- Charges a bucket of ledger records what each may have spent since a backup, once per recovery:
-- the shard remembers how far the recovery has come, in the same step.
--
-- KEYS  life, ledger bucket
-- ARGV  number of the recovery, bucket, lifetime cap, floor; then (pseudonym, micro-epsilon) pairs
-- Returns 1, or 0 if this recovery has charged the bucket before.

local RECORD = '>I6I4c16'
local life, ledger = KEYS[1], KEYS[2]
local recovery, bucket, cap = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

if redis.call('HGET', life, 'recovery') ~= recovery then
  redis.call('HSET', life, 'recovery', recovery, 'buckets', 0, 'devices', 0, 'charged', 0,
    'surcharges', 0, 'floor', ARGV[4])
end
if bucket < tonumber(redis.call('HGET', life, 'buckets')) then
  return 0
end

local devices, charged, total = 0, 0, 0
for at = 5, #ARGV, 2 do
  local record = redis.call('HGET', ledger, ARGV[at])
  if record then
    local spent, sequence, digest = struct.unpack(RECORD, record)
    local raised = math.max(spent, math.min(spent + tonumber(ARGV[at + 1]), cap))
    devices = devices + 1
    if raised > spent then
      redis.call('HSET', ledger, ARGV[at], struct.pack(RECORD, raised, sequence, digest))
      charged, total = charged + 1, total + raised - spent
    end
  end
end
redis.call('HSET', life, 'buckets', bucket + 1)
redis.call('HINCRBY', life, 'devices', devices)
redis.call('HINCRBY', life, 'charged', charged)
redis.call('HINCRBY', life, 'surcharges', total)
return 1
