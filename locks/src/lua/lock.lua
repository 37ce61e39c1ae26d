-- lock: attempt, ttl, waiter_ttl, flags (w: wait, n: nested, t: throughput before order), modes if some are shared
-- -> the token: granted; -2 - pttl: queued; {2, pttl, value, age, remark} busy, with the first holder's value, 0 (no string) or nil, and
--    what it says about its lock or nil; where that is not known, the reply ends before it; {3} cancelled;
--    {4, attempt, ...} deadlock: the holders in turn. A pttl is -1 where there is none.
--    An array costs more than a number, and a number that is alone is what is answered most.
--
-- An attempt that holds all its names is granted again, with the same token and its ttl anew; one that waits keeps its
-- ticket. What is left of a grant that was lost in part is given up first.
local attempt, mode = ARGV[1], ARGV[5]
if not mode and call("EXISTS", tombstone .. attempt, queue, records, unpack(KEYS, 2)) == 0 then
  local token = call("INCR", counter)
  if token >= 4096 then
    local ttl = ARGV[2]
    local value = attempt .. " " .. format(whole, token) .. " " .. ttl
    for i = 2, #KEYS do call("PSETEX", KEYS[i], ttl, value) end
    return token
  end
end
if mode == "r" then
  -- Adds a reader to names that nobody waits for. Returns its token; nil if this is not the ordinary case.
  local function read_at_once()
    for i = 6, #ARGV do
      if ARGV[i] ~= "r" then return nil end
    end
    -- One command also tells whether any of the names are there, as EXISTS counts a key as often as it is asked for.
    local asked = {tombstone .. attempt, queue, records}
    for i = 2, #KEYS do
      for _ = 0, 3 do asked[#asked + 1] = KEYS[i] end
    end
    local count = call("EXISTS", unpack(asked))
    local token = count % 4 == 0 and (call("GET", counter) or 0) + 0
    if not token or token < 4096 then return nil end

    local time, ttl = call("TIME"), ARGV[2] + 0
    local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
    local ends, past = format(whole, now + ttl), "(" .. format(whole, now)
    -- The dead go. A name that is no set may be written.
    for i = 2, count > 0 and #KEYS or 1 do
      if type(ask("ZREMRANGEBYSCORE", KEYS[i], "-inf", past)) ~= "number" then return nil end
    end
    for i = 2, #KEYS do
      local key = KEYS[i]
      if call("ZADD", key, "NX", ends, attempt) == 0 then return nil end
      if count == 0 or call("PTTL", key) < ttl then call("PEXPIREAT", key, ends) end
    end
    return token
  end
  local token = read_at_once()
  if token then return token end
end
--- shared parts
local flags, waiter_ttl = ARGV[4], ARGV[3] + 0
if mode then return share(KEYS, attempt, ARGV[2], waiter_ttl, flags, modes_in(ARGV, 5, names_in(KEYS))) end
if flags == "w" then return take(KEYS, attempt, ARGV[2], waiter_ttl, true, false, false) end
return take(KEYS, attempt, ARGV[2], waiter_ttl, has(flags, "w"), has(flags, "n"), has(flags, "t"))
