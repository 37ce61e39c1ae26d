-- change: attempt, ttl, waiter_ttl, flags (w: wait, t: throughput before order), seen, the modes that the names are to have
-- -> the token of what it writes, or 0: it has these modes; -2 - pttl: it waits for others that read what it is to write;
--    {2, pttl, value, age} busy, with one of the others; {4, attempt, ...} deadlock, as lock; {6}: the attempt does not
--    have all names, and nothing has changed
--
-- What it is to read, it reads at once, and so do readers that wait. What it is to write, it reads on until nobody else
-- does. It waits as the holder that it is: before those that hold nothing, and newcomers wait behind it. What it waited
-- for before is void. In any case its ttl begins anew.
--
-- What it has written since a token higher than `seen`, it writes on: this call was overtaken by a later one.
local attempt, ttl, flags, seen = ARGV[1], ARGV[2], ARGV[4], ARGV[5] + 0
local waiter_ttl = math.min(ARGV[3] + 0, ttl + 0)
local names, values = names_in(KEYS), call("MGET", unpack(KEYS, 2))
local modes, run, reader = modes_in(ARGV, 6, names), new_run(attempt, has(flags, "t")), {word = "r"}
local waiter = waiter_of(run, attempt)
waiter = waiter and waiter.upgrades and waiter

local me = {
  attempt = attempt, ticket = false, class = NESTED, state = QUEUED, ttl = ttl, names = {}, modes = {}, upgrades = true,
}
local last, other, gains, token = -1, false, false, 0
for i = 1, #names do
  local name, key, mode, value = names[i], KEYS[i + 1], modes[names[i]], values[i]
  if not is_of(value, attempt) and (value or not takes_part(key, attempt, mode or reader, run.now)) then
    if waiter then drop(run, waiter) end
    grant(run, {})
    return {6}
  end
  local its = value and tonumber((select(2, holder_in(value)))) or 0
  if mode and its > seen then
    mode, modes[name] = nil, nil
    token = its
  elseif not mode then
    token = its > token and its or token
  end
  if not mode then
    me.names[#me.names + 1] = name
    if not value then
      gains = true
      local ends, who = others_end(key, attempt, run.now)
      if ends and ends > last then last, other = ends, who end
    end
  end
end

local at_once, read, written = gains and last < 0, {}, {}
for i = 1, #names do
  local key, mode, value = KEYS[i + 1], modes[names[i]], values[i]
  if mode or not value and not at_once then
    if value then
      call("DEL", key)
      read[#read + 1] = names[i]
    end
    join(key, attempt, mode or reader, ttl, run.now)
  elseif not at_once then
    written[#written + 1] = key
    written.value = value
  end
end
if written[1] then prolong(written, 1, #written, written.value, ttl) end
if #read > 0 then make_due(run, read) end

local reply = token
if at_once then
  if waiter then forget(run, waiter) end
  reply = next_number()
  occupy(run, me, attempt .. " " .. format(whole, reply))
elseif not gains then
  if waiter then drop(run, waiter) end
elseif not has(flags, "w") then
  if waiter then drop(run, waiter) end
  reply = {2, last, other, -1}
else
  local keys = lock_keys(me.names)
  reply = cycle(run, attempt, in_the_way(run, keys, 1, me, call("MGET", unpack(keys))))
  if reply then
    if waiter then drop(run, waiter) end
  elseif waiter then
    forget(run, waiter)
    me.ticket = waiter.ticket
    add_members(run, me, waiter_ttl)
    save(run, me, waiter_ttl)
  else
    enqueue(run, me, waiter_ttl, run.throughput)
  end
  reply = reply or -2 - last
end
grant(run, {})
if #read > 0 and pure_wait() then announce(run, read) end
return run.token or reply
