-- Locks over many names, for Redis and Valkey.
--
-- Each function is one file: its arguments, its reply and its rules stand at its head. All have the keys
-- `P#f P#q P#w`, then `P l:name` for each name, sorted and distinct; P is the namespace's prefix, `{namespace}:`.
--
--   P l:name      string    `attempt token ttl`, or `attempt` where the pure handler took it; it exists while it is locked
--                           Once it was prolonged, `@` and the time of its grant stand in the ttl's place
--   P#f           integer   the counter of tokens and tickets: the only key that stays
--   P#q           zset      one member for each queued waiter and name: `name NUL class ticket16 NUL attempt`
--   P#w           hash      the waiters' records; `o:client:owner` is that owner's nested waiter in the queue
--   P#n           zset      one member for each parked waiter: `names joined by \1 NUL ticket16 NUL attempt`
--   P#p           string    there while clients of the pure handler wait
--   P#x:attempt   string    a tombstone: this attempt is not granted any more
--   P#c:client    channel   `g attempt token` (granted), `l attempt` (its lock was released by force)
--   P#freed       channel   names that are free now, joined by NUL
--
-- An attempt is `client:owner:number`. Times are relative; the only clock is the server's.
--
-- What every function but the ordinary lock and unlock uses:

-- 2024-01-01 in milliseconds: the clock's part of a number is counted from there, 4096 numbers to the millisecond, and
-- four of them to each microsecond.
local EPOCH, PER_MS, PER_US = 1704067200000, 4096, 4

-- The server's clock, in milliseconds.
local function clock()
  local time = call("TIME")
  local micros = time[2] + 0
  return time[1] * 1000 + (micros - micros % 1000) / 1000
end

-- The least that the counter is to be now: a counter that is lost and lost again begins higher each time.
local function floor_number()
  local time = call("TIME")
  local micros = time[2] % 1000
  return (time[1] * 1000 + (time[2] - micros) / 1000 - EPOCH) * PER_MS + micros * PER_US
end

-- The next token or ticket. One so small says that the counter was lost, and it goes on from the clock.
local function next_number(counter)
  local number = call("INCR", counter)
  if number < PER_MS then
    local floor = floor_number()
    if floor > number then
      number = floor
      call("SET", counter, format(whole, number))
    end
  end
  return number
end

local function has(flags, flag)
  return find(flags, flag, 1, true) ~= nil
end

local function is_of(value, attempt)
  return value and (find(value, attempt .. " ", 1, true) == 1 or value == attempt)
end

-- How many of the values are this attempt's.
local function owned(values, attempt)
  local count = 0
  for i = 1, #values do
    if is_of(values[i], attempt) then count = count + 1 end
  end
  return count
end

-- The holder's attempt and, unless the pure handler took the lock, its token and what its age is reckoned by.
local function holder_in(value)
  local space = find(value, " ", 1, true)
  if not space then return value, "" end
  local past = find(value, " ", space + 1, true)
  return sub(value, 1, space - 1), sub(value, space + 1, past and past - 1), past and sub(value, past + 1)
end

-- How long ago the lock was granted, in milliseconds, or -1. What was never prolonged tells it by its ttl.
local function age_of(value, pttl, now)
  local _, _, mark = holder_in(value)
  if not mark or pttl < 0 then return -1 end
  local age = sub(mark, 1, 1) == "@" and now - sub(mark, 2) or mark - pttl
  return age > 0 and age or 0
end

-- Lets a lock last for `ttl` from now: those of the keys from `first` to `last`, all of this value.
local function prolong(keys, first, last, value, ttl)
  local attempt, token, mark = holder_in(value)
  local age = mark and sub(mark, 1, 1) ~= "@" and age_of(value, call("PTTL", keys[first]), 0)
  for at = first, last do call("PEXPIRE", keys[at], ttl) end
  if not age then return end
  -- Behind another write it is carried out although memory is short.
  value = attempt .. " " .. token .. " @" .. format(whole, clock() - age)
  for at = first, last do call("PSETEX", keys[at], ttl, value) end
end

-- `client` of the attempt `client:owner:number`; nothing for a value that somebody else wrote.
local function client_of(attempt)
  local colon = find(attempt, ":", 1, true)
  return colon and sub(attempt, 1, colon - 1)
end

-- `client:owner` of it.
local function owner_of(attempt)
  local colon = find(attempt, ":", 1, true)
  colon = colon and find(attempt, ":", colon + 1, true)
  return colon and sub(attempt, 1, colon - 1)
end

local function prefix_in(keys)
  return sub(keys[1], 1, -3)
end

local function names_in(keys)
  local names, from = {}, #keys[1] + 1
  for i = 4, #keys do names[i - 3] = sub(keys[i], from) end
  return names
end

-- When the first of the keys with these values expires, in milliseconds, or -1. One attempt's keys expire together.
local function soonest(keys, values)
  if #values == 1 then return values[1] and call("PTTL", keys[4]) or -1 end
  local soonest, seen = -1, {}
  for i = 1, #values do
    local value = values[i]
    if value and not seen[value] then
      seen[value] = true
      local pttl = call("PTTL", keys[i + 3])
      if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
    end
  end
  return soonest
end
