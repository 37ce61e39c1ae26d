//! Joined commands after a failure that the server does not attribute to one of them; and leases that are given back.

use pinyon_proto::Mode;

use super::single::{finished, on, store, GET};
use super::stage::{Stage, META};
use crate::operations::{Answer, Beside, End, Failed, Next, Operation, Request, Win};
use pinyon_net::error::{Error, Kind, Sent};

fn unattributed() -> End {
    let error = Error::new(Kind::Server, &"a:11211".into(), "out of memory").of("set", Sent::Maybe);
    End::Failed { error, in_time: true }
}

#[test]
fn a_store_in_doubt_is_insisted_on_once() {
    let mut set = on("key", store(Mode::Set));
    assert_eq!(set.over(0, unattributed()), Next::Again);
    assert_eq!(set.over(0, unattributed()), Next::Nothing);
    let mut late = on("key", store(Mode::Set));
    let End::Failed { error, .. } = unattributed() else { unreachable!() };
    assert_eq!(late.over(0, End::Failed { error, in_time: false }), Next::Nothing);
}

#[test]
fn what_may_not_be_done_twice_is_not_insisted_on() {
    for request in [store(Mode::Add), store(Mode::Append), Request::Delete, Request::Get(Beside::Cas)] {
        assert_eq!(on("key", request).over(0, unattributed()), Next::Nothing, "{request:?}");
    }
    let mut alone = Stage::new("a", META, on("key", store(Mode::Set)));
    alone.is_shared = false;
    alone.begin();
    assert_eq!(alone.operation.over(0, unattributed()), Next::Nothing);
    assert_eq!(on("key", GET).over(0, unattributed()), Next::Again);
}

#[test]
fn what_is_insisted_on_is_sent_by_itself_and_may_succeed() {
    let mut stage = Stage::new("a", META, on("key", store(Mode::Set)));
    stage.operation.over(0, unattributed());
    assert_eq!(stage.begin(), ["a: ms key 5 F7 T60 O*|value"]);
    stage.answer("a", "HD O*");
    assert_eq!(finished(stage).unwrap(), Answer::Done(true));
}

#[test]
fn a_lease_that_nobody_hears_of_is_given_back() {
    for (reply, given_back) in [
        ("VA 0 c9 f0 W O*|", vec!["a: md key C9 O*"]),
        ("VA 1 c9 f0 W O*|v", vec!["a: md key I C9 O*"]),
        ("VA 1 c9 f0 O*|v", vec![]),
        ("VA 0 c9 f0 Z O*|", vec![]),
        ("EN O*", vec![]),
    ] {
        let mut stage = Stage::new("a", META, on("key", Request::Lease { lease: 20, recache: 5 }));
        assert!(stage.operation.may_win());
        stage.begin();
        stage.answer("a", reply);
        let next = stage.operation.give_back();
        assert_eq!(next == Next::Again, !given_back.is_empty(), "{reply}");
        if next == Next::Again {
            assert_eq!(stage.begin(), given_back, "{reply}");
            assert!(!stage.operation.may_win(), "it is given back once");
        }
    }
}

#[test]
fn a_value_that_cannot_be_read_is_marked_stale_before_its_lease_is_asked_for() {
    let mut stage = Stage::new("a", META, on("key", Request::Renew { lease: 20, recache: 5, cas: 9 }));
    assert!(stage.operation.may_win(), "even before it asks");
    assert_eq!(stage.begin(), ["a: md key I T20 C9 O*"]);
    assert_eq!(stage.answer("a", "EX O*"), ["a: mg key f c v N20 R5 O*"], "another caller may have changed it");
    stage.answer("a", "VA 1 c10 f0 W X O*|v");
    let Ok(Answer::Lease(found)) = finished(stage) else { panic!("a lease") };
    assert_eq!(found.win(), Some(Win { cas: 10, keep: true }));
}

#[test]
fn a_lease_that_failed_is_not_given_back() {
    let mut lease = on("key", Request::Lease { lease: 20, recache: 5 });
    lease.fail(Error::new(Kind::Closed, &"".into(), "the client was closed"));
    assert_eq!(lease.give_back(), Next::Nothing);
    let error = lease.finish();
    assert!(matches!(&error, Err(Failed::Error(error)) if error.command == "lease"), "{error:?}");
    assert!(!on("key", GET).may_win());
}
