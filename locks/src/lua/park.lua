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
