//! Measures a row: the elapsed time, and the processor time of this process.

use std::mem::MaybeUninit;
use std::time::Instant;

use crate::client::Client;
use crate::rows::{Phase, Row, Step};
use crate::Outcome;

/// Seconds by the clock, in the program's own code, and in the kernel for it.
pub struct Timing {
    pub wall: f64,
    pub user: f64,
    pub system: f64,
}

/// The moment a timing begins.
pub struct Start {
    clock: Instant,
    user: f64,
    system: f64,
}

/// Times the row's phases with a new client.
pub fn measure(row: &Row) -> Outcome<Timing> {
    if row.connect_inside {
        let start = Start::now();
        let mut client = Client::open(&row.servers, row.quiet)?;
        run_phases(&mut client, &row.phases)?;
        return Ok(start.elapsed());
    }
    let mut client = Client::open(&row.servers, row.quiet)?;
    for phase in &row.phases {
        run_steps(&mut client, &phase.steps, row.warmup)?;
    }
    let start = Start::now();
    run_phases(&mut client, &row.phases)?;
    Ok(start.elapsed())
}

fn run_phases(client: &mut Client, phases: &[Phase]) -> Outcome<()> {
    for phase in phases {
        run_steps(client, &phase.steps, phase.iterations)?;
    }
    client.finish()
}

fn run_steps(client: &mut Client, steps: &[Step], iterations: u64) -> Outcome<()> {
    for _ in 0..iterations {
        for step in steps {
            client.run(step)?;
        }
    }
    Ok(())
}

impl Start {
    /// Reads the clock and the processor time.
    pub fn now() -> Start {
        let (user, system) = processor_time();
        Start { clock: Instant::now(), user, system }
    }

    /// The time since then.
    pub fn elapsed(&self) -> Timing {
        let wall = self.clock.elapsed().as_secs_f64();
        let (user, system) = processor_time();
        Timing { wall, user: user - self.user, system: system - self.system }
    }
}

/// Returns the process's user and system time so far, in seconds.
fn processor_time() -> (f64, f64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: RUSAGE_SELF is valid, `usage` is writable, and all its bytes were zeroed, so it is initialised.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}
