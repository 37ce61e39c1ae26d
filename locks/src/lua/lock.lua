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
local slash = mode and find(mode, "/", 1, true)
if mode == "r" or slash and #KEYS == 2 then
  -- Adds a reader to names, or takes permits of one pool, while nobody waits. Returns the token; nil if this is not the
  -- ordinary case.
  local function share_at_once()
    for i = 6, #ARGV do
      if ARGV[i] ~= "r" then return nil end
    end
    -- One command also tells whether any of the names are there, as EXISTS counts a key as often as it is asked for.
    local asked = {tombstone .. attempt, queue, records}
    for i = 2, #KEYS do
      for _ = 0, 3 do asked[#asked + 1] = KEYS[i] end
    end
    local known = call("EXISTS", unpack(asked))
    local token = known % 4 == 0 and (call("GET", counter) or 0) + 0
    if not token or token < 4096 then return nil end

    local time, ttl = call("TIME"), ARGV[2] + 0
    local micros = time[2] + 0
    local now = time[1] * 1000 + (micros - micros % 1000) / 1000
    local ends, first = format(whole, now + ttl), KEYS[2]
    if slash then
      local n, limit = sub(mode, 1, slash - 1) + 0, sub(mode, slash + 1) + 0
      -- The limit is a member, too. The dead go if they are in the way.
      local used = known > 0 and ask("ZCARD", first)
      if type(used) == "table" then return nil end
      if used and used - 1 + n > limit then
        used = used - call("ZREMRANGEBYSCORE", first, "-inf", "(" .. format(whole, now))
      end
      if (used and used - 1 or 0) + n > limit then return nil end
      local parts = {format(whole, 2 ^ 52 + limit), "#"}
      for i = 1, n do parts[2 * i + 1], parts[2 * i + 2] = ends, attempt .. " " .. i end
      call("ZADD", first, unpack(parts))
    else
      -- A name that is no set may be written. The dead go with one in so many readers.
      for i = 2, known > 0 and #KEYS > 2 and #KEYS or 1 do
        if type(ask("ZCARD", KEYS[i])) == "table" then return nil end
      end
      for i = 2, #KEYS do
        if ask("ZADD", KEYS[i], "NX", ends, attempt) ~= 1 then return nil end
        if known > 0 and micros % 16 == 0 then
          call("ZREMRANGEBYSCORE", KEYS[i], "-inf", "(" .. format(whole, now))
        end
      end
    end
    for i = 2, #KEYS do
      if known == 0 or call("PTTL", KEYS[i]) < ttl then call("PEXPIREAT", KEYS[i], ends) end
    end
    return token
  end
  local token = share_at_once()
  if token then return token end
end
--- shared parts
local flags, waiter_ttl = ARGV[4], ARGV[3] + 0
if mode then return share(KEYS, attempt, ARGV[2], waiter_ttl, flags, modes_in(ARGV, 5, names_in(KEYS))) end
if flags == "w" then return take(KEYS, attempt, ARGV[2], waiter_ttl, true, false, false) end
return take(KEYS, attempt, ARGV[2], waiter_ttl, has(flags, "w"), has(flags, "n"), has(flags, "t"))
