//! The server's side, in Lua: a library of functions (from Redis or Valkey 7), or the same functions as separate
//! scripts.
//!
//! Each function's file may have two parts. The part above the line `--- shared parts` handles the ordinary case alone.
//! As a script, this part runs before the shared functions are defined, so only the other cases pay for defining them.
//! A library defines them once.
//!
//! **Grants.** An unlock gives the names to the first waiter whose whole set is free, and publishes this to the
//! channel of that waiter's client. The client listens on the connection that carries its commands (RESP3), or on a
//! second one (RESP2). If no client listens to the channel on this server, the waiter is gone, and the server tries
//! the next one. The server asks before it publishes, because a cluster passes messages on to all nodes, and a primary
//! to its replicas.
//!
//! **Cost.** Handing one name to the next waiter, and queueing behind a holder, look at nothing else of the queue. All
//! rarer cases first make a run (`lua/queue.lua`), one call's view of the queue. The most frequent answers are plain
//! numbers: an array costs the server half a microsecond more.
//!
//! **Nested locks.** An owner that holds locks and wants more goes ahead of the owners that hold none, so it only ever
//! waits for holders. Before it queues, the server checks whether these holders wait for it in turn.
//!
//! **Identity.** Each attempt has one identity. If it is sent again after a connection broke, it is granted once. If
//! it is given up, it leaves a tombstone for calls that are still on their way.

use std::sync::LazyLock;

/// The library's name. Its number changes with any change to the functions' arguments, replies or keys.
pub const LIBRARY: &str = "pinyon_locks_6";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    Open,
    Lock,
    Unlock,
    Poll,
    Extend,
    Raise,
    Park,
    Unpark,
    Notify,
    Inspect,
    ForceRelease,
}

impl Function {
    pub const ALL: [Function; 11] = [
        Self::Open,
        Self::Lock,
        Self::Unlock,
        Self::Poll,
        Self::Extend,
        Self::Raise,
        Self::Park,
        Self::Unpark,
        Self::Notify,
        Self::Inspect,
        Self::ForceRelease,
    ];

    /// The function's name in the library.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "pinyon_open_6",
            Self::Lock => "pinyon_lock_6",
            Self::Unlock => "pinyon_unlock_6",
            Self::Poll => "pinyon_poll_6",
            Self::Extend => "pinyon_extend_6",
            Self::Raise => "pinyon_raise_6",
            Self::Park => "pinyon_park_6",
            Self::Unpark => "pinyon_unpark_6",
            Self::Notify => "pinyon_notify_6",
            Self::Inspect => "pinyon_inspect_6",
            Self::ForceRelease => "pinyon_force_release_6",
        }
    }

    /// The function as a separate script, for `SCRIPT LOAD` and `EVAL`.
    pub fn source(self) -> &'static str {
        &SOURCES[self as usize]
    }

    fn body(self) -> Body {
        let text = match self {
            Self::Open => include_str!("lua/open.lua"),
            Self::Lock => include_str!("lua/lock.lua"),
            Self::Unlock => include_str!("lua/unlock.lua"),
            Self::Poll => include_str!("lua/poll.lua"),
            Self::Extend => include_str!("lua/extend.lua"),
            Self::Raise => include_str!("lua/raise.lua"),
            Self::Park => include_str!("lua/park.lua"),
            Self::Unpark => include_str!("lua/unpark.lua"),
            Self::Notify => include_str!("lua/notify.lua"),
            Self::Inspect => include_str!("lua/inspect.lua"),
            Self::ForceRelease => include_str!("lua/force_release.lua"),
        };
        match text.split_once("--- shared parts\n") {
            Some((alone, rest)) => Body { alone, rest },
            None => Body { alone: "", rest: text },
        }
    }

    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Open | Self::Extend | Self::Raise => &[COMMON],
            Self::Inspect | Self::Notify => &[COMMON, QUEUE],
            Self::Unlock | Self::Park | Self::ForceRelease => &[COMMON, QUEUE, GRANT],
            Self::Lock | Self::Poll | Self::Unpark => &[COMMON, QUEUE, GRANT, TAKE],
        }
    }

    /// The function's flags. Functions that release or keep locks must also work when memory is short.
    fn flags(self) -> &'static str {
        match self {
            Self::Lock => "",
            Self::Inspect => "'no-writes'",
            _ => "'allow-oom'",
        }
    }
}

struct Body {
    alone: &'static str,
    rest: &'static str,
}

/// What the ordinary case needs, and what the rest needs in addition. `whole` formats numbers exactly for all tokens:
/// servers with short integers format them as floating-point numbers, which is several times slower.
const ALONE: &str = "call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format\n\
                     whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'\n";
/// The keys that are not sent, which are the same for each call of a namespace. `tombstone`: what an attempt's begins with.
/// If all keys are declared, those that functions make by themselves come before the counter; `declared` has the keys of
/// the names if no others may be used, which the first key tells.
const KEYS: &str = "declared = false\n\
                    if KEYS[1] ~= counter then\n\
                    if not counter or sub(KEYS[1], 1, -3) ~= prefix then\n\
                    prefix = sub(KEYS[1], 1, -3)\n\
                    counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'\n\
                    pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'\n\
                    end\n\
                    if KEYS[1] ~= counter then\n\
                    local first, at = KEYS[1], 2\n\
                    while KEYS[at] ~= counter do at = at + 1 end\n\
                    KEYS = {unpack(KEYS, at)}\n\
                    if first == pure_waiters then\n\
                    declared = {}\n\
                    for i = 2, #KEYS do declared[KEYS[i]] = true end\n\
                    end\n\
                    end\n\
                    end\n";
const SHARED: &str = "concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)\n";
const NAMES_ALONE: &str = "local call, ask, sub, find, format, whole\n\
                           local counter, prefix, queue, records, pure_waiters, tombstone, declared\n";
const NAMES_SHARED: &str = "local concat, remove, wide\n";
const COMMON: &str = include_str!("lua/common.lua");
const QUEUE: &str = include_str!("lua/queue.lua");
const GRANT: &str = include_str!("lua/grant.lua");
const TAKE: &str = include_str!("lua/take.lua");

static SOURCES: LazyLock<Vec<String>> = LazyLock::new(|| Function::ALL.map(script).into());

static LIBRARY_SOURCE: LazyLock<String> = LazyLock::new(|| {
    let mut source = format!("#!lua name={LIBRARY}\n{NAMES_ALONE}{NAMES_SHARED}");
    // While the server loads a library, Lua's globals and most of the server's functions are absent.
    source.extend([COMMON, QUEUE, GRANT, TAKE]);
    for function in Function::ALL {
        let (Body { alone, rest }, name, flags) = (function.body(), function.name(), function.flags());
        source.push_str(&format!(
            "\nredis.register_function{{function_name = '{name}', flags = {{{flags}}}, callback = function(KEYS, ARGV)\n\
             if not call then {ALONE}{SHARED}end\n{KEYS}{alone}{rest}end}}\n"
        ));
    }
    source
});

/// The library's source, for `FUNCTION LOAD`.
pub fn source() -> &'static str {
    &LIBRARY_SOURCE
}

fn script(function: Function) -> String {
    let Body { alone, rest } = function.body();
    [NAMES_ALONE, "local KEYS = KEYS\n", ALONE, KEYS, alone, NAMES_SHARED, SHARED, &function.parts().concat(), rest]
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_its_source() {
        for (index, function) in Function::ALL.into_iter().enumerate() {
            assert_eq!(function as usize, index);
            assert!(source().contains(&format!("function_name = '{}'", function.name())));
        }
        assert!(!Function::Extend.source().contains("local function grant"));
        let lock = Function::Lock.source();
        assert!(lock.find("INCR").unwrap() < lock.find("local function").unwrap(), "the ordinary case first");
    }
}
