-- unlock: attempt, flags (x: leave a tombstone, t: throughput before order)
-- -> how many of the names it had
--
-- An attempt that waits, queued or parked, stops waiting.
local attempt, flags, count = ARGV[1], ARGV[2], #KEYS - 3
local values = call("MGET", sub(KEYS[1], 1, -3) .. "#p", unpack(KEYS, 4))
local pure, first = values[1], values[2]
local all = first and (find(first, attempt .. " ", 1, true) == 1 or first == attempt)
for i = 3, count + 1 do
  if values[i] ~= first then all = false end
end
if all then
  call("DEL", unpack(KEYS, 4))
  if not pure and (flags == "" or flags == "t") and call("EXISTS", KEYS[2]) == 0 then return count end
end
--- shared parts
local names = names_in(KEYS)
local handed_over, deaf
if all and count == 1 and flags == "" and not pure then handed_over, deaf = hand_over(KEYS, names[1]) end
if handed_over then return count end
local run, freed = new_run(KEYS, false, has(flags, "t")), names
if not all then
  freed = {}
  for i = 1, count do
    if is_of(values[i + 1], attempt) then
      freed[#freed + 1] = names[i]
      call("DEL", KEYS[i + 3])
    end
  end
end
for i = 1, #freed do run.free[freed[i]] = true end
if has(flags, "x") then call("SET", run.prefix .. "#x:" .. attempt, "", "PX", "60000") end
local waiter = deaf or not all and waiter_of(run, attempt)
if waiter then drop(run, waiter) end
grant(run, names)
if pure then announce(run, freed) end
return #freed
