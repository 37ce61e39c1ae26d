-- unlock: attempt, then flags if there are any (x: leave a tombstone, t: throughput before order, k: the rest follows: how
-- long the names stay locked, if the attempt has them all), modes if some are shared
-- -> how many of the names it had
--
-- An attempt that waits, queued or parked, stops waiting.
local attempt, flags, count = ARGV[1], ARGV[2] or "", #KEYS - 1
if ARGV[3] == "r" and (flags == "" or flags == "t") then
  -- Removes a reader from names that nobody waits for. Returns whether this was the ordinary case.
  local function read_no_more()
    for i = 4, #ARGV do
      if ARGV[i] ~= "r" then return false end
    end
    if call("EXISTS", queue, pure_waiters) > 0 then return false end
    local ends, now = {}, false
    for i = 2, #KEYS do
      local lasts = ask("ZRANGE", KEYS[i], "-2", "-1", "WITHSCORES")
      if (lasts[3] or lasts[1]) == attempt then
        -- A key ends with the last of its readers, so that one is alive. Now it ends with the one before.
        ends[i] = lasts[3] and lasts[2]
      else
        local its = not lasts.err and call("ZSCORE", KEYS[i], attempt)
        now = now or call("TIME")
        if not its or its + 0 < now[1] * 1000 + (now[2] - now[2] % 1000) / 1000 then return false end
      end
    end
    for i = 2, #KEYS do
      call("ZREM", KEYS[i], attempt)
      if ends[i] then call("PEXPIREAT", KEYS[i], ends[i]) end
    end
    return true
  end
  if read_no_more() then return count end
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
