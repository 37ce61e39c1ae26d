-- extend: n, then n times: attempt, ttl, count of names; the keys are in the same order
-- -> n times 1 (extended) or 0 (the attempt no longer has all of its names)
local reply, key = {}, 2
for i = 1, tonumber(ARGV[1]) do
  local attempt, ttl, count = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  local past = key + count
  local values = call("MGET", unpack(KEYS, key, past - 1))
  reply[i] = owned(values, attempt) == count and 1 or 0
  if reply[i] == 1 then prolong(KEYS, key, past - 1, values[1], ttl) end
  key = past
end
return reply
