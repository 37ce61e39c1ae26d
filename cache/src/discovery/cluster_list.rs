//! The answer to `config get cluster`: a number, then `host|ip|port` of each server, as AWS describes it in "Adding
//! auto discovery to your client library".

use std::net::IpAddr;

use pinyon_net::address::{Endpoint, ServerSpec};

/// This bounds memory. No cluster of either provider comes near it.
const MOST_SERVERS: usize = 1024;

/// An endpoint's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// It increases with every change of the cluster.
    pub(super) version: u64,
    /// Sorted, each server once.
    pub(super) servers: Vec<ServerSpec>,
}

/// Reads an answer. An error says what is wrong with it.
pub(super) fn parse(answer: &[u8]) -> Result<Listing, String> {
    let text = std::str::from_utf8(answer).map_err(|_| "it is not text".to_owned())?;
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim();
    let version = first.parse().map_err(|_| format!("its first line is not a number but \"{}\"", excerpt(first)))?;
    let mut servers = Vec::new();
    for word in lines.flat_map(str::split_ascii_whitespace) {
        if servers.len() == MOST_SERVERS {
            return Err(format!("it has more than {MOST_SERVERS} servers"));
        }
        servers.push(server(word).ok_or_else(|| format!("\"{}\" is not host|ip|port", excerpt(word)))?);
    }
    if servers.is_empty() {
        return Err("it has no servers".into());
    }
    servers.sort_by_cached_key(ServerSpec::name);
    servers.dedup_by_key(|server| server.name());
    Ok(Listing { version, servers })
}

/// Either the host or the address may be empty.
fn server(word: &str) -> Option<ServerSpec> {
    let mut parts = word.split('|');
    let (host, ip, port) = (parts.next()?, parts.next()?, parts.next()?);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let ip: Option<IpAddr> = if ip.is_empty() { None } else { Some(ip.parse().ok()?) };
    let host = match (host, ip) {
        ("", None) => return None,
        ("", Some(ip)) => ip.to_string(),
        (host, _) => host.to_owned(),
    };
    let is_plain = parts.next().is_none() && !host.contains(|c: char| c.is_control());
    is_plain.then(|| ServerSpec { ip, ..ServerSpec::new(Endpoint::Tcp { host, port }, 1.into()) })
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_host_and_found_by_their_address() {
        let answer = b"12\nb.example|10.0.0.2|11211 a.example||11212 |10.0.0.3|11211 b.example|10.0.0.2|11211\n";
        let Listing { version, servers } = parse(answer).unwrap();
        let described: Vec<_> = servers.iter().map(|server| (server.name(), server.ip)).collect();
        let ip = |text: &str| Some(text.parse().unwrap());
        assert_eq!(version, 12);
        assert_eq!(
            described,
            [
                ("10.0.0.3:11211".to_owned(), ip("10.0.0.3")),
                ("a.example:11212".to_owned(), None),
                ("b.example:11211".to_owned(), ip("10.0.0.2")),
            ]
        );
    }

    #[test]
    fn nonsense_is_refused_and_said_to_be() {
        for (answer, why) in [
            (&b""[..], "not a number"),
            (b"x\na||1", "not a number but \"x\""),
            (b"-1\na||1", "not a number"),
            (b"1", "no servers"),
            (b"1\n\n", "no servers"),
            (b"1\na|10.0.0.1|11211|x", "is not host|ip|port"),
            (b"1\na|10.0.0.1", "is not host|ip|port"),
            (b"1\na|nowhere|11211", "is not host|ip|port"),
            (b"1\na||0", "is not host|ip|port"),
            (b"1\na||65536", "is not host|ip|port"),
            (b"1\n||11211", "is not host|ip|port"),
            (b"1\na\x07||11211", "is not host|ip|port"),
            (b"1\n\xff||11211", "not text"),
        ] {
            let refused = parse(answer).unwrap_err();
            assert!(refused.contains(why), "{}: {refused}", answer.escape_ascii());
        }
        let many: String = (0..=MOST_SERVERS).map(|number| format!("server-{number}||1 ")).collect();
        assert!(parse(format!("1\n{many}").as_bytes()).unwrap_err().contains("more than"));
        assert!(parse(format!("{}\n", "9".repeat(4000)).as_bytes()).unwrap_err().len() < 200);
    }
}
