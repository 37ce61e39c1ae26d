//! Servers as users write them: `host[:port[:weight]]`, `[v6]:port` or `/unix/path`, optionally after `memcached://`.

use std::net::{IpAddr, SocketAddr};

use super::{Address, Endpoint, ServerListError};

use super::Weight;

/// memcached's default port.
pub const DEFAULT_PORT: u16 = 11211;

/// The server of a client without a server list.
pub const DEFAULT_SERVER: &str = "127.0.0.1:11211";

/// The environment variable with the servers of a client without a server list.
const ENVIRONMENT: &str = "MEMCACHE_SERVERS";

/// One server of a list. Its text is kept as written, because the ring hashes names rather than addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    pub endpoint: Endpoint,
    pub weight: Weight,
    /// Its address, if it is known without resolving the name.
    pub ip: Option<IpAddr>,
    /// The name in its certificate, if it differs from the host.
    pub certified_as: Option<String>,
}

/// Reads server texts. Each contains one server, or several separated by commas.
pub fn parse_servers<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<ServerSpec>, ServerListError> {
    let mut servers: Vec<ServerSpec> = Vec::new();
    for text in texts.into_iter().flat_map(|text| text.split(',')) {
        let server = ServerSpec::parse(text.trim())?;
        if servers.iter().any(|earlier| earlier.endpoint == server.endpoint) {
            return Err(ServerListError(format!("the server \"{}\" is listed twice", server.name())));
        }
        servers.push(server);
    }
    if servers.is_empty() {
        return Err(ServerListError("the server list is empty; name at least one server, as \"host:port\"".into()));
    }
    Ok(servers)
}

/// The servers of a client without a server list: those in the environment variable `MEMCACHE_SERVERS`, or else
/// [`DEFAULT_SERVER`].
pub fn usual_servers() -> Result<Vec<ServerSpec>, ServerListError> {
    servers_of_environment(&std::env::var_os(ENVIRONMENT).unwrap_or_default().to_string_lossy())
}

fn servers_of_environment(listed: &str) -> Result<Vec<ServerSpec>, ServerListError> {
    match listed.trim() {
        "" => parse_servers([DEFAULT_SERVER]),
        listed => parse_servers([listed]),
    }
}

/// Reads the servers of a gutter. None of them may be one of `servers`.
pub fn gutter_servers<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    servers: &[ServerSpec],
) -> Result<Vec<ServerSpec>, ServerListError> {
    let gutter = parse_servers(texts)?;
    match gutter.iter().find(|spec| servers.iter().any(|server| server.endpoint == spec.endpoint)) {
        None => Ok(gutter),
        Some(both) => {
            let name = both.name();
            Err(ServerListError(format!(
                "\"{name}\" is listed both as a server and in the gutter: remove it from one of them"
            )))
        }
    }
}

impl ServerSpec {
    pub fn new(endpoint: Endpoint, weight: Weight) -> Self {
        Self { endpoint, weight, ip: None, certified_as: None }
    }

    /// Like [`Endpoint::addresses`], but uses an address that is already known.
    pub fn addresses(&self) -> Result<Vec<Address>, (&str, u16)> {
        match (&self.endpoint, self.ip) {
            (Endpoint::Tcp { port, .. }, Some(ip)) => Ok(vec![Address::Tcp(SocketAddr::new(ip, *port))]),
            (endpoint, _) => endpoint.addresses(),
        }
    }

    fn parse(text: &str) -> Result<Self, ServerListError> {
        let text = without_scheme(text)?;
        let malformed = |why: &str| {
            ServerListError(format!(
                "the server \"{text}\" is malformed: {why}; write host[:port[:weight]], [v6]:port or /unix/path"
            ))
        };
        if text.is_empty() {
            return Err(malformed("it is empty"));
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(malformed("it has a space or a control character"));
        }
        if text.starts_with('/') {
            return Self::parse_unix(text)
                .ok_or_else(|| malformed("the weight is not a number above 0, at most 65535"));
        }
        let (host, rest) = match text.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or_else(|| malformed("the bracket is not closed"))?,
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let numbers: Vec<&str> = match rest.strip_prefix(':') {
            Some(numbers) => numbers.split(':').collect(),
            None if rest.is_empty() => Vec::new(),
            None => return Err(malformed("something stands between the bracket and the port")),
        };
        if host.is_empty() {
            return Err(malformed("the host is missing"));
        }
        if numbers.len() > 2 {
            return Err(malformed("too many colons; put an IPv6 address in brackets"));
        }
        let port = match numbers.first() {
            None => DEFAULT_PORT,
            Some(port) => parse_positive(port).ok_or_else(|| malformed("the port is not 1 to 65535"))?,
        };
        let weight = match numbers.get(1) {
            None => Weight::from(1),
            Some(weight) => {
                Weight::parse(weight).ok_or_else(|| malformed("the weight is not a number above 0, at most 65535"))?
            }
        };
        Ok(Self::new(Endpoint::Tcp { host: host.to_owned(), port }, weight))
    }

    fn parse_unix(text: &str) -> Option<Self> {
        let (path, weight) = match text.rsplit_once(':') {
            Some((path, number)) if number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                (path, Weight::parse(number)?)
            }
            _ => (text, Weight::from(1)),
        };
        Some(Self::new(Endpoint::Unix(path.into()), weight))
    }

    /// The server's name in messages: `host:port`, `[v6]:port` or the path.
    pub fn name(&self) -> String {
        self.endpoint.to_string()
    }
}

/// The text after `memcached://`, or all of it without that prefix. No message shows a possible password.
fn without_scheme(text: &str) -> Result<&str, ServerListError> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok(text) };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "memcached" | "memcache") {
        return Err(ServerListError(format!(
            "a server begins with {scheme}://, which is not memcached: write memcached://host[:port], or host[:port]; \
             locks on Redis have a client of their own"
        )));
    }
    if rest.contains('@') {
        return Err(ServerListError(format!(
            "a {scheme}:// URL has a login in it, which could end up in logs: give it as the settings username and password"
        )));
    }
    Ok(if rest.starts_with('/') { rest } else { rest.trim_end_matches('/') })
}

fn parse_positive(digits: &str) -> Option<u16> {
    digits.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_server_is_read() {
        let servers =
            parse_servers(["cache1", "cache2:1234, cache3:1:5", "[::1]:7", "/run/memcached.sock:1.5"]).unwrap();
        let described: Vec<_> = servers.iter().map(|server| (server.name(), server.weight.number())).collect();
        let expected = [
            ("cache1:11211", 1.0),
            ("cache2:1234", 1.0),
            ("cache3:1", 5.0),
            ("[::1]:7", 1.0),
            ("/run/memcached.sock", 1.5),
        ];
        assert_eq!(described, expected.map(|(name, weight)| (name.to_owned(), weight)));
    }

    #[test]
    fn a_scheme_may_stand_before_a_server() {
        let names = |text: &str| {
            let servers = parse_servers([text]).map_err(|error| error.to_string())?;
            Ok::<_, String>(servers.iter().map(ServerSpec::name).collect::<Vec<_>>())
        };
        let written = "memcached://a, memcache://b:1/ ,MEMCACHED://[::1]:7:2,memcached:///run/m.sock";
        assert_eq!(names(written).unwrap(), ["a:11211", "b:1", "[::1]:7", "/run/m.sock"]);
        assert!(names("redis://a:6379").unwrap_err().starts_with("a server begins with redis://"));
        let refused = names("memcached://me:secret@a").unwrap_err();
        assert!(refused.contains("username and password") && !refused.contains("secret"), "{refused}");
        assert!(names("memcached://").unwrap_err().contains("is empty"));
    }

    #[test]
    fn servers_come_from_the_environment_or_else_there_is_one_here() {
        let names = |listed: &str| {
            let servers = servers_of_environment(listed).map_err(|error| error.to_string())?;
            Ok::<_, String>(servers.iter().map(ServerSpec::name).collect::<Vec<_>>())
        };
        assert_eq!(names(" a,b:1 "), Ok(vec!["a:11211".to_owned(), "b:1".to_owned()]));
        assert_eq!(names(""), Ok(vec!["127.0.0.1:11211".to_owned()]));
        assert_eq!(names(" \n"), Ok(vec!["127.0.0.1:11211".to_owned()]));
        assert!(names("a,,b").unwrap_err().contains("is empty"));
    }

    #[test]
    fn localhost_is_this_machine_and_other_names_are_asked_for() {
        let addresses = |server: &str| {
            let servers = parse_servers([server]).unwrap();
            let found = servers[0].addresses().map(|found| found.iter().map(Address::to_string).collect::<Vec<_>>());
            found.map_err(|(name, port)| (name.to_owned(), port))
        };
        assert_eq!(addresses("LocalHost:5"), Ok(vec!["127.0.0.1:5".to_owned(), "[::1]:5".to_owned()]));
        assert_eq!(addresses("[::1]:5"), Ok(vec!["[::1]:5".to_owned()]));
        assert_eq!(addresses("localhost.example:5"), Err(("localhost.example".to_owned(), 5)));
    }

    #[test]
    fn malformed_lists_say_what_is_wrong() {
        for (text, why) in [
            ("", "is empty"),
            ("a,,b", "is empty"),
            ("a:0", "the port is not"),
            ("a:http", "the port is not"),
            ("a:1:0", "the weight is not"),
            ("a:1:1.5.0", "the weight is not"),
            ("::1", "the host is missing"),
            ("fe80::1:2", "put an IPv6 address in brackets"),
            ("[::1", "the bracket is not closed"),
            ("[::1]x", "between the bracket and the port"),
            ("a b", "a space"),
            ("a:1,a:1:2", "listed twice"),
        ] {
            let message = parse_servers([text]).unwrap_err().to_string();
            assert!(message.contains(why), "{text:?}: {message}");
        }
        assert!(parse_servers([]).unwrap_err().to_string().contains("the server list is empty"));
    }
}
