-- lock: attempt, ttl, waiter_ttl, flags (w: wait, n: nested, t: throughput before order), modes if some are shared
-- -> the token: granted; -2 - pttl: queued; {2, pttl, value, age, remark} busy, with the first holder's value, 0 (no string) or nil, and
--    what it says about its lock or nil; where that is not known, the reply ends before it; {3} cancelled;
--    {4, attempt, ...} deadlock: the holders in turn. A pttl is -1 where there is none.
--    An array costs more than a number, and a number that is alone is what is answered most.
--
-- An attempt that holds all its names is granted again, with the same token and its ttl anew; one that waits keeps its
-- ticket. What is left of a grant that was lost in part is given up first.
local attempt = ARGV[1]
if not ARGV[5] and call("EXISTS", tombstone .. attempt, queue, records, unpack(KEYS, 2)) == 0 then
  local token = call("INCR", counter)
  if token >= 4096 then
    local ttl = ARGV[2]
    local value = attempt .. " " .. format(whole, token) .. " " .. ttl
    for i = 2, #KEYS do call("PSETEX", KEYS[i], ttl, value) end
    return token
  end
end
--- shared parts
local flags, waiter_ttl = ARGV[4], ARGV[3] + 0
if ARGV[5] then return share(KEYS, attempt, ARGV[2], waiter_ttl, flags, modes_in(ARGV, 5, names_in(KEYS))) end
if flags == "w" then return take(KEYS, attempt, ARGV[2], waiter_ttl, true, false, false) end
return take(KEYS, attempt, ARGV[2], waiter_ttl, has(flags, "w"), has(flags, "n"), has(flags, "t"))
