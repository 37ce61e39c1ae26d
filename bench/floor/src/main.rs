//! The floor: the cost of a client's bytes on a bare blocking socket.
//!
//! It is a contestant like the others (JSON lines, see `bench/pinyon_bench/protocol.py`). It sends the same requests as
//! Pinyon, reads each reply to its end, and looks at nothing else; it compares replies only to be verified. No client can be
//! faster by more than noise.
//!
//! For locks, it is the cheapest lock possible: one script that takes, and one that releases.

mod client;
mod connection;
mod locks;
mod pairs;
mod ring;
mod rows;
mod timing;
mod verify;

use std::io::{self, BufRead, Write};

use serde_json::{json, Value};

type Outcome<T> = Result<T, Failure>;

/// Why a request failed.
#[derive(Debug)]
enum Failure {
    /// The request makes no sense, or a reply of the server was wrong.
    Wrong(String),
    /// The floor does not have this operation.
    Cannot(String),
    /// The socket failed.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

fn main() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let reply = match answer(&line?) {
            Ok(reply) => reply,
            Err(Failure::Cannot(reason)) => json!({"ok": false, "cannot": true, "reason": reason}),
            Err(Failure::Wrong(reason)) => json!({"ok": false, "reason": reason}),
            Err(Failure::Io(error)) => json!({"ok": false, "reason": error.to_string()}),
        };
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(line: &str) -> Outcome<Value> {
    let request: Value = serde_json::from_str(line).map_err(|error| Failure::Wrong(error.to_string()))?;
    match request["do"].as_str() {
        Some("describe") => Ok(json!({
            "ok": true,
            "version": env!("CARGO_PKG_VERSION"),
            "configuration": "Rust, blocking sockets, TCP_NODELAY; Pinyon's bytes; replies read, not checked; \
                              N coroutines: N requests in one write, then their replies; \
                              locks: EVALSHA of a minimal lock and its release",
        })),
        Some("play") => play(&request["row"]),
        other => Err(Failure::Cannot(format!("no request {other:?}"))),
    }
}

fn play(row: &Value) -> Outcome<Value> {
    let check = row["check"] == true;
    if locks::is_locks(row) {
        let locks = locks::Locks::parse(row)?;
        let done = if check { locks.verify()? } else { locks.measure()? };
        let more = json!({"cycles": done.cycles, "seconds": done.seconds, "inside": []});
        return Ok(timed(&done.timing, more));
    }
    if pairs::is_pairs(row) {
        let (timing, seconds) = pairs::Pairs::parse(row)?.measure()?;
        return Ok(timed(&timing, json!({"seconds": seconds})));
    }
    let row = rows::Row::parse(row)?;
    if check {
        return Ok(json!({"ok": true, "replies": verify::replies(&row)?}));
    }
    Ok(timed(&timing::measure(&row)?, json!({})))
}

fn timed(timing: &timing::Timing, mut reply: Value) -> Value {
    reply["ok"] = true.into();
    for (name, seconds) in [("wall", timing.wall), ("user", timing.user), ("system", timing.system)] {
        reply[name] = seconds.into();
    }
    reply
}
