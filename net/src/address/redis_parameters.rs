//! The parameters of a Redis URL: those of redis-py and Celery are understood, or answered with what to write instead.

use std::path::PathBuf;

use super::percent::text;

/// What a URL's query says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// Every `db`, as written.
    pub(super) databases: Vec<String>,
    pub(super) tls: TlsParameters,
    pub(super) protocol: Option<i64>,
}

/// What a URL says of TLS beyond its scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsParameters {
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Whether the server's certificate is not to be verified.
    pub unverified: bool,
}

/// Parameters without a meaning for locks: about values, or the pools of other clients.
const MEANINGLESS: [&str; 12] = [
    "decode_responses",
    "encoding",
    "encoding_errors",
    "max_connections",
    "client_name",
    "lib_name",
    "lib_version",
    "retry_on_timeout",
    "retry_on_error",
    "single_connection_client",
    "visibility_timeout",
    "virtual_host",
];

/// What to write instead of a parameter.
const INSTEAD: &[(&[&str], &str)] = &[
    (&["socket_timeout", "timeout", "read_timeout"], "set \"command_timeout\""),
    (&["socket_connect_timeout", "connect_timeout"], "set \"connect_timeout\""),
    (&["socket_keepalive", "socket_keepalive_options", "health_check_interval"], "set \"keepalive\""),
    (&["ssl", "tls"], "begin the URL with rediss://"),
    (
        &["ssl_check_hostname", "ssl_ca_data", "ssl_ca_path", "ssl_min_version", "ssl_password", "ssl_ciphers"],
        "set \"tls\"",
    ),
    (&["username", "user", "password"], "write redis://user:password@host, or set \"username\" and \"password\""),
    (&["host", "port", "path"], "write redis://host:port, or unix:///path"),
    (&["master_name", "service_name", "sentinel", "sentinels"], "write redis+sentinel://host,host,host/service"),
    (&["namespace", "global_keyprefix", "prefix"], "set \"namespace\" or \"prefix\""),
];

impl Parameters {
    /// Reads a query. An error says what is wrong with the URL. Values are not shown: one may be a password.
    pub(super) fn read(query: &str) -> Result<Self, String> {
        let mut read = Self::default();
        let mut wrong = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (text(name), text(value));
            match &*name {
                "db" => read.databases.push(value),
                "protocol" => {
                    let version = value.parse().ok().filter(|version| matches!(version, 2 | 3));
                    read.protocol = Some(version.ok_or("has a protocol that is neither 2 nor 3")?);
                }
                "ssl_cert_reqs" => {
                    let required = value.to_ascii_lowercase();
                    read.tls.unverified = match required.strip_prefix("cert_").unwrap_or(&required) {
                        "required" | "optional" => false,
                        "none" => true,
                        _ => return Err("has an ssl_cert_reqs that is not required, optional or none".into()),
                    };
                }
                "ssl_ca_certs" => read.tls.ca = Some(value.into()),
                "ssl_certfile" => read.tls.certificate = Some(value.into()),
                "ssl_keyfile" => read.tls.key = Some(value.into()),
                name if MEANINGLESS.contains(&name) => {}
                name => wrong.push(match INSTEAD.iter().find(|(names, _)| names.contains(&name)) {
                    Some((_, instead)) => format!("{name} ({instead} instead)"),
                    None => name.to_owned(),
                }),
            }
        }
        match wrong.is_empty() {
            true => Ok(read),
            false => Err(format!("has a setting that is not known: {}", wrong.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_clients_write_is_understood_or_answered() {
        let query = "ssl_cert_reqs=none&ssl_ca_certs=%2Fca&ssl_certfile=c&ssl_keyfile=k&encoding=utf-8&protocol=2&db=3";
        let tls = TlsParameters {
            ca: Some("/ca".into()),
            certificate: Some("c".into()),
            key: Some("k".into()),
            unverified: true,
        };
        let expected = Parameters { databases: vec!["3".into()], tls, protocol: Some(2) };
        assert_eq!(Parameters::read(query), Ok(expected));
        for (query, why) in [
            ("socket_timeout=5", "has a setting that is not known: socket_timeout (set \"command_timeout\" instead)"),
            ("password=secret", "password (write redis://user:password@host, or set"),
            ("colour=1&ssl=true", "colour, ssl (begin the URL with rediss:// instead)"),
            ("protocol=4", "has a protocol that is neither 2 nor 3"),
            ("ssl_cert_reqs=secret", "has an ssl_cert_reqs that is not required, optional or none"),
        ] {
            let told = Parameters::read(query).unwrap_err();
            assert!(told.contains(why) && !told.contains("secret"), "{told}");
        }
    }
}
