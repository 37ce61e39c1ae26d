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
if mode and (mode == "r" or #KEYS == 2) then
  -- Names that are read, or one pool, that nobody waits for. Who was there may keep a reader from its second name: the
  -- rest then gives up the first one.
  local ordinary = true
  for i = 6, #ARGV do ordinary = ordinary and ARGV[i] == "r" end
  local token = ordinary and call("EXISTS", tombstone .. attempt, queue, records) == 0 and (call("GET", counter) or 0) + 0
  if token and token >= 4096 then
    local time, ttl = call("TIME"), ARGV[2] + 0
    local micros = time[2] + 0
    local now = time[1] * 1000 + (micros - micros % 1000) / 1000
    local ends, joined = format(whole, now + ttl), false
    for i = 2, #KEYS do
      local key = KEYS[i]
      if mode == "r" then
        -- Whatever is no set is written. The dead go with one reader in so many.
        joined = ask("ZADD", key, "NX", ends, attempt) == 1
        if joined and micros % 16 == 0 then
          call("ZREMRANGEBYSCORE", key, "-inf", "(" .. format(whole, now))
        end
      else
        local slash = find(mode, "/", 1, true)
        local n, limit = sub(mode, 1, slash - 1) + 0, sub(mode, slash + 1) + 0
        -- The limit is one of the members.
        local used = ask("ZCARD", key)
        joined = type(used) == "number" and (used > 0 and used or 1) + n <= limit + 1
        if joined then
          local parts = {format(whole, 2 ^ 52 + limit), "#", ends, attempt .. " 1"}
          for part = 2, n do parts[2 * part + 1], parts[2 * part + 2] = ends, attempt .. " " .. part end
          call("ZADD", key, unpack(parts))
        end
      end
      if not joined then break end
      if call("PTTL", key) < ttl then call("PEXPIREAT", key, ends) end
    end
    if joined then return token end
  end
end
--- shared parts
local flags, waiter_ttl = ARGV[4], ARGV[3] + 0
if mode then return share(KEYS, attempt, ARGV[2], waiter_ttl, flags, modes_in(ARGV, 5, names_in(KEYS))) end
if flags == "w" then return take(KEYS, attempt, ARGV[2], waiter_ttl, true, false, false) end
return take(KEYS, attempt, ARGV[2], waiter_ttl, has(flags, "w"), has(flags, "n"), has(flags, "t"))
