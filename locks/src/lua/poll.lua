-- poll: attempt, ttl, waiter_ttl, flags (t: throughput before order), modes if some are shared
-- -> as lock, or {5}: unknown
--
-- The waiter itself is tried first, so that it is not lost behind more waiters than one call examines. The caller gets
-- an answer rather than a push. A nested waiter also learns of a new deadlock, and then stops waiting.
local modes = modes_in(ARGV, 5, names_in(KEYS))
return standing(KEYS, ARGV[1], ARGV[2], ARGV[3], has(ARGV[4], "t"), modes) or {5}
