-- Taking locks, and waiting for them.

-- How many owners a search for a cycle visits.
local OWNERS = 1000

-- The values in the way of a waiter: those of its names, and the readers of those that it wants to write, except for its
-- own. That all permits are taken is no cycle, as others may give some back.
local function in_the_way(run, keys, first, waiter, values)
  local names, modes, all = waiter.names, waiter.modes, {}
  for i = 1, #names do
    local holders = {values[i]}
    if not values[i] then
      holders = not (modes and modes[names[i]]) and holders_of(keys[first + i - 1], run.now) or {}
    end
    for _, holder in ipairs(holders) do
      if not is_of(holder, waiter.attempt) then all[#all + 1] = holder end
    end
  end
  return all
end

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
      local keys = lock_keys(waiter.names)
      values = in_the_way(run, keys, 1, waiter, call("MGET", unpack(keys)))
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
  -- Earlier libraries remove members of waiters that share some of their names.
  if not waiter.modes and call("ZSCORE", queue, members(waiter)[1]) then
    keep(queue, waiter_ttl)
  else
    add_members(run, waiter, waiter_ttl)
  end
  try(run, waiter)
  grant(run, waiter.names)
  if run.token then return run.token end
  local values = call("MGET", unpack(keys, 2))
  local deadlock = waiter.class == NESTED and cycle(run, waiter.attempt, in_the_way(run, keys, 2, waiter, values))
  if deadlock then
    drop(run, waiter)
    grant(run, {})
    return deadlock
  end
  if waiter.modes then return -2 - soonest_shared(keys, waiter.names, waiter.modes, run.now) end
  contest(run, waiter, values)
  return -2 - soonest(keys, values)
end

-- The reply to an attempt that the server knows: cancelled, holding or waiting. Otherwise the names' values, and how
-- many of them are what is left of a grant that was lost in part.
local function standing(keys, attempt, ttl, waiter_ttl, throughput, modes)
  local values = call("MGET", tombstone .. attempt, unpack(keys, 2))
  if remove(values, 1) then return {3} end
  local left = owned(values, attempt)
  if modes then
    local names, now = names_in(keys), clock()
    local mine
    mine, left = parts_in(keys, names, modes, values, attempt, now)
    if left == #values then
      prolong_parts(keys, names, modes, values, attempt, ttl, now)
      for i = 1, #values do
        local _, token = holder_in(values[i] or "")
        if token ~= "" then return tonumber(token) or 0 end
      end
      return seen_number()
    end
    left = left > 0 and mine
  elseif left == #values then
    prolong(keys, 2, #keys, values[1], ttl)
    local _, token = holder_in(values[1])
    return tonumber(token) or 0
  end
  local record = call("HGET", records, attempt)
  local waiter = record and read(attempt, record)
  if not waiter then return nil, values, left end
  local run = new_run(attempt, throughput)
  run.waiters[attempt] = waiter
  if waiter.upgrades then
    -- It has lost what it was to write.
    forget(run, waiter)
    return nil, values, left
  end
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

-- The first that shares one of the names.
local function first_of_set(keys)
  for i = 2, #keys do
    local holder = holders_of(keys[i], clock())[1]
    if holder then return holder end
  end
end

-- The reply to an attempt that finds names taken and does not wait. With it goes what the first holder says about its
-- lock, or false, unless that key may not be used.
local function busy(keys, values, pttl, other)
  local value, age = first_holding(keys, values)
  value = value or first_of_set(keys) or other and 0
  if not value or value == 0 or declared then return {2, pttl, value, age} end
  local holder = holder_in(value)
  local remark = ask("GET", prefix .. "n:" .. holder)
  return {2, pttl, value, age, type(remark) == "string" and remark}
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
    reply = busy(keys, values, soonest(keys, values), other)
  else
    local waiter = {
      attempt = attempt, ticket = false, class = nested and NESTED or PLAIN, state = QUEUED, ttl = ttl, names = names,
    }
    reply = nested and cycle(run, attempt, in_the_way(run, keys, 2, waiter, values))
    if not reply then
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

-- Takes names of which some are shared, or waits for them.
local function share(keys, attempt, ttl, waiter_ttl, flags, modes)
  local nested, throughput = has(flags, "n"), has(flags, "t")
  local known, values, mine = standing(keys, attempt, ttl, waiter_ttl, throughput, modes)
  if known then return known end

  local run, names = new_run(attempt, throughput), names_in(keys)
  for i = 1, #names do
    local mode, key = modes[names[i]], keys[i + 1]
    if mine and mine[i] then
      if values[i] then call("DEL", key) else leave(key, attempt, mode, run.now) end
      make_due(run, {names[i]})
    end
    if mode and mode.count and set_limit(key, mode) then make_due(run, {names[i]}) end
  end
  local in_order = not nested and not throughput
  if in_order and anyone_waits(run, names) then grant(run, names) end

  local waiter = {
    attempt = attempt, ticket = false, class = nested and NESTED or PLAIN, state = QUEUED, ttl = ttl, names = names,
    modes = modes,
  }
  local reply
  if finds_room(run, waiter, in_order) then
    reply = are_written(names, modes) and next_number() or seen_number()
    occupy(run, waiter, attempt .. " " .. format(whole, reply))
  else
    values = call("MGET", unpack(keys, 2))
    local pttl = soonest_shared(keys, names, modes, run.now)
    if not has(flags, "w") then
      reply = busy(keys, values, pttl, not first_of(values) and call("EXISTS", unpack(keys, 2)) > 0)
    else
      reply = nested and cycle(run, attempt, in_the_way(run, keys, 2, waiter, values))
      if not reply then
        enqueue(run, waiter, waiter_ttl, throughput)
        reply = -2 - pttl
      end
    end
  end
  grant(run, {})
  return run.token or reply
end
