//! Names for clients, unique among all processes of all times, and who a name says that its client is.
//!
//! A name is `random.pid.generation.host`, and `.label` if the client has one. Each attempt begins with the name of its
//! client, so whoever sees an attempt knows where it comes from, on every server and without a further command. Clients of
//! earlier versions have neither a host nor a label in their names.

use std::fmt;
use std::sync::Arc;

use pinyon_net::invalid::InvalidArgument;
use pinyon_net::{fork, random};

/// The longest label, in bytes.
pub const LONGEST_LABEL: usize = 64;

/// How much of the host's name is in that of a client, in bytes.
const LONGEST_HOST: usize = 32;

/// What may stand in a part of a name: no dot, which ends it, no colon and no blank.
const ALSO: &[u8] = b"-_";

/// A new name: random, with what people want to know.
pub fn new_client(label: Option<&str>) -> Arc<str> {
    let random = u64::from_ne_bytes(random::bytes().expect("the kernel has random bytes for a name"));
    let (pid, generation) = (std::process::id(), fork::generation());
    named(random, pid, generation, &host(), label)
}

fn named(random: u64, pid: u32, generation: u64, host: &str, label: Option<&str>) -> Arc<str> {
    let escaped = |text| Escaped { bytes: str::as_bytes(text), also: ALSO };
    let name = format!("{random:016x}.{pid:x}.{generation:x}.{}", escaped(host));
    label.map_or_else(|| name.clone(), |label| format!("{name}.{}", escaped(label))).into()
}

/// This host's name up to the first dot, or as much of it as a client's name has.
fn host() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let short = name.split('.').next().unwrap_or_default();
    short
        .chars()
        .scan(0, |bytes, next| {
            *bytes += next.len_utf8();
            (*bytes <= LONGEST_HOST).then_some(next)
        })
        .collect()
}

/// A label as a client may have it.
pub fn label(given: &str) -> Result<Arc<str>, InvalidArgument> {
    let refused =
        |why: String| Err(InvalidArgument::usage(format!("label {why}: give a short name, such as web2:worker")));
    if given.is_empty() {
        return refused("is empty".to_owned());
    }
    if given.len() > LONGEST_LABEL {
        return refused(format!("has {} bytes, and at most {LONGEST_LABEL} are possible", given.len()));
    }
    match given.chars().any(char::is_control) {
        true => refused("has a control character".to_owned()),
        false => Ok(given.into()),
    }
}

/// Who a client is, as far as its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The short name of its host.
    pub host: Option<String>,
    pub pid: u32,
    /// What its program calls it.
    pub label: Option<String>,
}

impl Who {
    /// Reads the name of a client; `None` if it is no such name.
    pub fn of(client: &str) -> Option<Self> {
        let mut parts = client.split('.');
        let (_random, pid, _generation) = (parts.next()?, parts.next()?, parts.next()?);
        let pid = u32::from_str_radix(pid, 16).ok()?;
        let mut text =
            || Some(String::from_utf8_lossy(&unescaped(parts.next()?)?).into_owned()).filter(|text| !text.is_empty());
        Some(Self { host: text(), pid, label: text() })
    }
}

/// Its label, or else its host, and its process.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label.as_ref().or(self.host.as_ref()) {
            Some(name) => write!(f, "{name} (pid {})", self.pid),
            None => write!(f, "pid {}", self.pid),
        }
    }
}

/// Text without the bytes that mean something around it: letters and digits stay as they are, and so do the
/// bytes of `also`; others are written as in URLs.
pub(super) struct Escaped<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) also: &'static [u8],
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.iter().try_for_each(|byte| match byte.is_ascii_alphanumeric() || self.also.contains(byte) {
            true => write!(f, "{}", *byte as char),
            false => write!(f, "%{byte:02X}"),
        })
    }
}

/// Reads what [`Escaped`] writes.
pub(super) fn unescaped(part: &str) -> Option<Vec<u8>> {
    let mut pieces = part.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_who_it_is() {
        let name = named(31, 4711, 2, "web2", Some("web2:worker ä.1"));
        assert_eq!(&*name, "000000000000001f.1267.2.web2.web2%3Aworker%20%C3%A4%2E1");
        let who = Who::of(&name).unwrap();
        assert_eq!(who, Who { host: Some("web2".into()), pid: 4711, label: Some("web2:worker ä.1".into()) });
        assert_eq!(who.to_string(), "web2:worker ä.1 (pid 4711)");
        assert_eq!(Who::of(&named(31, 4711, 2, "web2", None)).unwrap().to_string(), "web2 (pid 4711)");
    }

    #[test]
    fn names_of_earlier_versions_and_of_tests_say_less() {
        assert_eq!(Who::of("0123456789abcdef.1f.0").unwrap(), Who { host: None, pid: 31, label: None });
        assert_eq!(Who::of("0123456789abcdef.1f.0").unwrap().to_string(), "pid 31");
        assert_eq!(Who::of(&named(1, 31, 0, "", None)).unwrap().host, None, "a host without a name");
        for name in ["", "c", "me.too", "a value of another program (\"x.y.z\")"] {
            assert_eq!(Who::of(name), None, "{name}");
        }
    }

    #[test]
    fn this_process_has_a_short_name_of_its_own() {
        let who = Who::of(&new_client(Some("here"))).unwrap();
        assert_eq!((who.pid, who.label.as_deref()), (std::process::id(), Some("here")));
        assert!(who.host.is_some_and(|host| !host.contains('.') && host.len() <= LONGEST_HOST));
        assert_ne!(new_client(None), new_client(None));
    }

    #[test]
    fn a_label_that_no_line_has_room_for_is_refused() {
        assert_eq!(&*label("ä".repeat(32).as_str()).unwrap(), "ä".repeat(32));
        for (given, why) in [("", "is empty"), (&*"x".repeat(65), "has 65 bytes"), ("a\nb", "has a control character")]
        {
            let told = label(given).unwrap_err().message;
            assert!(told.starts_with(&format!("label {why}")), "{told}");
        }
    }
}
