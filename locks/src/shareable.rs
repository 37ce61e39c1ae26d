//! The commands that may be sent on a shared connection.

use std::sync::Arc;

use pinyon_proto::resp::Command;

use pinyon_net::error::{Error, Kind};

/// Commands that would change the connection's state, or block it for other users.
const UNSHAREABLE: &str = "SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE SSUBSCRIBE SUNSUBSCRIBE MULTI EXEC DISCARD \
                           WATCH UNWATCH MONITOR HELLO AUTH SELECT RESET QUIT SYNC PSYNC BLPOP BRPOP BRPOPLPUSH \
                           BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF READONLY READWRITE ASKING";

/// Refuses a command that would disturb the other users of the connection.
pub(super) fn check(command: &Command, server: &Arc<str>) -> Result<(), Error> {
    let words: Vec<String> =
        command.slices().iter().map(|part| String::from_utf8_lossy(part).to_ascii_uppercase()).collect();
    let Some((name, words)) = words.split_first() else {
        return Err(Error::new(Kind::Usage, server, "a command has at least its name"));
    };
    let is_unshareable = match (&**name, words.first().map(String::as_str)) {
        ("XREAD" | "XREADGROUP", _) => words.iter().any(|word| word == "BLOCK"),
        ("CLIENT", Some("REPLY" | "TRACKING" | "CACHING")) => true,
        (name, _) => UNSHAREABLE.split(' ').any(|unshareable| unshareable == name),
    };
    if !is_unshareable {
        return Ok(());
    }
    let message =
        format!("{name} would change or block the connection that the locks share; use a connection of your own");
    Err(Error::new(Kind::Usage, server, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(command: &str) -> bool {
        match check(&Command::of(command.split_whitespace()), &"redis1".into()) {
            Ok(()) => false,
            Err(error) => {
                assert_eq!(error.kind, Kind::Usage);
                true
            }
        }
    }

    #[test]
    fn what_would_disturb_others_is_refused() {
        for command in
            ["subscribe a", "Multi", "BLPOP l 0", "XREAD COUNT 1 block 0 STREAMS s 0", "client reply off", ""]
        {
            assert!(is_refused(command), "{command:?}");
        }
        for command in ["GET subscribe", "XREAD COUNT 1 STREAMS s 0", "CLIENT LIST", "CLIENT", "SUBSCRIBER"] {
            assert!(!is_refused(command), "{command:?}");
        }
    }
}
