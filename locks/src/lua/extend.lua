-- extend: n, then n times: attempt, ttl, count of names, and the modes if some are shared: then the count is negative.
-- The keys are in the same order
-- -> n times 1 (extended) or 0 (the attempt no longer has all of its names)
local function extend_shared(keys, attempt, ttl, values, from)
  local names, now = names_in(keys), clock()
  local modes = modes_in(ARGV, from, names)
  local _, count = parts_in(keys, names, modes, values, attempt, now)
  if count < #names then return 0 end
  prolong_parts(keys, names, modes, values, attempt, ttl, now)
  return 1
end

local reply, key, at = {}, 2, 2
for i = 1, tonumber(ARGV[1]) do
  local attempt, ttl, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local shared = count < 0
  if shared then count = -count end
  local past = key + count
  local values = call("MGET", unpack(KEYS, key, past - 1))
  at = at + 3
  if shared then
    reply[i] = extend_shared({KEYS[1], unpack(KEYS, key, past - 1)}, attempt, ttl, values, at)
    at = at + count
  else
    reply[i] = owned(values, attempt) == count and 1 or 0
    if reply[i] == 1 then prolong(KEYS, key, past - 1, values[1], ttl) end
  end
  key = past
end
return reply
