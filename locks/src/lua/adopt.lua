-- adopt: attempt, ttl, the attempt that was handed over
-- -> the token; {3} cancelled; {6}: the attempt that was handed over does not have all names, and nothing has changed
--
-- An attempt that has adopted them already gets the same token, and its ttl anew.
local attempt, ttl, from = ARGV[1], ARGV[2], ARGV[3]
local values = call("MGET", tombstone .. attempt, unpack(KEYS, 2))
if remove(values, 1) then return {3} end
if owned(values, attempt) == #values then
  prolong(KEYS, 2, #KEYS, values[1], ttl)
  local _, token = holder_in(values[1])
  return tonumber(token) or 0
end
if owned(values, from) < #values then return {6} end
local token, names, before = next_number(), names_in(KEYS), ttl_in(values[1])
local value = attempt .. " " .. format(whole, token) .. " " .. ttl
for i = 1, #names do
  call("PSETEX", KEYS[i + 1], ttl, value)
  if ttl + 0 < before then have_look(names[i]) end
end
return token
