//! The address of a Redis or Valkey server, as users write it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::percent::{percent_decoded, text};
use super::redis_parameters::{Parameters, TlsParameters};
use super::{Endpoint, ServerListError};
use crate::credentials::Password;

const SHAPES: &str = "write redis://[user[:password]@]host[:port][/database], rediss:// for TLS, \
                      unix:///path[?db=database], redis+cluster://host,host,host, or \
                      redis+sentinel://host,host,host/service[/database]";
const SCHEMES: &str = "redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://";

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// A server, with login and database. No message about a URL shows its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    /// The server, the first node of a cluster, or the first Sentinel.
    pub endpoint: Endpoint,
    /// Whether it is a node of a cluster.
    pub is_cluster: bool,
    /// The other nodes of a cluster.
    pub other_nodes: Vec<Endpoint>,
    /// Who knows the server, if the URL does not name it.
    pub sentinels: Option<SentinelService>,
    pub username: Option<String>,
    pub password: Option<Password>,
    pub database: u32,
    pub tls: bool,
    /// What its parameters say of TLS.
    pub tls_parameters: TlsParameters,
    /// The version of the protocol to use.
    pub protocol: Option<i64>,
}

/// A service, and the Sentinels that know which server is its primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelService {
    pub name: String,
    pub sentinels: Vec<Endpoint>,
}

impl std::fmt::Display for SentinelService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", joined(&self.sentinels), self.name)
    }
}

impl RedisUrl {
    /// Reads a URL, or the path of a Unix socket.
    pub fn parse(url: &str) -> Result<Self, ServerListError> {
        let url = url.trim();
        if url.starts_with('/') {
            let endpoint = Endpoint::Unix(url.into());
            return Ok(Self::of(endpoint));
        }
        let (scheme, rest) = split_scheme(url);
        let rest_of = |secured, plain| match (scheme.strip_prefix(secured), scheme.strip_prefix(plain)) {
            (Some(kind), _) => Some((kind, true)),
            (None, kind) => Some((kind?, false)),
        };
        let known = rest_of("rediss", "redis").or_else(|| rest_of("valkeys", "valkey"));
        let (kind, tls) = known.unwrap_or((&scheme, false));
        if !matches!(kind, "" | "+cluster" | "+sentinel") && scheme != "unix" || scheme.is_empty() {
            return Err(refused(&match rest.starts_with("//") {
                true => format!("begins with {scheme}://, not with {SCHEMES}"),
                false => format!("does not begin with {SCHEMES}"),
            }));
        }
        let parts = Parts::split(rest);
        if scheme != "unix" && (parts.path.contains('@') || parts.query.contains('@') || parts.has_fragment) {
            return Err(malformed("write / ? # and @ in a user or password as %2F %3F %23 and %40"));
        }
        let (user, password) = match parts.login.split_once(':') {
            Some((user, password)) => (user, Some(Password::from(percent_decoded(password)))),
            None => (parts.login, None),
        };
        let username = (!user.is_empty()).then(|| text(user));
        let given = Parameters::read(parts.query).map_err(|why| refused(&why))?;
        let (tls_parameters, protocol) = (given.tls, given.protocol);
        if scheme == "unix" {
            if parts.path.is_empty() {
                return Err(refused("has no path"));
            }
            let endpoint = Endpoint::Unix(OsString::from_vec(percent_decoded(parts.path)).into());
            let database = number(&given.databases, "")?;
            return Ok(Self { username, password, database, protocol, ..Self::of(endpoint) });
        }
        let path = parts.path.trim_start_matches('/');
        let (read, path) = match kind {
            "+sentinel" => {
                let (name, path) = path.split_once('/').unwrap_or((path, ""));
                (Self::watched(parts.service(name)?), path)
            }
            "+cluster" => (Self::nodes(parts.places("node", DEFAULT_PORT)?), path),
            _ => (Self::of(tcp(parts.place, DEFAULT_PORT)?), path),
        };
        let database = number(&given.databases, path)?;
        if kind == "+cluster" && database != 0 {
            return Err(refused(&format!("has the database {database}, but clusters have only database 0")));
        }
        Ok(Self { username, password, database, tls, tls_parameters, protocol, ..read })
    }

    fn of(endpoint: Endpoint) -> Self {
        let (username, password, sentinels) = (None, None, None);
        Self {
            endpoint,
            is_cluster: false,
            other_nodes: Vec::new(),
            sentinels,
            username,
            password,
            database: 0,
            tls: false,
            tls_parameters: TlsParameters::default(),
            protocol: None,
        }
    }

    fn nodes(mut nodes: Vec<Endpoint>) -> Self {
        let other_nodes = nodes.split_off(1);
        Self { is_cluster: true, other_nodes, ..Self::of(nodes.remove(0)) }
    }

    fn watched(service: SentinelService) -> Self {
        let endpoint = service.sentinels[0].clone();
        Self { sentinels: Some(service), ..Self::of(endpoint) }
    }

    /// The servers in the URL, without login and database.
    pub fn servers(&self) -> String {
        match &self.sentinels {
            Some(service) => service.to_string(),
            None => joined([&self.endpoint].into_iter().chain(&self.other_nodes)),
        }
    }
}

fn joined<'e>(endpoints: impl IntoIterator<Item = &'e Endpoint>) -> String {
    endpoints.into_iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

/// The parts of a URL after its scheme, as written.
struct Parts<'u> {
    login: &'u str,
    /// Host and port.
    place: &'u str,
    path: &'u str,
    query: &'u str,
    has_fragment: bool,
}

impl<'u> Parts<'u> {
    fn split(rest: &'u str) -> Self {
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (login, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        Self { login, place, path, query, has_fragment: fragment.is_some() }
    }

    /// The Sentinels of a service, whose name is given as it is written.
    fn service(&self, name: &str) -> Result<SentinelService, ServerListError> {
        if name.is_empty() {
            return Err(refused("names no service: Sentinels know primaries by the name of their service"));
        }
        Ok(SentinelService { name: text(name), sentinels: self.places("Sentinel", SENTINEL_PORT)? })
    }

    /// The hosts and ports of several servers of a kind.
    fn places(&self, kind: &str, default_port: u16) -> Result<Vec<Endpoint>, ServerListError> {
        let mut places = Vec::new();
        for place in self.place.split(',') {
            let place = tcp(place, default_port)?;
            if places.contains(&place) {
                return Err(refused(&format!("names the {kind} {place} twice")));
            }
            places.push(place);
        }
        Ok(places)
    }
}

/// Reads a host and its port, which may be left out.
fn tcp(place: &str, default_port: u16) -> Result<Endpoint, ServerListError> {
    let (host, port) = match place.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or_else(|| malformed("it cannot be read"))?;
            let port = rest.strip_prefix(':').or(rest.is_empty().then_some(""));
            (host, port.ok_or_else(|| malformed("it cannot be read"))?)
        }
        None if place.contains(['[', ']']) => return Err(malformed("it cannot be read")),
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let port = match port {
        "" => default_port,
        _ if !is_digits(port) => return Err(malformed("its port is not a number from 1 to 65535")),
        _ => match port.parse() {
            Ok(0) => return Err(ServerListError("the server's URL has port 0; ports are 1 to 65535".into())),
            Ok(port) => port,
            Err(_) => return Err(malformed("its port is not a number from 1 to 65535")),
        },
    };
    let host = if host.is_empty() { DEFAULT_HOST.to_owned() } else { host.to_lowercase() };
    Ok(Endpoint::Tcp { host, port })
}

/// The scheme in lower case, or an empty text without one; and the text after the colon.
fn split_scheme(url: &str) -> (String, &str) {
    match url.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), url),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
}

/// The database that the path and the parameters name.
fn number(in_query: &[String], path: &str) -> Result<u32, ServerListError> {
    let named = [path].into_iter().chain(in_query.iter().map(String::as_str)).filter(|database| !database.is_empty());
    let mut number = None;
    for database in named {
        let this = database.parse::<u32>().ok().filter(|number| is_digits(database) && *number < 1 << 31);
        let this = this.ok_or_else(|| {
            refused(&format!("has the database '{}', which is not a number", database.escape_debug()))
        })?;
        if number.is_some_and(|other| other != this) {
            let other = number.unwrap_or_default();
            return Err(refused(&format!("names two databases, {other} and {this}: leave out one of them")));
        }
        number = Some(this);
    }
    Ok(number.unwrap_or(0))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn malformed(why: &str) -> ServerListError {
    refused(&format!("is malformed: {why}"))
}

fn refused(why: &str) -> ServerListError {
    ServerListError(format!("the server's URL {why}; {SHAPES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (String, Option<String>, Option<Password>, u32, bool);

    fn read(url: &str) -> Read {
        let read = RedisUrl::parse(url).unwrap();
        (read.servers(), read.username, read.password, read.database, read.tls)
    }

    fn expected(place: &str, username: Option<&str>, password: Option<&str>, database: u32, tls: bool) -> Read {
        (place.to_owned(), username.map(str::to_owned), password.map(Password::from), database, tls)
    }

    #[test]
    fn every_way_to_write_a_url_is_read() {
        for (url, is) in [
            ("redis://", expected("127.0.0.1:6379", None, None, 0, false)),
            ("redis://Host", expected("host:6379", None, None, 0, false)),
            (" REDIS://host:/\n", expected("host:6379", None, None, 0, false)),
            ("rediss://host/3", expected("host:6379", None, None, 3, true)),
            ("redis://user@host", expected("host:6379", Some("user"), None, 0, false)),
            ("redis://:secret@host", expected("host:6379", None, Some("secret"), 0, false)),
            ("redis://user:@host", expected("host:6379", Some("user"), Some(""), 0, false)),
            ("redis://user:p%40s%3as@host:7000/5", expected("host:7000", Some("user"), Some("p@s:s"), 5, false)),
            ("redis://us%2Fer:a%zz%2@host", expected("host:6379", Some("us/er"), Some("a%zz%2"), 0, false)),
            ("redis://a@b:c@host", expected("host:6379", Some("a@b"), Some("c"), 0, false)),
            ("redis://[::1]:7000", expected("[::1]:7000", None, None, 0, false)),
            ("redis://[::1]", expected("[::1]:6379", None, None, 0, false)),
            ("redis://host?db=2&db=2", expected("host:6379", None, None, 2, false)),
            ("redis://host/1?db=1", expected("host:6379", None, None, 1, false)),
            ("redis://host/?db=2&decode_responses=True&protocol=3", expected("host:6379", None, None, 2, false)),
            ("valkey://user:secret@host/3", expected("host:6379", Some("user"), Some("secret"), 3, false)),
            ("valkeys://host", expected("host:6379", None, None, 0, true)),
            ("valkeys+cluster://a,b", expected("a:6379,b:6379", None, None, 0, true)),
            ("valkey+sentinel://a/main", expected("a:26379/main", None, None, 0, false)),
            ("rediss://host?ssl_cert_reqs=CERT_REQUIRED", expected("host:6379", None, None, 0, true)),
            ("/run/redis.sock", expected("/run/redis.sock", None, None, 0, false)),
            ("unix:///run/my%20redis@home.sock?db=2", expected("/run/my redis@home.sock", None, None, 2, false)),
            ("unix://user:secret@/run/redis", expected("/run/redis", Some("user"), Some("secret"), 0, false)),
            ("unix:/run/redis", expected("/run/redis", None, None, 0, false)),
            ("redis+cluster://a", expected("a:6379", None, None, 0, false)),
            (
                "rediss+cluster://:secret@a:1,b,[::1]/0",
                expected("a:1,b:6379,[::1]:6379", None, Some("secret"), 0, true),
            ),
            ("redis+sentinel://a/main", expected("a:26379/main", None, None, 0, false)),
            (
                "rediss+sentinel://user:secret@A:1,[::1],b/my%20main/3",
                expected("a:1,[::1]:26379,b:26379/my main", Some("user"), Some("secret"), 3, true),
            ),
            ("redis+sentinel://a,b/main?db=4", expected("a:26379,b:26379/main", None, None, 4, false)),
        ] {
            assert_eq!(read(url), is, "{url:?}");
        }
    }

    #[test]
    fn malformed_urls_say_what_is_wrong_and_never_the_password() {
        for (url, why) in [
            (
                "http://:secret@localhost",
                "begins with http://, not with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://",
            ),
            (
                "localhost:6379",
                "does not begin with redis://, rediss://, unix://, redis+cluster:// or redis+sentinel://",
            ),
            ("redis+other://:secret@a", "begins with redis+other://, not with"),
            ("redis://:secret@a/1?db=2", "names two databases, 1 and 2: leave out one of them"),
            ("redis://:secret@a?db=1&db=2", "names two databases, 1 and 2: leave out one of them"),
            ("valkeyx://:secret@a", "begins with valkeyx://, not with"),
            ("redisx://:secret@a", "begins with redisx://, not with"),
            ("redis+cluster://:secret@a,a:6379", "names the node a:6379 twice"),
            ("redis+cluster://:secret@a,b/1", "has the database 1, but clusters have only database 0"),
            ("redis+sentinel://:secret@a,b", "names no service"),
            ("redis+sentinel://:secret@a,b,a:26379/main", "names the Sentinel a:26379 twice"),
            ("redis+sentinel://:secret@a,b:x/main", "its port is not a number"),
            ("redis+sentinel://:secret@a/main/first", "has the database 'first'"),
            ("secret@localhost", "does not begin with redis://"),
            ("://secret@localhost", "does not begin with redis://"),
            ("redis://:secret@localhost:http", "is malformed: its port is not a number from 1 to 65535"),
            ("redis://:secret@localhost:+80", "its port is not a number"),
            ("redis://:secret@localhost:70000", "its port is not a number"),
            ("redis://localhost:0", "has port 0; ports are 1 to 65535"),
            ("redis://:secret/5@localhost", "write / ? # and @ in a user or password as %2F %3F %23 and %40"),
            ("redis://:12/secret@localhost", "write / ? # and @ in"),
            ("redis://:12?secret@localhost", "write / ? # and @ in"),
            ("redis://:12#secret@localhost", "write / ? # and @ in"),
            ("redis://localhost/first", "has the database 'first', which is not a number"),
            ("redis://localhost/5/", "has the database '5/', which is not a number"),
            ("redis://localhost/2147483648", "which is not a number"),
            ("redis://localhost?db=-1", "has the database '-1'"),
            ("redis://:secret@localhost?ttl=5&db=1&x", "has a setting that is not known: ttl, x"),
            ("unix://", "has no path"),
            ("unix:///run/redis?db=x", "has the database 'x'"),
            ("redis://:secret@[::1", "is malformed: it cannot be read"),
            ("redis://:secret@[::1]7000", "it cannot be read"),
            ("redis://:secret@::1]:7000", "it cannot be read"),
        ] {
            let message = RedisUrl::parse(url).unwrap_err().to_string();
            assert!(message.contains(why), "{url:?}: {message}");
            assert!(!message.contains("secret"), "{url:?}: {message}");
            assert!(message.contains("write redis://[user[:password]@]host") || url.ends_with(":0"), "{message}");
        }
    }
}
