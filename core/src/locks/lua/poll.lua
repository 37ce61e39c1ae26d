-- poll: attempt, ttl, waiter_ttl, flags (t: throughput before order)
-- -> as lock, or {5}: unknown
--
-- A waiter tries itself first, so that it is not lost behind more waiters than one call looks at. The caller is
-- answered and not pushed to. A nested waiter is also told of a cycle that has come about since, and waits no more.
return standing(KEYS, ARGV[1], ARGV[2], ARGV[3], has(ARGV[4], "t")) or {5}
