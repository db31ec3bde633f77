#!lua
-- Takes one batch in a single step: finds repeats and clones, checks marks and budget of each report,
-- charges the ledger and appends what was accepted to the shard's stream.
--
-- Lua is not rolled back when it fails, so everything is read and decided first; the first write is
-- the XADD, the one most likely to be refused.
--
-- KEYS  stream, ledger bucket, answers bucket, watermarks, counters, life, erased pseudonyms; then per
--       candidate its mark, and its memo if it is memoized
-- ARGV  pseudonym, the same as a signed integer, sequence, digest, cap in micro-epsilon, codes (one
--       letter per report: 'a' candidate, 'o' memoized candidate, others are refused already),
--       generation that the shard must have reached; then of all candidates together, so that the
--       store has few arguments to read: names of their groups, with a space between; heads of 16
--       bytes (place of the series, from 1; epoch; charge; length of row); rows; order of the groups'
--       names, a byte each; then each series
-- Returns verdict, spent, codes, the shard's generation. The letters are those of
-- aggregator/store/store.py. A shard below the generation was put back by a backup and takes nothing;
-- nor is anything taken from, or remembered about, a device that was erased.

local stream, ledger, answers = KEYS[1], KEYS[2], KEYS[3]
local watermarks, counters, life, erased = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local pseudonym, member, sequence, digest = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local cap, codes = tonumber(ARGV[5]), ARGV[6]
local RECORD, HEAD, HEAD_BYTES = '>I6I4c16', '>I2I4I8I2', 16

local known = redis.call('HMGET', life, 'generation', 'floor')
local generation, floor = tonumber(known[1] or 0), tonumber(known[2] or 0)
if generation < tonumber(ARGV[7]) then
  return {'restored', 0, '', generation}
end
if redis.call('SISMEMBER', erased, member) == 1 then
  return {'erased', 0, '', generation}
end

local spent, last = 0, 0
local record = redis.call('HGET', ledger, pseudonym)
if record then
  local last_digest
  spent, last, last_digest = struct.unpack(RECORD, record)
  if sequence == last and digest == last_digest then
    local first_answer = redis.call('HGET', answers, pseudonym)
    redis.call('HINCRBY', counters, 'duplicates', 1)
    return {'duplicate', spent, first_answer or string.rep('a', #codes), generation}
  elseif sequence <= last then
    redis.call('HINCRBY', counters, 'clones', 1)
    return {'clone_suspected', spent, '', generation}
  end
elseif sequence > 1 then
  -- Not new, but unknown: a backup has lost its record.
  spent = floor
end

local names, heads, rows, order = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local next_name, closed = string.gmatch(names, '%S+'), {}
if ARGV[12] then
  closed = redis.call('HMGET', watermarks, unpack(ARGV, 12))
end
local taken, payloads, accepted, marked, paid = {}, {}, 0, {}, {}
local candidate, next_key, next_row = 0, 8, 1

local function judge_candidate(memoized)
  local series, epoch, charge, length = struct.unpack(HEAD, heads, HEAD_BYTES * candidate + 1)
  local group, row = next_name(), string.sub(rows, next_row, next_row + length - 1)
  local mark, memo = KEYS[next_key], memoized and KEYS[next_key + 1]
  candidate = candidate + 1
  next_row = next_row + length
  next_key = next_key + (memoized and 2 or 1)

  if closed[series] and epoch <= tonumber(closed[series]) then
    return 'c'
  end
  if marked[mark] or redis.call('SISMEMBER', mark, member) == 1 then
    return 'r'
  end
  if memo and (paid[memo] or redis.call('SISMEMBER', memo, member) == 1) then
    charge, memo = 0, nil
  end
  if charge > 0 and spent + charge > cap then
    return 'b'
  end
  spent = spent + charge
  marked[mark] = true
  if memo then
    paid[memo] = true
  end
  taken[candidate], payloads[candidate] = group, row
  accepted = accepted + 1
  return 'a'
end

local counts, verdicts = {}, {}
for position = 1, #codes do
  local letter = string.sub(codes, position, position)
  if letter == 'a' or letter == 'o' then
    letter = judge_candidate(letter == 'o')
  end
  verdicts[position] = letter
  counts[letter] = (counts[letter] or 0) + 1
end
codes = table.concat(verdicts)

-- One field per entry: its name lists the groups, each of which occurs once, in a fixed order, so that
-- uploads of the same groups share a name; its value is their rows.
if accepted > 0 then
  local groups, payload = {}, {}
  for place = 1, #order do
    local number = string.byte(order, place) + 1
    if taken[number] then
      groups[#groups + 1], payload[#payload + 1] = taken[number], payloads[number]
    end
  end
  redis.call('XADD', stream, '*', table.concat(groups, ' '), table.concat(payload))
end
redis.call('HSET', ledger, pseudonym, struct.pack(RECORD, spent, sequence, digest))
for mark in pairs(marked) do
  redis.call('SADD', mark, member)
end
for memo in pairs(paid) do
  redis.call('SADD', memo, member)
end
if accepted < #codes then
  redis.call('HSET', answers, pseudonym, codes)
else
  redis.call('HDEL', answers, pseudonym)
end
redis.call('HINCRBY', counters, 'batches', 1)
if sequence > last + 1 then
  redis.call('HINCRBY', counters, 'gaps', 1)
end
for letter, count in pairs(counts) do
  redis.call('HINCRBY', counters, letter, count)
end
return {'accepted', spent, codes, generation}
