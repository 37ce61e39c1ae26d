-- Who is next.

-- How many waiters are looked at for one name: nested ones, and any where throughput goes before order.
local NESTED_LOOK, THROUGHPUT_LOOK = "64", "16"

-- Says it to the client of an attempt; how many connections heard it.
local function tell(run, attempt, message)
  local client = client_of(attempt)
  return client and call("PUBLISH", run.prefix .. "#c:" .. client, message) or 0
end

-- Whether the waiter's names are all free and, if `in_order`, nobody waits before it for any of them.
local function fits(run, waiter, keys, in_order)
  local names, taken, heads = waiter.names, run.taken, run.heads
  for i = 1, #names do
    local first = in_order and heads[names[i]]
    if taken[names[i]] or (first and first ~= waiter) then return false end
  end
  if call("EXISTS", unpack(keys)) > 0 then return false end
  if in_order then
    for i = 1, #names do
      if head(run, names[i]) ~= waiter then return false end
    end
  end
  return true
end

-- Gives the waiter its names, if it can have them. One whose client has gone is dropped.
local function try(run, waiter)
  if run.failed[waiter] then return false end
  run.budget = run.budget - #waiter.names
  local keys = lock_keys(run, waiter.names)
  if not fits(run, waiter, keys, waiter.class == PLAIN and not run.throughput) then
    run.failed[waiter] = true
    return false
  end
  local attempt, token = waiter.attempt, next_number(run.counter)
  local value = attempt .. " " .. format("%.0f", token)
  if attempt == run.self then
    run.token = token
  elseif tell(run, attempt, "g " .. value) == 0 then
    drop(run, waiter)
    return false
  else
    run.granted = run.granted + 1
  end
  forget(run, waiter)
  value = value .. " " .. waiter.ttl
  for i = 1, #keys do
    call("PSETEX", keys[i], waiter.ttl, value)
    run.taken[waiter.names[i]] = true
  end
  return true
end

-- Tries the waiters from here on in their order, until one is granted.
local function try_each(run, name, high, count)
  for _, member in ipairs(lexical(run.queue, name .. "\0", name .. high, count)) do
    if run.budget <= 0 then return end
    local waiter = live(run, name, member)
    if waiter and try(run, waiter) then return end
  end
end

-- Grants what can be granted for these names, and for those of waiters that are dropped on the way.
--
-- Nested waiters overtake, so they wait for holders only. Plain ones wait for all before them, nested or plain.
local function grant(run, names)
  make_due(run, names)
  local at = 0
  while at < #run.due and run.budget > 0 do
    at = at + 1
    local name = run.due[at]
    run.is_due[name] = nil
    if run.taken[name] then
      -- Nobody else's turn.
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
  run.due, run.is_due = {}, {}
end

-- Tells clients of the pure handler, if any wait, which of these names are free now.
local function announce(run, names)
  if call("EXISTS", run.prefix .. "#p") == 0 then return end
  local free = {}
  for _, name in ipairs(names) do
    if not run.taken[name] then free[#free + 1] = name end
  end
  if #free > 0 then call("PUBLISH", run.prefix .. "#freed", concat(free, "\0")) end
end
