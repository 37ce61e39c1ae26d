-- Waiters: their records in #w, and their members in #q, one per name, or in #n while they are parked.
--
-- A record is `expiry16 ticket16 class state ttl NUL name NUL name …`, without the spaces. Its numbers are decimal and
-- of fixed width, so it can be cut without parsing. If some names are shared, the state is `m`, and each name comes after
-- its mode and a space. Earlier libraries grant only waiters in the states that they know, and remove others from the
-- queue; those come back with their next poll.
--
-- A holder that waits to write what it reads has the mode `u` for each name that it is to write. It is there when nobody
-- else has a part of these names. Earlier libraries take it for one that wants them free, which they never are.

local NESTED, PLAIN = "0", "1"
local QUEUED, PARKED, MIXED = "q", "p", "m"

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

-- Separates the modes from the names that a record has.
local function separate(waiter)
  local names, modes = waiter.names, {}
  for i = 1, #names do
    local space = find(names[i], " ", 1, true)
    local word, name = sub(names[i], 1, space - 1), sub(names[i], space + 1)
    local mode = mode_in(word)
    waiter.upgrades = waiter.upgrades or word == "u"
    if mode and mode.count then name = "\0" .. name end
    names[i], modes[name] = name, mode
  end
  waiter.state, waiter.modes = QUEUED, modes
end

-- The names as a record has them, with their modes.
local function mixed(waiter)
  local list, names, modes = {}, waiter.names, waiter.modes
  for i = 1, #names do
    local mode = modes[names[i]]
    list[i] = (mode and mode.word or waiter.upgrades and "u" or "w") .. " " .. (mode and mode.count and sub(names[i], 2) or names[i])
  end
  return list
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
  if waiter.state == MIXED then separate(waiter) end
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

local function key_of(name)
  return sub(name, 1, 1) == "\0" and prefix .. "p:" .. sub(name, 2) or prefix .. "l:" .. name
end

local function lock_keys(names)
  local keys = {}
  for i = 1, #names do keys[i] = key_of(names[i]) end
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
  local modes = waiter.modes
  local record = format(wide, expiry) .. waiter.ticket .. waiter.class .. (modes and MIXED or waiter.state) .. waiter.ttl
    .. "\0" .. concat(modes and mixed(waiter) or waiter.names, "\0")
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
    -- The name of a pool begins with NUL.
    live(run, sub(member, 1, (find(member, "\0", 2, true) or 1) - 1), member)
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
