//! Locks and forks, and threads that come and go. In a process of its own.

#[allow(dead_code)] // Other tests use more of it.
#[path = "real_redis/program.rs"]
mod program;
#[allow(dead_code)] // It lives as long as the test.
#[path = "real_redis/server.rs"]
mod server;

use std::convert::Infallible;
use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use pinyon_locks::{ByTag, GiveUp, LockOutcome, Loss, Note, Renewal, StatusAnswer, StatusQuestion};

use program::{until, Operation, Program, TTL};
use server::Redis;

/// The signals that each keeper of this process blocks, in the kernel's notation.
fn keepers() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    // A thread may end while it is being read.
    let keepers = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "pinyon-locks\n"));
    let blocked =
        |status: String| Some(status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?.trim().to_owned());
    keepers.filter_map(|task| fs::read_to_string(task.join("status")).ok().and_then(blocked)).collect()
}

/// Runs this in a forked child, and fails if it fails there.
#[allow(unsafe_code)]
fn in_child(run: impl FnOnce()) {
    // SAFETY: the child uses nothing that other threads may hold: this test is alone in its process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let failed = catch_unwind(AssertUnwindSafe(run)).is_err();
        // SAFETY: the child ends here, before it continues the inherited tests.
        unsafe { libc::_exit(i32::from(failed)) };
    }
    let mut status = 0;
    // SAFETY: only `status` is written to.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child failed");
}

#[test]
fn a_process_has_what_it_acquired_and_a_keeper_for_it() {
    let server = Redis::start("");
    let locks = Program::on(&server);
    assert_eq!(locks.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(false));
    assert!(keepers().is_empty(), "who holds nothing needs none");
    let held = locks.acquire("a", Renewal::Always);
    held.listen("of the parent").unwrap();
    until(|| keepers().len() == 1);
    let all_but_kill_and_stop = u64::from_str_radix(&keepers()[0], 16).unwrap() | 1 << 8 | 1 << 18;
    assert_eq!(all_but_kill_and_stop & 0x7fff_ffff, 0x7fff_ffff, "it gets no signals");
    let clients = ByTag::new(0, true);
    let Ok(branch) = clients.of(|| Ok::<_, Infallible>(Some("tag")), |_, _| 7);

    in_child(|| {
        assert!(keepers().is_empty());
        assert_eq!(held.loss(), Some(Loss::Forked));
        assert_eq!(locks.station().remaining(&held), None);
        let grant = held.clone();
        assert!(matches!(locks.run(Operation::Release { grant, early: false }), LockOutcome::Released { held: false }));
        let grant = held.clone();
        assert!(matches!(locks.run(Operation::Extend { grant, ttl: TTL }), LockOutcome::Extended { held: false }));
        let [park, notify] = [held.clone(), held.clone()];
        for operation in
            [Operation::Park { grant: park, wait: None, relock: TTL }, Operation::Notify { grant: notify, most: 0 }]
        {
            let LockOutcome::Failed(failure) = locks.run(operation) else { panic!("it is held") };
            assert!(failure.message.ends_with("it belongs to the process that this one was forked from"));
        }
        locks.station().give_up(&held, GiveUp::Lock);
        locks.station().forsake(&held);
        let own = locks.acquire("b", Renewal::Always);
        until(|| keepers().len() == 1);
        locks.see_renewed("b", TTL);
        assert!(locks.release(&own));
        let Ok(again) = clients.of(|| Ok::<_, Infallible>(Some("tag")), |_, _| 8);
        assert!(Arc::ptr_eq(&again, &branch), "there is one client of a tag");
        locks.threads.close();
        until(|| keepers().is_empty());
    });

    locks.see_renewed("a", TTL);
    locks.run(Operation::ForceRelease { names: held.names().clone(), token: None });
    assert_eq!(locks.note(), Note::Lost { listener: "of the parent", loss: Loss::Forced });
    drop(locks);
    until(|| keepers().is_empty());
}
