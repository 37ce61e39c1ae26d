//! A client that is closed gives up what it waits for. Otherwise a server that grants it just then keeps the lock until
//! its ttl has passed, and one that does not keeps the waiter in its queue.

use super::*;
use crate::names::Mode;

const QUEUED: &str = ":-2\r\n";

impl Host {
    /// Closes the client. Returns the commands that it sends last.
    fn close(&mut self) -> Vec<String> {
        self.front.close(self.platform.now());
        self.sent()
    }

    /// The failures of waiters whose client was closed.
    fn were_closed(&mut self) -> Vec<&'static str> {
        let failed = |finished| match finished {
            LockFinished::Done { waiter, outcome: LockOutcome::Failed(failure), .. } => {
                assert_eq!(
                    (failure.kind, &*failure.message),
                    (ErrorKind::ConnectionLost, "redis1: the client was closed")
                );
                waiter
            }
            other => panic!("{other:?}"),
        };
        self.told.drain(..).map(failed).collect()
    }
}

#[test]
fn a_lock_whose_grant_may_be_on_its_way_is_given_up() {
    let mut host = Host::connected();
    host.ask_for_lock(Renewal::Always, Some(TTL));
    assert_eq!(host.sent(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
    assert_eq!(host.close(), ["FCALL pinyon_unlock_8"]);
    assert_eq!(host.were_closed(), ["lock"]);
    assert!(host.front.is_idle());
}

#[test]
fn a_lock_that_is_queued_leaves_the_queue() {
    let mut host = Host::connected();
    host.ask_for_lock(Renewal::Always, Some(TTL));
    host.sent();
    host.answer(&["*1\r\n:4999\r\n", QUEUED].concat());
    assert_eq!(host.close(), ["FCALL pinyon_unlock_8"]);
    assert_eq!(host.were_closed(), ["lock"]);
}

#[test]
fn a_lock_that_was_not_sent_yet_is_not_asked_for_and_one_behind_others_of_its_client_neither() {
    let mut host = Host::connected();
    host.held();
    for (waiter, names) in [("behind", ["a"]), ("unsent", ["b"])] {
        let names = keys::names(names).unwrap();
        let request = asked(&names, 2, Some(TTL));
        host.front.begin(Operation::Acquire { grant: Grant::new(names), request }, waiter, host.platform.now());
    }
    let sent = host.close();
    assert!(!sent.iter().any(|name| name.contains("pinyon_lock")), "{sent:?}");
    assert_eq!(host.were_closed(), ["behind", "unsent"]);
}

#[test]
fn a_release_that_was_not_sent_yet_is_sent() {
    let mut host = Host::connected();
    let grant = host.held();
    host.front.begin(release(&grant), "release", host.platform.now());
    assert_eq!(host.close(), ["FCALL pinyon_unlock_8"]);
    assert_eq!(host.told.len(), 1);
    let mut host = Host::connected();
    let grant = host.held();
    host.front.give_up(&grant, GiveUp::Lock, host.platform.now());
    assert_eq!(host.close(), ["FCALL pinyon_unlock_8"]);
}

#[test]
fn what_is_held_is_not_released_and_what_is_not_connected_sends_nothing() {
    let mut host = Host::connected();
    host.held();
    assert!(host.close().is_empty());
    let mut host = Host::connected();
    host.ask_for_lock(Renewal::Always, Some(TTL));
    host.sent();
    host.platform.peer.end(Ending::Closed);
    host.front.ready(0, host.platform.now());
    assert!(host.close().is_empty());
    assert_eq!(host.were_closed(), ["lock"]);
}

#[test]
fn a_lock_that_waits_to_be_upgraded_goes_on_reading() {
    let mut host = Host::connected();
    let names = keys::names(["a"]).unwrap().to_read();
    let grant = Grant::new(names.clone());
    let request = asked(&names, 1, Some(TTL));
    host.begin("lock", Operation::Acquire { grant: grant.clone(), request });
    host.sent();
    host.answer(&["*1\r\n:4999\r\n", GRANTED].concat());
    host.outcome("lock");
    host.begin("upgrade", Operation::Change { grant, names: Vec::new(), mode: Mode::Write, wait: TTL });
    let last = |host: &mut Host| host.platform.commands().pop().unwrap();
    let upgrade = last(&mut host);
    host.front.close(host.platform.now());
    host.settle();
    let settled = last(&mut host);
    assert_eq!(name_of(&settled), "FCALL pinyon_change_8");
    assert_ne!(settled, upgrade, "it asks for what it has");
    assert_eq!(host.told.len(), 1);
}
