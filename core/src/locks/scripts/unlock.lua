-- unlock: attempt, flags (x: leave a tombstone, t: throughput before order)
-- -> {how many names were its own, how many waiters were granted theirs}
--
-- An attempt that waits, queued or parked, does not wait any more.
local attempt, flags, count = ARGV[1], ARGV[2], #KEYS - 3
local values = call("MGET", unpack(KEYS, 4))
local first = values[1]
local whole = first and (sub(first, 1, #attempt + 1) == attempt .. " " or first == attempt)
for i = 2, count do
  if values[i] ~= first then whole = false end
end
if whole then
  call("DEL", unpack(KEYS, 4))
  if (flags == "" or flags == "t")
    and call("EXISTS", KEYS[2], KEYS[3], sub(KEYS[1], 1, -3) .. "#p") == 0 then
    return {count, 0}
  end
end
--- shared parts
local run = new_run(KEYS, false, has(flags, "t"))
local names, freed = names_in(KEYS), {}
for i = 1, count do
  if is_of(values[i], attempt) then
    freed[#freed + 1] = names[i]
    if not whole then call("DEL", KEYS[i + 3]) end
  end
end
if has(flags, "x") then call("SET", run.prefix .. "#x:" .. attempt, "", "PX", "60000") end
local waiter = not whole and waiter_of(run, attempt)
if waiter then drop(run, waiter) end
grant(run, names)
announce(run, freed)
return {#freed, run.granted}
