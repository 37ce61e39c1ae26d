-- poll: attempt, ttl, waiter_ttl, flags (t: throughput before order)
-- -> as lock, or {5}: unknown
--
-- The waiter itself is tried first, so that it is not lost behind more waiters than one call examines. The caller gets
-- an answer rather than a push. A nested waiter also learns of a new deadlock, and then stops waiting.
return standing(KEYS, ARGV[1], ARGV[2], ARGV[3], has(ARGV[4], "t")) or {5}
