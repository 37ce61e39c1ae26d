-- unpark: attempt, ttl, waiter_ttl, flags (n: nested, t: throughput before order)
-- -> as a lock that waits
--
-- Parked or not known, it queues up at the end; queued already, it keeps its place.
local attempt, flags = ARGV[1], ARGV[4]
local run = new_run(KEYS, attempt, false)
local waiter = waiter_of(run, attempt)
if waiter and waiter.state == PARKED then forget(run, waiter) end
return take(KEYS, attempt, ARGV[2], ARGV[3], true, has(flags, "n"), has(flags, "t"))
