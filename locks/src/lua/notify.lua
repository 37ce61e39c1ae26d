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
