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

-- Leaves an attempt's names, which all have this value, to nobody for `rest`: the owner 0 neither renews nor releases
-- them. Their waiters ask again, and learn how long that is.
local function keep_locked(keys, names, value, rest)
  local attempt, token, mark = holder_in(value)
  local kept = client_of(attempt) .. ":0" .. sub(attempt, #owner_of(attempt) + 1)
  if mark then
    local now = clock()
    kept = kept .. " " .. token .. " @" .. format(whole, now - age_of(value, call("PTTL", keys[2]), now))
  end
  for i = 1, #names do
    call("PSETEX", keys[i + 1], rest, kept)
    have_look(names[i])
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

-- Whether only readers of the name wait before this one, or before a newcomer.
local function only_readers_before(run, waiter, name)
  local from = "[" .. name .. "\0"
  repeat
    local page = call("ZRANGEBYLEX", queue, from, "(" .. name .. "\1", "LIMIT", "0", "64")
    for _, member in ipairs(page) do
      if run.budget <= 0 then return false end
      local other = live(run, name, member)
      if other == waiter then return true end
      local mode = other and other.modes and other.modes[name]
      if other and (not mode or mode.count) then return false end
      from = "(" .. member
    end
  until #page == 0
  return true
end

local function is_in_turn(run, waiter, name)
  local mode = waiter.modes[name]
  if mode and not mode.count then return only_readers_before(run, waiter, name) end
  local first = head(run, name)
  return not first or first == waiter
end

-- Whether there is room for the waiter at each of its names and, if `in_order`, it is its turn. A newcomer's turn is
-- after those that wait.
local function finds_room(run, waiter, in_order)
  for _, name in ipairs(waiter.names) do
    if run.free[name] == false then return false end
    if waiter.upgrades then
      if not has_alone(key_of(name), waiter.attempt, run.now) then return false end
    elseif not has_room(key_of(name), waiter.modes[name], run.now) then
      return false
    end
    if in_order and not is_in_turn(run, waiter, name) then return false end
  end
  return true
end

-- The ttl of what a waiter is given. What it has already, it may have extended since it began to wait.
local function ttl_of(run, waiter)
  local ttl = waiter.ttl
  if not waiter.upgrades then return ttl end
  for _, key in ipairs(lock_keys(waiter.names)) do
    local left = has_alone(key, waiter.attempt, run.now)
    if left > ttl + 0 then ttl = format(whole, left) end
  end
  return ttl
end

-- Gives the waiter its names. `value`: its attempt and token.
local function occupy(run, waiter, value)
  local names, modes, ttl = waiter.names, waiter.modes, ttl_of(run, waiter)
  for i = 1, #names do
    local name = names[i]
    local mode = modes and modes[name]
    if mode then
      join(key_of(name), waiter.attempt, mode, ttl, run.now)
      run.free[name] = nil
    else
      call("PSETEX", key_of(name), ttl, value .. " " .. ttl)
      run.free[name] = false
    end
    if ttl + 0 < run.before then have_look(name) end
  end
end

-- Whether the waiter's names are all free and, if `in_order`, it is the first to wait for each of them.
local function fits(run, waiter, in_order)
  if waiter.modes then return finds_room(run, waiter, in_order) end
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
  local names, modes = waiter.names, waiter.modes
  run.budget = run.budget - #names
  if not may_use(run, waiter) or not fits(run, waiter, waiter.class == PLAIN and not run.throughput) then
    run.failed = run.failed or {}
    run.failed[waiter] = true
    return false
  end
  local attempt = waiter.attempt
  local token = modes and not are_written(names, modes) and seen_number() or next_number()
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
  occupy(run, waiter, value)
  return true
end

-- Tries the waiters for a name that several can have, in their order. A reader that waits for other names, too, lets
-- the readers behind it pass; a writer, and one that wants permits, lets nobody pass.
local function try_in_turn(run, name)
  repeat
    local granted = 0
    for _, member in ipairs(lexical(queue, name, "\1", "64")) do
      if run.budget <= 0 then return end
      local waiter = live(run, name, member)
      local mode = waiter and waiter.modes and waiter.modes[name]
      if waiter and try(run, waiter) then
        if not mode then return end
        granted = granted + 1
      elseif waiter and waiter.class ~= NESTED and (not mode or mode.count) then
        return
      end
    end
  until granted == 0
end

-- Tries waiters in order, until one has the name alone.
local function try_each(run, name, high, count)
  for _, member in ipairs(lexical(queue, name, high, count)) do
    if run.budget <= 0 then return end
    local waiter = live(run, name, member)
    if waiter and try(run, waiter) and run.free[name] == false then return end
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
      if first and first.modes then
        try_in_turn(run, name)
      elseif first and first.class == NESTED then
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
