//! Clients with a library of before, beside clients with this one, on one server. `library_6.lua` and `library_7.lua` are
//! what they load. The first knows nothing that is shared, and the second no upgrades.

use std::sync::Arc;

use pinyon_locks::call::{Call, Pushed, ScriptAnswer};
use pinyon_locks::keys::LockKeys;
use pinyon_locks::script::{self, Via};
use pinyon_proto::resp::{Command, Value};

use crate::lab::{attempt, is_granted, is_queued, names, token, woken, LONG};
use crate::redis::{Connection, Redis};

const OLDER: (&str, &str) = ("_6", include_str!("library_6.lua"));
const LAST: (&str, &str) = ("_7", include_str!("library_7.lua"));

/// Which library a client uses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    Older,
    Newer,
}
use Of::{Newer, Older};

struct Both {
    redis: Connection,
    keys: LockKeys,
    via: Via,
    /// What the names of the older library's functions end with.
    older: &'static str,
    _server: Redis,
}

impl Both {
    /// The first library is loaded first.
    fn new(first: Of) -> Self {
        Self::with(OLDER, first)
    }

    fn with((number, older): (&'static str, &'static str), first: Of) -> Self {
        let server = Redis::start();
        let mut redis = server.connect();
        let older = vec![&b"FUNCTION"[..], b"LOAD", b"REPLACE", older.as_bytes()];
        let newer = script::loading_functions();
        let mut loading = vec![older, newer.slices()];
        if first == Newer {
            loading.reverse();
        }
        for reply in redis.run_all(&loading) {
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
        let keys = LockKeys::new("n").unwrap();
        let both = Self { redis, keys, via: Via::functions(), older: number, _server: server };
        both.listening(["x", "y", "z"])
    }

    fn listening(mut self, clients: [&str; 3]) -> Self {
        for client in clients {
            let channel = self.keys.channel(&Arc::<str>::from(client));
            self.redis.run_all(&[vec![&b"SUBSCRIBE"[..], &channel]]);
        }
        self.redis.pushes.clear();
        self
    }

    fn call(&mut self, of: Of, call: &Call) -> (ScriptAnswer, Vec<String>) {
        let mut command = Command::default();
        script::encode(call, &self.keys, LONG, false, &self.via, &mut command);
        let mut parts: Vec<Vec<u8>> = command.iter().map(<[u8]>::to_vec).collect();
        if of == Older {
            let name = String::from_utf8(parts[1].clone()).unwrap();
            parts[1] = name.replace("_8", self.older).into_bytes();
        }
        let reply = self.redis.run(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let answer = script::decode(call, reply).unwrap();
        let pushes: Vec<Pushed> =
            self.redis.pushes.drain(..).filter_map(|push| script::pushed(&self.keys, &push)).collect();
        (answer, woken(&pushes))
    }

    fn lock(&mut self, of: Of, who: &str, on: &str) -> ScriptAnswer {
        self.call(of, &crate::lab::lock(who, on, true, false)).0
    }

    fn try_lock(&mut self, of: Of, who: &str, on: &str) -> ScriptAnswer {
        self.call(of, &crate::lab::lock(who, on, false, false)).0
    }

    /// Unlocks. Returns who was granted something.
    fn unlock(&mut self, of: Of, who: &str, on: &str) -> Vec<String> {
        self.call(of, &Call::Unlock { attempt: attempt(who), names: names(on), tombstone: false, rest: None }).1
    }

    fn poll(&mut self, of: Of, who: &str, on: &str) -> ScriptAnswer {
        self.call(of, &Call::Poll { attempt: attempt(who), names: names(on), ttl: LONG, nested: false }).0
    }
}

#[test]
fn mutexes_of_both_exclude_each_other_and_are_handed_over() {
    for (first, second) in [(Older, Newer), (Newer, Older)] {
        let mut both = Both::new(first);
        let token_of_first = token(both.lock(first, "x", "a b"));
        assert!(is_queued(&both.lock(second, "y", "b")));
        assert!(is_queued(&both.lock(first, "z", "a b")));
        assert_eq!(both.unlock(first, "x", "a b"), ["y"], "{first:?} grants to {second:?}");
        assert_eq!(both.unlock(second, "y", "b"), ["z"]);
        both.unlock(first, "z", "a b");
        assert!(token(both.lock(second, "x", "a")) > token_of_first);
    }
}

#[test]
fn a_reader_and_a_mutex_of_before_exclude_each_other() {
    for first in [Older, Newer] {
        let mut both = Both::new(first);
        both.lock(Newer, "x", "r:a");
        assert!(is_granted(&both.try_lock(Newer, "z", "r:a")));
        assert!(!is_granted(&both.try_lock(Older, "y.9", "a")), "the readers keep it out");
        assert!(is_queued(&both.lock(Older, "y", "a")));
        assert!(!is_granted(&both.try_lock(Newer, "z2", "r:a")), "it keeps later readers back");
        both.unlock(Newer, "x", "r:a");
        assert_eq!(both.unlock(Newer, "z", "r:a"), ["y"]);
        assert!(is_queued(&both.lock(Newer, "x", "r:a")));
        assert!(is_queued(&both.lock(Older, "z", "a")));
        assert_eq!(both.unlock(Older, "y", "a"), ["z"], "a library of before knows no readers, and lets them wait");
        assert!(is_queued(&both.poll(Newer, "x", "r:a")));
        assert_eq!(both.unlock(Older, "z", "a"), [] as [&str; 0]);
        assert!(is_granted(&both.poll(Newer, "x", "r:a")), "they ask again");
        assert!(!is_granted(&both.try_lock(Older, "y.2", "a")));
        both.unlock(Newer, "x", "r:a");
        assert!(is_granted(&both.try_lock(Older, "y.2", "a")));
    }
}

#[test]
fn a_library_of_before_grants_no_permits() {
    let mut both = Both::new(Older);
    both.lock(Newer, "x", "1/1:p");
    both.lock(Older, "y", "a");
    assert!(is_queued(&both.lock(Newer, "z", "a 1/1:p")));
    assert_eq!(both.unlock(Older, "y", "a"), [] as [&str; 0], "it would not know that none is left");
    assert!(is_queued(&both.poll(Newer, "z", "a 1/1:p")));
    assert_eq!(both.unlock(Newer, "x", "1/1:p"), ["z"]);
    assert!(!is_granted(&both.try_lock(Older, "y", "a")));
}

#[test]
fn a_library_of_before_and_an_upgrade_exclude_each_other() {
    for first in [Older, Newer] {
        let mut both = Both::with(LAST, first);
        let changed = |on, seen| Call::Change { attempt: attempt("x"), names: names(on), ttl: LONG, wait: true, seen };
        let (change, lower) = (changed("a", 0), changed("r:a", 1 << 52));
        assert!(is_granted(&both.lock(Newer, "x", "r:a")) && is_granted(&both.lock(Older, "y", "r:a")));
        assert!(is_queued(&both.lock(Older, "z", "a")));
        assert!(is_queued(&both.call(Newer, &change).0), "the reader of before keeps it out");
        assert!(!is_granted(&both.try_lock(Older, "y.2", "r:a")), "and it keeps later readers back");
        assert_eq!(both.unlock(Older, "y", "r:a"), [] as [&str; 0], "a library of before grants no upgrade");
        assert!(is_queued(&both.poll(Older, "z", "a")), "nor the name to those who wait behind");
        assert!(is_granted(&both.call(Newer, &change).0), "it asks again");
        assert!(!is_granted(&both.try_lock(Older, "y.3", "r:a")), "now it writes");
        assert!(is_queued(&both.poll(Older, "z", "a")));
        assert!(is_granted(&both.call(Newer, &lower).0));
        assert!(is_queued(&both.poll(Older, "z", "a")), "it reads still");
        assert_eq!(both.unlock(Newer, "x", "r:a"), ["z"]);
        both.unlock(Older, "z", "a");
    }
}
