//! Fencing tokens: numbers that grow with every grant, even if the server loses the counter.
//!
//! Tokens come from one counter. If the counter is lost, the server restarts it from its clock (4096 to the
//! millisecond), so tokens grow even over a `FLUSHALL`. A client tells each server the highest token it has seen. It
//! gives back a grant whose token is not higher than all it had seen before it asked.

/// The beginning of 2024, in milliseconds since 1970.
const EPOCH: u64 = 1_704_067_200_000;

/// Tokens per millisecond of the server's clock (about four per microsecond): more than a server can grant.
const PER_MILLISECOND: u64 = 4096;
const PER_MICROSECOND: u64 = 4;

/// The least value of the counter at a time of the server's clock, in microseconds since 1970. A lost counter restarts
/// there, above every token that it ever issued.
pub fn floor(server_time: u64) -> u64 {
    let milliseconds = (server_time / 1000).saturating_sub(EPOCH);
    milliseconds.saturating_mul(PER_MILLISECOND).saturating_add(server_time % 1000 * PER_MICROSECOND)
}
