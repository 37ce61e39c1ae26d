-- unpark: attempt, ttl, waiter_ttl, flags (n: nested, t: throughput before order)
-- -> like lock with waiting
--
-- A parked or unknown attempt queues up at the end. A queued one keeps its place.
local attempt, flags = ARGV[1], ARGV[4]
local run = new_run(attempt, false)
local waiter = waiter_of(run, attempt)
if waiter and waiter.state == PARKED then forget(run, waiter) end
return take(KEYS, attempt, ARGV[2], ARGV[3], true, has(flags, "n"), has(flags, "t"))
