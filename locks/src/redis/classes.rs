//! Which kind of refusal an error of a server is. Everything that decides whether to ask again asks this table.
//!
//! An error passes by itself, or a permission is missing, or it is about scripts, or it is final. An error that passes
//! has an error kind of its own, `NotNow`: attempts and releases ask again until their time is over. Only an error
//! about scripts makes a client use plain commands.

use pinyon_proto::resp::ServerError;

/// What a refusal means for whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server cannot do it now. The same request succeeds later, without a change by anybody.
    Passing,
    /// The user lacks a permission, or is not logged in as it must be.
    Permission,
    /// The server runs no scripts, or not these. Plain commands may succeed.
    AboutScripts,
    /// Asking again helps only after somebody has changed something.
    Final,
}

/// The refusals by their codes.
const CODES: [(&str, Refusal); 14] = [
    // A script or function runs for longer than it should.
    ("BUSY", Refusal::Passing),
    ("LOADING", Refusal::Passing),
    // A replica that has lost its primary, or has just become one.
    ("MASTERDOWN", Refusal::Passing),
    ("READONLY", Refusal::Passing),
    // Too few replicas are connected (`min-replicas-to-write`).
    ("NOREPLICAS", Refusal::Passing),
    // The last snapshot failed (`stop-writes-on-bgsave-error`).
    ("MISCONF", Refusal::Passing),
    ("CLUSTERDOWN", Refusal::Passing),
    ("TRYAGAIN", Refusal::Passing),
    ("NOPERM", Refusal::Permission),
    ("NOAUTH", Refusal::Permission),
    ("WRONGPASS", Refusal::Permission),
    ("DENIED", Refusal::Permission),
    // Memory that is full stays full until keys expire or are deleted: whoever asks had better know.
    ("OOM", Refusal::Final),
    ("CROSSSLOT", Refusal::Final),
];

/// The refusals without a code of their own, by words in them, in lower case.
const WORDS: [(&str, Refusal); 5] = [
    ("max number of clients", Refusal::Passing),
    ("unknown command", Refusal::AboutScripts),
    ("unknown or disabled command", Refusal::AboutScripts),
    ("unsupported command", Refusal::AboutScripts),
    ("undeclared key", Refusal::AboutScripts),
];

impl Refusal {
    pub fn of(error: &ServerError) -> Self {
        let (code, message) = actual(error);
        let by_code = CODES.iter().find(|(known, _)| *known == code);
        if let Some((_, refusal)) = by_code {
            return *refusal;
        }
        // Proxies answer without a code, so that the first word is no code but the beginning of the sentence.
        let said = format!("{code} {message}").to_lowercase();
        WORDS.iter().find(|(words, _)| said.contains(words)).map_or(Self::Final, |(_, refusal)| *refusal)
    }

    pub fn passes(error: &ServerError) -> bool {
        Self::of(error) == Self::Passing
    }
}

/// The code and message of an error. Up to Redis 6, an error inside a script is wrapped: `ERR Error running script
/// (call to f_…): @user_script:3: @user_script: 3: -READONLY You can't …`.
pub fn actual(error: &ServerError) -> (&str, &str) {
    let (code, message) = (&*error.code, &*error.message);
    let wrapped = message.starts_with("Error running script").then(|| message.split_once(": -")).flatten();
    match wrapped.and_then(|(_, inner)| inner.split_once(' ')) {
        Some((code, message)) => (code, message),
        None => (code, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Refusal {
        let (code, message) = text.split_once(' ').expect("a code and a message");
        Refusal::of(&ServerError { code: code.into(), message: message.into() })
    }

    #[test]
    fn what_servers_say_is_told_apart() {
        for passing in [
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "LOADING Redis is loading the dataset in memory",
            "NOREPLICAS Not enough good replicas to write.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "ERR max number of clients reached",
            "ERR Error running script (call to f_5f): @user_script:4: @user_script: 4: -NOREPLICAS Not enough",
        ] {
            assert_eq!(of(passing), Refusal::Passing, "{passing}");
        }
        for permission in ["NOPERM No permissions to access a key", "NOAUTH Authentication required."] {
            assert_eq!(of(permission), Refusal::Permission, "{permission}");
        }
        for about_scripts in [
            "ERR unknown command 'FCALL', with args beginning with: 'pinyon_lock_5'",
            "ERR Unknown or disabled command 'EVALSHA'",
            "unsupported command 'FUNCTION'",
            "ERR script tried accessing undeclared key",
        ] {
            assert_eq!(of(about_scripts), Refusal::AboutScripts, "{about_scripts}");
        }
        for last in ["OOM command not allowed when used memory > 'maxmemory'.", "ERR something odd", "WRONGTYPE a b"] {
            assert_eq!(of(last), Refusal::Final, "{last}");
        }
    }
}
