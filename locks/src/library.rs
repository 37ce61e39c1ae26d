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
//! **Cost.** Handing one name to the next waiter, and queueing behind a holder, look at nothing else of the queue. Readers of
//! names, and permits of one pool, that nobody waits for need no function and no table: each costs as much as a command.
//! All rarer cases first make a run (`lua/queue.lua`), one call's view of the queue. The most frequent answers
//! are plain numbers: an array costs the server half a microsecond more.
//!
//! **Nested locks.** An owner that holds locks and wants more goes ahead of the owners that hold none, so it only ever
//! waits for holders. Before it queues, the server checks whether these holders wait for it in turn.
//!
//! **Sharing.** Names that are read, and pools of permits, are sorted sets of their holders (`lua/shared.lua`). A key of
//! either kind keeps a writer out, also one of an earlier library, as all ask first whether the key exists.
//!
//! **Identity.** Each attempt has one identity. If it is sent again after a connection broke, it is granted once. If
//! it is given up, it leaves a tombstone for calls that are still on their way.

use std::sync::LazyLock;

use crate::call::Call;

/// The library's name. Its number changes with any change to the functions' arguments, replies or keys.
pub const LIBRARY: &str = "pinyon_locks_8";

/// A function of the library: a rule of the server. Each rule has three files of its name: here in `lua`, for plain
/// commands in `pure`, and for the model of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name of its files.
    pub name: &'static str,
    /// The function's name in the library.
    pub function: &'static str,
    text: &'static str,
    /// What it shares with others.
    parts: &'static [&'static str],
    /// The function's flags. Functions that release or keep locks must also work when memory is short.
    flags: &'static str,
}

/// Makes the table of rules, each with its call.
macro_rules! rules {
    ($($call:ident $name:literal $parts:tt $flags:literal)*) => {
        pub const RULES: [Rule; [$($name),*].len()] = [$(Rule {
            name: $name,
            function: concat!("pinyon_", $name, "_8"),
            text: include_str!(concat!("lua/", $name, ".lua")),
            parts: &$parts,
            flags: $flags,
        }),*];

        /// The place of a call's rule in [`RULES`]; `None` if it is a plain command with every handler.
        #[inline]
        pub(crate) fn place(call: &Call) -> Option<usize> {
            match call {
                $(Call::$call { .. } => const { Some(place_of($name)) },)*
                Call::Remark { .. } | Call::Remarks { .. } => None,
            }
        }
    };
}

rules! {
    Open "open" [COMMON] "'allow-oom'"
    Lock "lock" [COMMON, SHARES, QUEUE, GRANT, TAKE] ""
    Unlock "unlock" [COMMON, SHARES, QUEUE, GRANT] "'allow-oom'"
    Poll "poll" [COMMON, SHARES, QUEUE, GRANT, TAKE] "'allow-oom'"
    Extend "extend" [COMMON, SHARES] "'allow-oom'"
    Raise "raise" [COMMON] "'allow-oom'"
    Park "park" [COMMON, SHARES, QUEUE, GRANT] "'allow-oom'"
    Unpark "unpark" [COMMON, SHARES, QUEUE, GRANT, TAKE] "'allow-oom'"
    Notify "notify" [COMMON, SHARES, QUEUE] "'allow-oom'"
    Inspect "inspect" [COMMON, SHARES, QUEUE] "'no-writes'"
    ForceRelease "force_release" [COMMON, SHARES, QUEUE, GRANT] "'allow-oom'"
    Rate "rate" [] ""
    Adopt "adopt" [COMMON, SHARES, QUEUE, GRANT] "'allow-oom'"
    Change "change" [COMMON, SHARES, QUEUE, GRANT, TAKE] "'allow-oom'"
}

const fn place_of(name: &str) -> usize {
    let mut place = 0;
    while !is_same(RULES[place].name.as_bytes(), name.as_bytes()) {
        place += 1;
    }
    place
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

impl Rule {
    /// The function as a separate script, for `SCRIPT LOAD` and `EVAL`.
    pub fn source(&self) -> &'static str {
        &SOURCES[place_of(self.name)]
    }

    fn body(&self) -> Body {
        match self.text.split_once("--- shared parts\n") {
            Some((alone, rest)) => Body { alone, rest },
            None => Body { alone: "", rest: self.text },
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
const SHARES: &str = include_str!("lua/shared.lua");
const QUEUE: &str = include_str!("lua/queue.lua");
const GRANT: &str = include_str!("lua/grant.lua");
const TAKE: &str = include_str!("lua/take.lua");

static SOURCES: LazyLock<Vec<String>> = LazyLock::new(|| RULES.iter().map(script).collect());

static LIBRARY_SOURCE: LazyLock<String> = LazyLock::new(|| {
    let mut source = format!("#!lua name={LIBRARY}\n{NAMES_ALONE}{NAMES_SHARED}");
    // While the server loads a library, Lua's globals and most of the server's functions are absent.
    source.extend([COMMON, SHARES, QUEUE, GRANT, TAKE]);
    for rule in &RULES {
        let (Body { alone, rest }, name, flags) = (rule.body(), rule.function, rule.flags);
        source.push_str(&format!(
            "\nredis.register_function{{function_name = '{name}', flags = {{{flags}}}, callback = function(KEYS, ARGV)\n\
             if not call then {ALONE}{SHARED}end\n{KEYS}{alone}{rest}end}}\n"
        ));
    }
    without_comments(&source)
});

/// The library's source, for `FUNCTION LOAD`.
pub fn source() -> &'static str {
    &LIBRARY_SOURCE
}

fn script(rule: &Rule) -> String {
    let Body { alone, rest } = rule.body();
    let parts = rule.parts.concat();
    without_comments(
        &[NAMES_ALONE, "local KEYS = KEYS\n", ALONE, KEYS, alone, NAMES_SHARED, SHARED, &parts, rest].concat(),
    )
}

/// What clients send has no comments and no indentation, which are a third of it.
fn without_comments(source: &str) -> String {
    let code = source.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("--"));
    code.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_rule_has_its_function_and_its_files() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/model"));
        for rule in &RULES {
            assert!(source().contains(&format!("function_name = '{}'", rule.function)));
            assert!(folder.join(rule.name).with_extension("rs").exists(), "the model has no {}", rule.name);
        }
        let source = |name| RULES[place_of(name)].source();
        assert!(!source("extend").contains("local function grant"));
        let lock = source("lock");
        assert!(lock.find("INCR").unwrap() < lock.find("local function").unwrap(), "the ordinary case first");
    }
}
