-- raise: attempt, ttl, floor -> {1} or {0} as extend; a lock that is extended has a token of at least floor, and so has
-- the counter
local attempt, ttl, floor = ARGV[1], ARGV[2], ARGV[3]
local values = call("MGET", unpack(KEYS, 2))
if owned(values, attempt) < #values then return {0} end
prolong(KEYS, 2, #KEYS, values[1], ttl)
if floor + 0 > (call("GET", counter) or 0) + 0 then call("SET", counter, floor) end
local _, token, mark = holder_in(call("GET", KEYS[2]))
if mark and floor + 0 > token + 0 then
  for at = 2, #KEYS do call("PSETEX", KEYS[at], ttl, attempt .. " " .. floor .. " " .. mark) end
end
return {1}
