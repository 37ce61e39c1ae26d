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
    local waiting = found[at] and call("HGET", run.records, "o:" .. found[at].owner)
    local waiter = waiting and waiter_of(run, waiting)
    if waiter and waiter.expiry > run.now then
      values = call("MGET", unpack(lock_keys(run, waiter.names)))
    end
  until not found[at]
end

-- A waiter has asked again: it is alive, and it may be its turn.
local function stay(run, keys, waiter, ttl, waiter_ttl)
  waiter.ttl = ttl
  save(run, waiter, waiter_ttl)
  local ticket = tonumber(waiter.ticket)
  if waiter.state == PARKED then
    keep(run.parked, waiter_ttl)
    return {0, ticket, -1}
  end
  if call("ZSCORE", run.queue, members(waiter)[1]) then
    keep(run.queue, waiter_ttl)
  else
    add_members(run, waiter, waiter_ttl)
  end
  try(run, waiter)
  grant(run, waiter.names)
  if run.token then return {1, run.token} end
  local values = call("MGET", unpack(keys, 4))
  local deadlock = waiter.class == NESTED and cycle(run, waiter.attempt, values)
  if deadlock then
    drop(run, waiter)
    grant(run, {})
    return deadlock
  end
  return {0, ticket, soonest(keys, values)}
end

-- The reply to an attempt that the server knows: cancelled, holding or waiting. Otherwise the names' values.
local function standing(run, keys, attempt, ttl, waiter_ttl)
  local values = call("MGET", run.prefix .. "#x:" .. attempt, unpack(keys, 4))
  if table.remove(values, 1) then return {3} end
  if owned(values, attempt) == #values then
    prolong(keys, 4, #keys, values[1], ttl)
    local _, token = holder_in(values[1])
    return {1, tonumber(token) or 0}
  end
  local waiter = waiter_of(run, attempt)
  if waiter then return stay(run, keys, waiter, ttl, waiter_ttl) end
  return nil, values
end

local function first_of(values)
  for i = 1, #values do
    if values[i] then return values[i] end
  end
  return false
end

local function anyone_waits(run, names)
  for i = 1, #names do
    if head(run, names[i]) then return true end
  end
  return false
end

local function enqueue(run, attempt, ttl, waiter_ttl, class, names)
  local ticket = next_number(run.counter)
  local waiter = {
    attempt = attempt, ticket = format("%016.0f", ticket), class = class, state = QUEUED, ttl = ttl, names = names,
  }
  add_members(run, waiter, waiter_ttl)
  save(run, waiter, waiter_ttl)
  sweep(run, ticket)
  return ticket
end

local function take(run, keys, attempt, ttl, waiter_ttl, wait, nested)
  local known, values = standing(run, keys, attempt, ttl, waiter_ttl)
  if known then return known end

  local names = names_in(keys)
  for i = 1, #values do
    -- What is left of a grant that has been lost in part.
    if is_of(values[i], attempt) then
      call("DEL", keys[i + 3])
      values[i] = false
      make_due(run, {names[i]})
    end
  end

  local free = not first_of(values)
  if free and not nested and not run.throughput and anyone_waits(run, names) then
    grant(run, names)
    values = call("MGET", unpack(keys, 4))
    free = not first_of(values) and not anyone_waits(run, names)
  end

  local reply
  if free then
    local token = next_number(run.counter)
    local value = attempt .. " " .. format("%.0f", token) .. " " .. ttl
    for i = 1, #names do
      call("PSETEX", keys[i + 3], ttl, value)
      run.taken[names[i]] = true
    end
    reply = {1, token}
  elseif not wait then
    reply = {2, soonest(keys, values), first_of(values)}
  else
    reply = nested and cycle(run, attempt, values)
    if not reply then
      local ticket = enqueue(run, attempt, ttl, waiter_ttl, nested and NESTED or PLAIN, names)
      reply = {0, ticket, soonest(keys, values)}
    end
  end
  grant(run, {})
  return run.token and {1, run.token} or reply
end
