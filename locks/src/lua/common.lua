-- Locks over many names, for Redis and Valkey.
--
-- Each function is a file that begins with its arguments, its reply and its rules. All have the key `P#f`, then
-- `P l:name` or `P p:name` for each name, sorted and distinct. A lock that shares some of its names gives the modes of
-- all, after its other arguments: `w` to write, `r` to read, `n/limit` for permits. P is the namespace's prefix,
-- `{namespace}:`; the other keys are made
-- from it, as each key that is sent costs the server more than a key that it made before. All are in one hash slot.
-- Where they are declared nevertheless, they come before `P#f`, and are gone from KEYS when the function begins.
--
--   P l:name      string    `attempt token ttl`, or `attempt` if the pure handler took it; exists while locked
--                           After a renewal, `@` and the time of the grant replace the ttl. In a name that stays
--                           locked although it was released, the attempt's owner is 0
--                 zset      while it is read: the readers (see shared.lua)
--   P p:name      zset      the holders of a pool's permits, and its limit; the queue knows it as `NUL name`
--   P#f           integer   the counter of tokens and tickets: the only key that stays
--   P#q           zset      one member for each queued waiter and name: `name NUL class ticket16 NUL attempt`
--   P#w           hash      the waiters' records; `o:client:owner` is that owner's nested waiter in the queue
--   P#n           zset      one member for each parked waiter: `names joined by \1 NUL ticket16 NUL attempt`
--   P#p           string    exists while clients of the pure handler wait
--   P#x:attempt   string    a tombstone: this attempt must not be granted
--   P#c:client    channel   `g attempt token` (granted), `l attempt` (its lock was released by force),
--                           `c attempt` (on a quorum: one that comes before it waits for its names),
--                           `p attempt` (the lock in its way may end earlier than the one before: ask again), `f names
--                           joined by NUL` (it may be the turn of a waiter for these, which the function must not grant)
--   P#freed       channel   names that are free now, joined by NUL. In both, an empty name announces a pool's
--   P r:name      string    of a rate, see rate.lua
--
-- An attempt is `client:owner:number`. Times are relative; the only clock is the server's.
--
-- Shared by all functions, except the ordinary cases of lock and unlock:

-- Numbers follow the clock since 2024-01-01 (in milliseconds): 4096 numbers per millisecond, 4 per microsecond.
local EPOCH, PER_MS, PER_US = 1704067200000, 4096, 4

-- The server's clock, in milliseconds.
local function clock()
  local time = call("TIME")
  local micros = time[2] + 0
  return time[1] * 1000 + (micros - micros % 1000) / 1000
end

-- The least value of the counter now. So a counter that is lost repeatedly begins higher each time.
local function floor_number()
  local time = call("TIME")
  local micros = time[2] % 1000
  return (time[1] * 1000 + (time[2] - micros) / 1000 - EPOCH) * PER_MS + micros * PER_US
end

-- The next token or ticket. A small number means that the counter was lost; it then continues from the clock.
local function next_number()
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

-- How many of the values belong to this attempt.
local function owned(values, attempt)
  local count = 0
  for i = 1, #values do
    if is_of(values[i], attempt) then count = count + 1 end
  end
  return count
end

-- The holder's attempt and, unless the pure handler took the lock, its token and the basis of its age.
local function holder_in(value)
  local space = find(value, " ", 1, true)
  if not space then return value, "" end
  local past = find(value, " ", space + 1, true)
  return sub(value, 1, space - 1), sub(value, space + 1, past and past - 1), past and sub(value, past + 1)
end

-- The milliseconds since the lock was granted, or -1. Without a renewal, the remaining ttl tells.
local function age_of(value, pttl, now)
  local _, _, mark = holder_in(value)
  if not mark or pttl < 0 then return -1 end
  local granted = sub(mark, 1, 1) == "@"
  local basis = tonumber(granted and sub(mark, 2) or mark)
  -- Another program's value may have any words.
  if not basis then return -1 end
  local age = granted and now - basis or basis - pttl
  return age > 0 and age or 0
end

-- Extends a lock to `ttl` from now: the keys from `first` to `last`, which all have this value.
local function prolong(keys, first, last, value, ttl)
  local attempt, token, mark = holder_in(value)
  local age = mark and sub(mark, 1, 1) ~= "@" and age_of(value, call("PTTL", keys[first]), 0)
  for at = first, last do call("PEXPIRE", keys[at], ttl) end
  if not age then return end
  -- After another write, this one is permitted even if memory is short.
  value = attempt .. " " .. token .. " @" .. format(whole, clock() - age)
  for at = first, last do call("PSETEX", keys[at], ttl, value) end
end

-- The `client` in an attempt `client:owner:number`; nil for a value that another program wrote.
local function client_of(attempt)
  local colon = find(attempt, ":", 1, true)
  return colon and sub(attempt, 1, colon - 1)
end

-- The `client:owner` in it.
local function owner_of(attempt)
  local colon = find(attempt, ":", 1, true)
  colon = colon and find(attempt, ":", colon + 1, true)
  return colon and sub(attempt, 1, colon - 1)
end

local function names_in(keys)
  local names, from = {}, #keys[1] + 1
  for i = 2, #keys do
    local name = sub(keys[i], from)
    names[i - 1] = sub(keys[i], from - 2, from - 2) == "p" and "\0" .. name or name
  end
  return names
end

-- The milliseconds until the first of the keys with these values expires, or -1. One attempt's keys expire together.
local function soonest(keys, values)
  local soonest, seen = -1, {}
  if #values == 1 then
    soonest = call("PTTL", keys[2])
    return soonest < 0 and -1 or soonest
  end
  for i = 1, #values do
    local value = values[i]
    if value and not seen[value] then
      seen[value] = true
      local pttl = call("PTTL", keys[i + 1])
      if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
    end
  end
  if next(seen) then return soonest end
  for i = 1, #values do
    local pttl = call("PTTL", keys[i + 1])
    if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
  end
  return soonest
end
