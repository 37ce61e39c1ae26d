#!lua name=pinyon_locks_6
local call, ask, sub, find, format, whole
local counter, prefix, queue, records, pure_waiters, tombstone, declared
local concat, remove, wide
-- Locks over many names, for Redis and Valkey.
--
-- Each function is a file that begins with its arguments, its reply and its rules. All have the key `P#f`, then
-- `P l:name` for each name, sorted and distinct. P is the namespace's prefix, `{namespace}:`; the other keys are made
-- from it, as each key that is sent costs the server more than a key that it made before. All are in one hash slot.
-- Where they are declared nevertheless, they come before `P#f`, and are gone from KEYS when the function begins.
--
--   P l:name      string    `attempt token ttl`, or `attempt` if the pure handler took it; exists while locked
--                           After a renewal, `@` and the time of the grant replace the ttl
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
--   P#freed       channel   names that are free now, joined by NUL
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
  for i = 2, #keys do names[i - 1] = sub(keys[i], from) end
  return names
end

-- The milliseconds until the first of the keys with these values expires, or -1. One attempt's keys expire together.
local function soonest(keys, values)
  if #values == 1 then return values[1] and call("PTTL", keys[2]) or -1 end
  local soonest, seen = -1, {}
  for i = 1, #values do
    local value = values[i]
    if value and not seen[value] then
      seen[value] = true
      local pttl = call("PTTL", keys[i + 1])
      if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
    end
  end
  return soonest
end
-- Waiters: their records in #w, and their members in #q, one per name, or in #n while they are parked.
--
-- A record is `expiry16 ticket16 class state ttl NUL name NUL name …`, without the spaces. Its numbers are decimal and
-- of fixed width, so it can be cut without parsing.

local NESTED, PLAIN = "0", "1"
local QUEUED, PARKED = "q", "p"

-- One in so many tickets selects a member to examine.
local SWEEP = 16

-- The work that one call may spend on the queue, about one unit per command. Later calls do the rest.
local BUDGET = 2500

-- One call's view of the queue. It is not cheap, so ordinary queueing and handing over do without it.
--
-- `self` is the attempt that gets an answer rather than a push. In `free`, a name is true if it is free, and false if
-- this call has granted it. Parts that few calls need are made on demand: the waiters that `failed`, and the names that
-- are `due`, of which the first `at` are done. `before` is the ttl of the lock that this call ends.
local function new_run(self, throughput, now)
  return {
    parked = prefix .. "#n", self = self, throughput = throughput, now = now or clock(), budget = BUDGET, token = false,
    before = 0, waiters = {}, heads = {}, free = {}, failed = false, due = false, is_due = false, at = 0,
  }
end

local function read(attempt, record)
  local from = find(record, "\0", 35, true)
  if not from then return false end
  local waiter = {
    attempt = attempt, expiry = sub(record, 1, 16) + 0, ticket = sub(record, 17, 32),
    class = sub(record, 33, 33), state = sub(record, 34, 34), ttl = sub(record, 35, from - 1), names = {},
  }
  local names = waiter.names
  repeat
    local to = find(record, "\0", from + 1, true)
    names[#names + 1] = sub(record, from + 1, to and to - 1)
    from = to
  until not to
  return waiter
end

local function waiter_of(run, attempt)
  local waiter = run.waiters[attempt]
  if waiter == nil then
    local record = call("HGET", records, attempt)
    waiter = record and read(attempt, record)
    run.waiters[attempt] = waiter
  end
  return waiter
end

local function lock_keys(names)
  local keys, before = {}, prefix .. "l:"
  for i = 1, #names do keys[i] = before .. names[i] end
  return keys
end

-- The part of its members after the name.
local function tail_of(waiter)
  return "\0" .. waiter.class .. waiter.ticket .. "\0" .. waiter.attempt
end

local function members(waiter)
  local list, tail = {}, tail_of(waiter)
  for i = 1, #waiter.names do list[i] = waiter.names[i] .. tail end
  return list
end

local function parked_member(waiter)
  return concat(waiter.names, "\1") .. "\0" .. waiter.ticket .. "\0" .. waiter.attempt
end

-- Lets a key outlive this waiter by at least half its ttl. An empty key vanishes by itself; expiry is for crashes.
local function keep(key, waiter_ttl)
  if call("PTTL", key) < 1.5 * waiter_ttl then call("PEXPIRE", key, format(whole, 2 * waiter_ttl)) end
end

-- Writes the record, with a new expiry.
local function write(waiter, expiry, waiter_ttl)
  local attempt = waiter.attempt
  local record = format(wide, expiry) .. waiter.ticket .. waiter.class .. waiter.state .. waiter.ttl
    .. "\0" .. concat(waiter.names, "\0")
  if waiter.class == NESTED and waiter.state == QUEUED then
    call("HSET", records, attempt, record, "o:" .. owner_of(attempt), attempt)
  else
    call("HSET", records, attempt, record)
  end
  keep(records, waiter_ttl)
end

local function save(run, waiter, waiter_ttl)
  waiter.expiry = run.now + waiter_ttl
  write(waiter, waiter.expiry, waiter_ttl)
  run.waiters[waiter.attempt] = waiter
end

-- Adds the members.
local function line_up(waiter, waiter_ttl)
  local list, names, tail = {}, waiter.names, tail_of(waiter)
  for i = 1, #names do list[2 * i - 1], list[2 * i] = "0", names[i] .. tail end
  call("ZADD", queue, unpack(list))
  keep(queue, waiter_ttl)
end

local function add_members(run, waiter, waiter_ttl)
  line_up(waiter, waiter_ttl)
  for i = 1, #waiter.names do run.heads[waiter.names[i]] = nil end
end

local function park(run, waiter, waiter_ttl)
  call("ZADD", run.parked, "0", parked_member(waiter))
  keep(run.parked, waiter_ttl)
  save(run, waiter, waiter_ttl)
end

local function forget(run, waiter)
  local attempt = waiter.attempt
  if waiter.state == PARKED then
    call("ZREM", run.parked, parked_member(waiter))
  else
    call("ZREM", queue, unpack(members(waiter)))
  end
  local owner = waiter.class == NESTED and "o:" .. owner_of(attempt)
  if owner and call("HGET", records, owner) == attempt then
    call("HDEL", records, attempt, owner)
  else
    call("HDEL", records, attempt)
  end
  run.waiters[attempt] = false
  for i = 1, #waiter.names do run.heads[waiter.names[i]] = nil end
end

-- Schedules these names' queues to be examined before the call ends.
local function make_due(run, names)
  local due, is_due = run.due, run.is_due
  if not due then
    run.due, run.at = names, 0
    return
  end
  if not is_due then
    -- Copied, since the list is the caller's.
    local left = {}
    is_due = {}
    for i = run.at + 1, #due do
      left[#left + 1] = due[i]
      is_due[due[i]] = true
    end
    due = left
    run.due, run.is_due, run.at = due, is_due, 0
  end
  for i = 1, #names do
    local name = names[i]
    if not is_due[name] then
      is_due[name] = true
      due[#due + 1] = name
    end
  end
end

-- Removes a waiter that blocks others.
local function drop(run, waiter)
  forget(run, waiter)
  run.budget = run.budget - #waiter.names
  if waiter.state == QUEUED then
    run.failed = false
    make_due(run, waiter.names)
  end
end

-- The first `count` members for the name. `high` sorts after the last class.
local function lexical(key, name, high, count)
  return call("ZRANGEBYLEX", key, "[" .. name .. "\0", "(" .. name .. high, "LIMIT", "0", count)
end

-- The live waiter that a member of #q belongs to. Removes other members.
local function live(run, name, member)
  run.budget = run.budget - 1
  local from = #name + 3
  local waiter = waiter_of(run, sub(member, from + 17))
  if not waiter or waiter.state ~= QUEUED or waiter.ticket ~= sub(member, from, from + 15) then
    call("ZREM", queue, member)
    return nil
  end
  if waiter.expiry <= run.now then
    drop(run, waiter)
    return nil
  end
  return waiter
end

local UNKNOWN = {}

-- The first live waiter for the name; `UNKNOWN` if the budget is used up; false if there is none.
local function head(run, name)
  local first = run.heads[name]
  if first ~= nil then return first end
  repeat
    if run.budget <= 0 then return UNKNOWN end
    local member = lexical(queue, name, "\1", "1")[1]
    first = member and live(run, name, member)
  until first or not member
  run.heads[name] = first or false
  return run.heads[name]
end

-- Examines a member now and then. This removes the remains of dead waiters, even for names that no call concerns any
-- more.
local function sweep(run, index)
  local size = call("ZCARD", queue)
  if size > 0 then
    local at = format(whole, index % size)
    local member = call("ZRANGE", queue, at, at)[1]
    live(run, sub(member, 1, (find(member, "\0", 1, true) or 1) - 1), member)
  end
  size = call("ZCARD", run.parked)
  if size > 0 then
    local at = format(whole, index % size)
    local member = call("ZRANGE", run.parked, at, at)[1]
    local from = (find(member, "\0", 1, true) or 0) + 1
    local waiter = waiter_of(run, sub(member, from + 17))
    if not waiter or waiter.state ~= PARKED or waiter.ticket ~= sub(member, from, from + 15) then
      call("ZREM", run.parked, member)
    elseif waiter.expiry <= run.now then
      forget(run, waiter)
    end
  end
end
-- Choosing the next holder.

-- How many waiters are examined for one name, if they are nested or throughput has priority.
local NESTED_LOOK, THROUGHPUT_LOOK = "64", "16"

-- Publishes to the client of an attempt.
local function tell(attempt, message)
  local client = client_of(attempt)
  if client then call("PUBLISH", prefix .. "#c:" .. client, message) end
end

-- Whether the client of an attempt listens to this server. A cluster passes what is published on to all nodes, and a
-- primary to its replicas: a client that listens only there must not hear that it was granted something, since it is
-- taken for gone.
local function listens(attempt)
  local client = client_of(attempt)
  return client and call("PUBSUB", "NUMSUB", prefix .. "#c:" .. client)[2] > 0
end

-- How many waiters are told at once that the lock in their way ends earlier than they know.
local TOLD = "64"

-- The ttl of a lock that ends now, as far as its value tells: those who wait for it asked again within this time. After
-- a renewal the value does not tell.
local function ttl_in(value)
  local _, _, mark = holder_in(value)
  return mark and sub(mark, 1, 1) ~= "@" and tonumber(mark) or math.huge
end

-- Has those who wait for the name ask again: its lock ends earlier than the one that they have seen.
local function have_look(name)
  local from = #name + 3
  for _, member in ipairs(lexical(queue, name, "\1", TOLD)) do
    local attempt = sub(member, from + 17)
    tell(attempt, "p " .. attempt)
  end
end

-- The ordinary end of a lock: its only name goes to the next waiter, which wants no other name. Returns whether this
-- settled it; if not, possibly with a waiter to drop because its client did not receive the message.
local function hand_over(keys, name, before)
  local member = lexical(queue, name, "\1", "1")[1]
  if not member then return true end
  local from = #name + 3
  local attempt = sub(member, from + 17)
  local record = call("HGET", records, attempt)
  local past = record and find(record, "\0", 35, true)
  if not past or sub(record, past + 1) ~= name or sub(record, 33, 34) ~= "1q"
    or sub(record, 17, 32) ~= sub(member, from, from + 15) or sub(record, 1, 16) + 0 <= clock() then
    return false
  end
  local value, ttl = attempt .. " " .. format(whole, next_number()), sub(record, 35, past - 1)
  if not listens(attempt) then return false, read(attempt, record) end
  tell(attempt, "g " .. value)
  call("ZREM", queue, member)
  call("HDEL", records, attempt)
  call("PSETEX", keys[2], ttl, value .. " " .. ttl)
  if ttl + 0 < before then have_look(name) end
  return true
end

-- Whether all the waiter's names may be used. If not, and those that may are free, its client is told to ask by itself.
-- A waiter's own call tells nobody: two waiters would make each other ask for ever.
local function may_use(run, waiter)
  if not declared then return true end
  local may, others = {}, false
  for _, key in ipairs(lock_keys(waiter.names)) do
    if declared[key] then may[#may + 1] = key else others = true end
  end
  if others and not run.self and (#may == 0 or call("EXISTS", unpack(may)) == 0) then
    tell(waiter.attempt, "f " .. concat(waiter.names, "\0"))
  end
  return not others
end

-- Whether the waiter's names are all free and, if `in_order`, it is the first to wait for each of them.
local function fits(run, waiter, in_order)
  local names, free, heads = waiter.names, run.free, run.heads
  local all_free = true
  for i = 1, #names do
    local is_free, first = free[names[i]], in_order and heads[names[i]]
    if is_free == false or (first and first ~= waiter) then return false end
    all_free = all_free and is_free
  end
  if not all_free and call("EXISTS", unpack(lock_keys(names))) > 0 then return false end
  if in_order then
    for i = 1, #names do
      if head(run, names[i]) ~= waiter then return false end
    end
  end
  return true
end

-- Grants the waiter its names, if possible. Drops a waiter whose client has gone.
local function try(run, waiter)
  if run.failed and run.failed[waiter] then return false end
  local names, ttl = waiter.names, waiter.ttl
  run.budget = run.budget - #names
  if not may_use(run, waiter) or not fits(run, waiter, waiter.class == PLAIN and not run.throughput) then
    run.failed = run.failed or {}
    run.failed[waiter] = true
    return false
  end
  local attempt, token = waiter.attempt, next_number()
  local value = attempt .. " " .. format(whole, token)
  if attempt == run.self then
    run.token = token
  elseif listens(attempt) then
    tell(attempt, "g " .. value)
  else
    drop(run, waiter)
    return false
  end
  forget(run, waiter)
  value = value .. " " .. ttl
  for i = 1, #names do
    call("PSETEX", prefix .. "l:" .. names[i], ttl, value)
    run.free[names[i]] = false
    if ttl + 0 < run.before then have_look(names[i]) end
  end
  return true
end

-- Tries waiters in order, until one is granted.
local function try_each(run, name, high, count)
  for _, member in ipairs(lexical(queue, name, high, count)) do
    if run.budget <= 0 then return end
    local waiter = live(run, name, member)
    if waiter and try(run, waiter) then return end
  end
end

-- Grants what it can for these names, and for the names of waiters that it drops on the way.
--
-- Nested waiters overtake, so they wait only for holders. Plain ones wait for all waiters before them.
local function grant(run, names)
  make_due(run, names)
  while run.at < #run.due and run.budget > 0 do
    run.at = run.at + 1
    local name = run.due[run.at]
    if run.is_due then run.is_due[name] = nil end
    if run.free[name] == false then
      -- This call has just granted it.
    elseif run.throughput then
      try_each(run, name, "\1", THROUGHPUT_LOOK)
    else
      local first = head(run, name)
      if first and first.class == NESTED then
        try_each(run, name, "\0001", NESTED_LOOK)
      elseif first and first ~= UNKNOWN then
        try(run, first)
      end
    end
  end
  run.due, run.is_due = false, false
end

local function pure_wait()
  return call("EXISTS", pure_waiters) == 1
end

-- Tells waiting clients of the pure handler which of these names are free.
local function announce(run, names)
  local free = {}
  for i = 1, #names do
    if run.free[names[i]] ~= false then free[#free + 1] = names[i] end
  end
  if #free > 0 then call("PUBLISH", prefix .. "#freed", concat(free, "\0")) end
end
-- Taking locks, and waiting for them.

-- How many owners a search for a cycle visits.
local OWNERS = 1000

-- The holders in turn, from those of `values` to one of the waiting attempt's own owner, each waiting for the next:
-- the reply that says so, or nothing. Only nested waiters are looked at: the others hold nothing.
local function cycle(run, attempt, values)
  local me, seen, found = owner_of(attempt), {}, {}
  local at = 0
  repeat
    for _, value in ipairs(values) do
      local holder = value and holder_in(value)
      local owner = holder and owner_of(holder)
      if owner == me then
        local reply, from = {4}, at
        local turns = {holder}
        while from > 0 do
          turns[#turns + 1] = found[from].holder
          from = found[from].from
        end
        for i = #turns, 1, -1 do reply[#reply + 1] = turns[i] end
        return reply
      elseif owner and not seen[owner] and #found < OWNERS then
        seen[owner] = true
        found[#found + 1] = {holder = holder, owner = owner, from = at}
      end
    end
    values = {}
    at = at + 1
    local waiting = found[at] and call("HGET", records, "o:" .. found[at].owner)
    local waiter = waiting and waiter_of(run, waiting)
    if waiter and waiter.expiry > run.now and may_use(run, waiter) then
      values = call("MGET", unpack(lock_keys(waiter.names)))
    end
  until not found[at]
end

-- The place of an attempt in the order that all servers of a quorum share: its class and its rank, which are the first
-- fourteen of its number's sixteen hexadecimal digits. Attempts on one server have shorter numbers, and no place.
local function place_of(attempt)
  local number = sub(attempt, -17, -17) == ":" and sub(attempt, -16)
  return number and not find(number, ":", 1, true) and sub(number, 1, 14)
end

-- The rank, in halves that are exact for servers with short integers.
local function rank_of(attempt)
  local place = place_of(attempt)
  return place and tonumber(sub(place, 2, 7), 16) * 2 ^ 28 + tonumber(sub(place, 8), 16)
end

local function precedes(attempt, other)
  local place, its = place_of(attempt), place_of(other)
  return place and its and (place < its or place == its and attempt < other)
end

-- Tells the holders of these values that an attempt which comes before theirs is the first to wait. On a quorum, they
-- give way unless they have a majority.
local function contest(run, waiter, values)
  for i = 1, #values do
    local holder = values[i] and holder_in(values[i])
    if holder and precedes(waiter.attempt, holder) then
      local first = head(run, waiter.names[i])
      if first and first.attempt == waiter.attempt then tell(holder, "c " .. holder) end
    end
  end
end

-- A waiter has asked again: it is alive, and it may be its turn.
local function stay(run, keys, waiter, ttl, waiter_ttl)
  waiter.ttl = ttl
  save(run, waiter, waiter_ttl)
  if waiter.state == PARKED then
    keep(run.parked, waiter_ttl)
    return -1
  end
  if call("ZSCORE", queue, members(waiter)[1]) then
    keep(queue, waiter_ttl)
  else
    add_members(run, waiter, waiter_ttl)
  end
  try(run, waiter)
  grant(run, waiter.names)
  if run.token then return run.token end
  local values = call("MGET", unpack(keys, 2))
  local deadlock = waiter.class == NESTED and cycle(run, waiter.attempt, values)
  if deadlock then
    drop(run, waiter)
    grant(run, {})
    return deadlock
  end
  contest(run, waiter, values)
  return -2 - soonest(keys, values)
end

-- The reply to an attempt that the server knows: cancelled, holding or waiting. Otherwise the names' values, and how
-- many of them are what is left of a grant that was lost in part.
local function standing(keys, attempt, ttl, waiter_ttl, throughput)
  local values = call("MGET", tombstone .. attempt, unpack(keys, 2))
  if remove(values, 1) then return {3} end
  local left = owned(values, attempt)
  if left == #values then
    prolong(keys, 2, #keys, values[1], ttl)
    local _, token = holder_in(values[1])
    return tonumber(token) or 0
  end
  local record = call("HGET", records, attempt)
  local waiter = record and read(attempt, record)
  if not waiter then return nil, values, left end
  local run = new_run(attempt, throughput)
  run.waiters[attempt] = waiter
  return stay(run, keys, waiter, ttl, waiter_ttl)
end

local function first_of(values)
  for i = 1, #values do
    if values[i] then return values[i] end
  end
  return false
end

-- The first value, and how long ago that lock was granted, or -1.
local function first_holding(keys, values)
  for i = 1, #values do
    if values[i] then return values[i], age_of(values[i], call("PTTL", keys[i + 1]), clock()) end
  end
  return false, -1
end

local function anyone_waits(run, names)
  for i = 1, #names do
    if head(run, names[i]) then return true end
  end
  return false
end

-- Queues up: at the end, or on a quorum by rank. Returns the run, which is made here if there is none and one is needed.
local function enqueue(run, waiter, waiter_ttl, throughput)
  local ticket, now = rank_of(waiter.attempt) or next_number(), run and run.now or clock()
  waiter.ticket = format(wide, ticket)
  line_up(waiter, waiter_ttl)
  write(waiter, now + waiter_ttl, waiter_ttl)
  if run then run.heads, run.waiters[waiter.attempt] = {}, nil end
  if ticket % SWEEP == 0 then
    run = run or new_run(waiter.attempt, throughput, now)
    sweep(run, ticket / SWEEP)
  end
  return run
end

local function take(keys, attempt, ttl, waiter_ttl, wait, nested, throughput)
  local known, values, left = standing(keys, attempt, ttl, waiter_ttl, throughput)
  if known then return known end

  local names, holder = names_in(keys), first_of(values)
  local run = (nested or left > 0 or not holder) and new_run(attempt, throughput)
  if left > 0 then
    for i = 1, #values do
      if is_of(values[i], attempt) then
        call("DEL", keys[i + 1])
        values[i] = false
        make_due(run, {names[i]})
      end
    end
    holder = first_of(values)
  end
  if not holder and not nested and not throughput and anyone_waits(run, names) then
    grant(run, names)
    values = call("MGET", unpack(keys, 2))
    holder = first_of(values) or anyone_waits(run, names)
  end

  -- MGET does not see a value that is no string.
  local other = not holder and call("EXISTS", unpack(keys, 2)) > 0
  holder = holder or other

  local reply
  if not holder then
    local token = next_number()
    local value = attempt .. " " .. format(whole, token) .. " " .. ttl
    for i = 1, #names do
      call("PSETEX", keys[i + 1], ttl, value)
      run.free[names[i]] = false
    end
    reply = token
  elseif not wait then
    local value, age = first_holding(keys, values)
    reply = {2, soonest(keys, values), value or other and 0, age}
  else
    reply = nested and cycle(run, attempt, values)
    if not reply then
      local waiter = {
        attempt = attempt, ticket = false, class = nested and NESTED or PLAIN, state = QUEUED, ttl = ttl, names = names,
      }
      run = enqueue(run, waiter, waiter_ttl, throughput)
      if place_of(attempt) then
        run = run or new_run(attempt, throughput)
        -- It may have overtaken those for whom free names were kept.
        if not first_of(values) then make_due(run, names) end
        contest(run, waiter, values)
      end
      reply = -2 - soonest(keys, values)
    end
  end
  if not run then return reply end
  grant(run, {})
  return run.token or reply
end

redis.register_function{function_name = 'pinyon_open_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- open: the highest number that the client has seen -> {counter}, raised to it and to the clock if necessary
local number, floor, seen = tonumber(call("GET", counter) or "0"), floor_number(), tonumber(ARGV[1])
if floor < seen then floor = seen end
if number < floor then
  number = floor
  call("SET", counter, format(whole, number))
end
return {number}
end}

redis.register_function{function_name = 'pinyon_lock_6', flags = {}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- lock: attempt, ttl, waiter_ttl, flags (w: wait, n: nested, t: throughput before order)
-- -> the token: granted; -2 - pttl: queued; {2, pttl, value, age} busy, with the first holder's value, 0 (no string) or nil; {3} cancelled;
--    {4, attempt, ...} deadlock: the holders in turn. A pttl is -1 where there is none.
--    An array costs more than a number, and a number that is alone is what is answered most.
--
-- An attempt that holds all its names is granted again, with the same token and its ttl anew; one that waits keeps its
-- ticket. What is left of a grant that was lost in part is given up first.
local attempt = ARGV[1]
if call("EXISTS", tombstone .. attempt, queue, records, unpack(KEYS, 2)) == 0 then
  local token = call("INCR", counter)
  if token >= 4096 then
    local ttl = ARGV[2]
    local value = attempt .. " " .. format(whole, token) .. " " .. ttl
    for i = 2, #KEYS do call("PSETEX", KEYS[i], ttl, value) end
    return token
  end
end
local flags, waiter_ttl = ARGV[4], ARGV[3] + 0
if flags == "w" then return take(KEYS, attempt, ARGV[2], waiter_ttl, true, false, false) end
return take(KEYS, attempt, ARGV[2], waiter_ttl, has(flags, "w"), has(flags, "n"), has(flags, "t"))
end}

redis.register_function{function_name = 'pinyon_unlock_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- unlock: attempt, then flags if there are any (x: leave a tombstone, t: throughput before order)
-- -> how many of the names it had
--
-- An attempt that waits, queued or parked, stops waiting.
local attempt, flags, count = ARGV[1], ARGV[2] or "", #KEYS - 1
local first = count == 1 and ask("GET", KEYS[2])
-- GET refuses a value that is no string, and MGET does not see it.
local values = count == 1 and not (first and first.err) and {first} or call("MGET", unpack(KEYS, 2))
first = values[1]
local all = first and (find(first, attempt .. " ", 1, true) == 1 or first == attempt)
for i = 2, count do
  if values[i] ~= first then all = false end
end
if all then
  -- Asked before anything changes: a server may refuse it.
  local alone = (flags == "" or flags == "t") and call("EXISTS", queue, pure_waiters) == 0
  call("DEL", unpack(KEYS, 2))
  if alone then return count end
end
local names, pure = names_in(KEYS), pure_wait()
local handed_over, deaf
if all and count == 1 and flags == "" and not pure then handed_over, deaf = hand_over(KEYS, names[1], ttl_in(first)) end
if handed_over then return count end
local run, freed = new_run(false, has(flags, "t")), names
if all then run.before = ttl_in(first) end
if not all then
  freed = {}
  for i = 1, count do
    if is_of(values[i], attempt) then
      freed[#freed + 1] = names[i]
      call("DEL", KEYS[i + 1])
    end
  end
end
for i = 1, #freed do run.free[freed[i]] = true end
if has(flags, "x") then call("SET", tombstone .. attempt, "", "PX", "60000") end
local waiter = deaf or not all and waiter_of(run, attempt)
if waiter then drop(run, waiter) end
grant(run, names)
if pure then announce(run, freed) end
return #freed
end}

redis.register_function{function_name = 'pinyon_poll_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- poll: attempt, ttl, waiter_ttl, flags (t: throughput before order)
-- -> as lock, or {5}: unknown
--
-- The waiter itself is tried first, so that it is not lost behind more waiters than one call examines. The caller gets
-- an answer rather than a push. A nested waiter also learns of a new deadlock, and then stops waiting.
return standing(KEYS, ARGV[1], ARGV[2], ARGV[3], has(ARGV[4], "t")) or {5}
end}

redis.register_function{function_name = 'pinyon_extend_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- extend: n, then n times: attempt, ttl, count of names; the keys are in the same order
-- -> n times 1 (extended) or 0 (the attempt no longer has all of its names)
local reply, key = {}, 2
for i = 1, tonumber(ARGV[1]) do
  local attempt, ttl, count = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  local past = key + count
  local values = call("MGET", unpack(KEYS, key, past - 1))
  reply[i] = owned(values, attempt) == count and 1 or 0
  if reply[i] == 1 then prolong(KEYS, key, past - 1, values[1], ttl) end
  key = past
end
return reply
end}

redis.register_function{function_name = 'pinyon_raise_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
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
end}

redis.register_function{function_name = 'pinyon_park_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- park: attempt, ttl, waiter_ttl, flags (n: will be nested, t: throughput before order)
-- -> -1: parked, and the names are released; {6}: the attempt did not have all names, and nothing has changed
--
-- An attempt that already waits stays as it is. After a lost reply, a poll tells whether it was parked, notified and
-- granted again: then its token has changed.
local attempt, flags = ARGV[1], ARGV[4]
local run = new_run(false, has(flags, "t"))
local values = call("MGET", unpack(KEYS, 2))
if owned(values, attempt) < #values then
  local waiter = waiter_of(run, attempt)
  return waiter and -1 or {6}
end
call("DEL", unpack(KEYS, 2))
run.before = ttl_in(values[1])
local names, ticket = names_in(KEYS), next_number()
park(run, {
  attempt = attempt, ticket = format(wide, ticket), class = has(flags, "n") and NESTED or PLAIN, state = PARKED,
  ttl = ARGV[2], names = names,
}, ARGV[3])
grant(run, names)
if pure_wait() then announce(run, names) end
return -1
end}

redis.register_function{function_name = 'pinyon_unpark_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- unpark: attempt, ttl, waiter_ttl, flags (n: nested, t: throughput before order)
-- -> like lock with waiting
--
-- A parked or unknown attempt queues up at the end. A queued one keeps its place.
local attempt, flags = ARGV[1], ARGV[4]
local run = new_run(attempt, false)
local waiter = waiter_of(run, attempt)
if waiter and waiter.state == PARKED then forget(run, waiter) end
return take(KEYS, attempt, ARGV[2], ARGV[3], true, has(flags, "n"), has(flags, "t"))
end}

redis.register_function{function_name = 'pinyon_notify_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- notify: attempt, most (0: all)
-- -> {0, how many were moved}; {6}: the attempt does not have all names
--
-- Moves the first waiters parked on exactly these names to the end of the queue, with new tickets. Expired waiters, and
-- those whose client does not listen, are forgotten and not counted.
local attempt, most = ARGV[1], tonumber(ARGV[2])
local run = new_run(false, false)
local values = call("MGET", unpack(KEYS, 2))
if owned(values, attempt) < #values then return {6} end
local names = names_in(KEYS)
local joined, exactly = concat(names, "\1"), concat(names, "\0")
local others, moved = 0, 0

local function hears(waiter)
  return call("PUBSUB", "NUMSUB", prefix .. "#c:" .. client_of(waiter.attempt))[2] > 0
end

-- Whether the member belongs to another lock, with names that contain \1.
local function move(member)
  local from = #joined + 2
  local waiter = waiter_of(run, sub(member, from + 17))
  if not waiter or waiter.state ~= PARKED or waiter.ticket ~= sub(member, from, from + 15) then
    call("ZREM", run.parked, member)
  elseif waiter.expiry <= run.now or not hears(waiter) then
    forget(run, waiter)
  elseif concat(waiter.names, "\0") ~= exactly then
    return true
  else
    call("ZREM", run.parked, member)
    waiter.ticket, waiter.state = format(wide, next_number()), QUEUED
    local left = format(whole, waiter.expiry - run.now)
    add_members(run, waiter, left)
    save(run, waiter, left)
    moved = moved + 1
  end
end

repeat
  local page = call("ZRANGEBYLEX", run.parked, "[" .. joined .. "\0", "(" .. joined .. "\1", "LIMIT", others, "64")
  for _, member in ipairs(page) do
    if most > 0 and moved == most then break end
    if move(member) then others = others + 1 end
  end
until #page == 0 or (most > 0 and moved == most)
return {0, moved}
end}

redis.register_function{function_name = 'pinyon_inspect_6', flags = {'no-writes'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- inspect -> for each name {value, pttl, age, attempts that wait, ...}: at most a thousand live ones.
-- The value of a free name is nil, and one that is no string is 0.
local run, reply = new_run(false, false), {}
local values = call("MGET", unpack(KEYS, 2))
for i, name in ipairs(names_in(KEYS)) do
  local pttl = call("PTTL", KEYS[i + 1])
  local entry = {values[i] or pttl ~= -2 and 0, pttl, values[i] and age_of(values[i], pttl, run.now) or -1}
  for _, member in ipairs(lexical(queue, name, "\1", "1000")) do
    local from = #name + 3
    local waiter = waiter_of(run, sub(member, from + 17))
    if waiter and waiter.ticket == sub(member, from, from + 15) and waiter.expiry > run.now then
      entry[#entry + 1] = waiter.attempt
    end
  end
  reply[i] = entry
end
return reply
end}

redis.register_function{function_name = 'pinyon_force_release_6', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
-- force_release: token or "", flags (t: throughput before order)
-- -> {how many names were released}; with a token, only names whose holder has it
local only = ARGV[1]
local run, freed, told = new_run(false, has(ARGV[2], "t")), {}, {}
local values, names = call("MGET", unpack(KEYS, 2)), names_in(KEYS)
for i = 1, #names do
  local value = values[i]
  local holder, token
  if value then holder, token = holder_in(value) end
  if (only == "" or value and only == token) and call("DEL", KEYS[i + 1]) == 1 then
    run.before = math.huge
    freed[#freed + 1] = names[i]
    if holder and not told[holder] then
      told[holder] = true
      tell(holder, "l " .. holder)
    end
  end
end
grant(run, names)
if pure_wait() then announce(run, freed) end
return {#freed}
end}
