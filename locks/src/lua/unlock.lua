-- unlock: attempt, then flags if there are any (x: leave a tombstone, t: throughput before order, k: the rest follows: how
-- long the names stay locked, if the attempt has them all), modes if some are shared
-- -> how many of the names it had
--
-- An attempt that waits, queued or parked, stops waiting.
local attempt, flags, count = ARGV[1], ARGV[2] or "", #KEYS - 1
local mode = (flags == "" or flags == "t") and ARGV[3]
if mode and (mode == "r" or count == 1) and call("EXISTS", queue, pure_waiters) == 0 then
  -- Names that are read, or one pool, that nobody waits for.
  local ordinary, had = true, 0
  for i = 4, #ARGV do ordinary = ordinary and ARGV[i] == "r" end
  for i = 2, ordinary and #KEYS or 1 do
    -- A name ends with the last of its readers, so that one is alive.
    local key = KEYS[i]
    local rank = mode ~= "r" or ask("ZREVRANK", key, attempt)
    local is_set = rank and type(rank) ~= "table"
    if is_set and rank ~= 0 then
      local time = call("TIME")
      local micros = time[2] + 0
      local now = time[1] * 1000 + (micros - micros % 1000) / 1000
      is_set = type(ask("ZREMRANGEBYSCORE", key, "-inf", "(" .. format(whole, now))) == "number"
    end
    if is_set and mode ~= "r" then
      local parts = {attempt .. " 1"}
      for part = 2, sub(mode, 1, find(mode, "/", 1, true) - 1) + 0 do parts[part] = attempt .. " " .. part end
      if call("ZREM", key, unpack(parts)) > 0 then
        had = 1
        -- What is left may be the limit alone.
        if call("ZCARD", key) == 1 then call("DEL", key) end
      end
    elseif is_set and call("ZREM", key, attempt) == 1 then
      had = had + 1
      local before = rank == 0 and call("ZRANGE", key, "-1", "-1", "WITHSCORES")[2]
      if before then call("PEXPIREAT", key, before) end
    end
  end
  if had > 0 then return had end
end
local first = count == 1 and ask("GET", KEYS[2])
-- GET refuses a value that is no string, and MGET does not see it.
local values = count == 1 and not (first and first.err) and {first} or call("MGET", unpack(KEYS, 2))
first = values[1]
local all = first and (find(first, attempt .. " ", 1, true) == 1 or first == attempt)
for i = 2, count do
  if values[i] ~= first then all = false end
end
if all and not ARGV[3] then
  -- Asked before anything changes: a server may refuse it.
  local alone = (flags == "" or flags == "t") and call("EXISTS", queue, pure_waiters) == 0
  call("DEL", unpack(KEYS, 2))
  if alone then return count end
end
--- shared parts
local names, pure = names_in(KEYS), pure_wait()
local handed_over, deaf
local rest = has(flags, "k") and ARGV[3]
if all and rest then
  keep_locked(KEYS, names, first, rest)
  if has(flags, "x") then call("SET", tombstone .. attempt, "", "PX", "60000") end
  if pure then announce({free = {}}, names) end
  return count
end
if all and count == 1 and flags == "" and not ARGV[3] and not pure then handed_over, deaf = hand_over(KEYS, names[1], ttl_in(first)) end
if handed_over then return count end
local run, freed, modes = new_run(false, has(flags, "t")), names, modes_in(ARGV, rest and 4 or 3, names)
if all then run.before = ttl_in(first) end
-- An earlier library has granted alone what is shared.
if all and modes then call("DEL", unpack(KEYS, 2)) end
if not all then
  freed = {}
  for i = 1, count do
    local mode = modes and modes[names[i]]
    if is_of(values[i], attempt) then
      freed[#freed + 1] = names[i]
      call("DEL", KEYS[i + 1])
    elseif mode and leave(KEYS[i + 1], attempt, mode, run.now) then
      freed[#freed + 1] = names[i]
    end
  end
end
for i = 1, #freed do run.free[freed[i]] = not (modes and modes[freed[i]]) or nil end
if has(flags, "x") then call("SET", tombstone .. attempt, "", "PX", "60000") end
local waiter = deaf or not all and waiter_of(run, attempt)
if waiter then drop(run, waiter) end
grant(run, names)
if pure then announce(run, freed) end
return #freed
