//! What other clients call a setting: a user who comes from one of them is told its name here.

/// The names that other clients have, and what to write here instead.
pub(super) type Elsewhere = &'static [(&'static [&'static str], &'static str)];

/// The settings of other clients of caches.
pub(super) const CACHE: Elsewhere = &[
    (
        &["host", "hosts", "hostname", "port", "server", "address", "addresses", "url", "urls", "endpoint", "location"],
        "write host and port into \"servers\", as \"host:port\"",
    ),
    (&["prefix", "key_prefix", "keyprefix"], "use \"namespace\""),
    (
        &["pool_size", "max_pool_size", "pool_maxsize", "pool_minsize", "max_size", "maxsize", "min_pool_size"],
        "use \"max_connections\"",
    ),
    (
        &[
            "socket_timeout",
            "read_timeout",
            "recv_timeout",
            "send_timeout",
            "write_timeout",
            "receive_timeout",
            "io_timeout",
        ],
        "use \"timeout\", which is that of the whole operation",
    ),
    (&["socket_connect_timeout", "connection_timeout", "conn_timeout"], "use \"connect_timeout\""),
    (
        &[
            "ttl",
            "expire",
            "expire_in",
            "expires",
            "expires_in",
            "expiration",
            "expiry",
            "default_timeout",
            "default_expiration",
        ],
        "use \"default_ttl\"",
    ),
    (&["serde", "coder", "pickler", "marshaller"], "use \"serializer\""),
    (
        &[
            "compress",
            "compressor",
            "compress_threshold",
            "compression_min_size",
            "compression_threshold",
            "min_compress_len",
            "min_compress_length",
        ],
        "use \"compression\"",
    ),
    (&["value_max_bytes", "max_item_size", "item_size_max", "max_value_length"], "use \"max_value_size\""),
    (
        &["down_retry_delay", "dead_timeout", "retry_timeout", "dead_retry"],
        "leave it out: a server that failed is tried again after a quarter of a second, and less often while it fails",
    ),
    (&["hasher", "distribution", "consistent", "hash_ring"], "use \"ring\""),
    (&["ssl", "use_ssl", "use_tls", "ssl_context", "tls_context"], "use \"tls\""),
    (&["user"], "use \"username\""),
    (&["socket_keepalive", "tcp_keepalive", "tcp_keepidle"], "use \"keepalive\""),
    (&["ignore_exc", "ignore_errors", "raise_errors", "suppress_errors"], "use \"on_failure\""),
];

/// The settings of other clients of Redis and of locks.
pub(super) const LOCKS: Elsewhere = &[
    (
        &[
            "host",
            "hosts",
            "hostname",
            "port",
            "db",
            "database",
            "server",
            "servers",
            "address",
            "urls",
            "redis",
            "redis_url",
        ],
        "write host, port and database into \"url\", as \"redis://host:port/database\"",
    ),
    (
        &["sentinels", "sentinel", "service_name", "master_name"],
        "write the Sentinels into \"url\", as \"redis+sentinel://host,host,host/service\"",
    ),
    (&["key_prefix", "keyprefix", "global_keyprefix"], "use \"namespace\", or \"prefix\" for what the ACL demands"),
    (&["expire", "expires", "expires_in", "expiration", "expiry", "lock_timeout", "auto_release_time"], "use \"ttl\""),
    (&["blocking_timeout", "acquire_timeout", "wait", "wait_timeout"], "use \"timeout\""),
    (&["socket_timeout", "read_timeout", "io_timeout"], "use \"command_timeout\""),
    (&["socket_connect_timeout", "connection_timeout"], "use \"connect_timeout\""),
    (&["socket_keepalive", "socket_keepalive_options", "health_check_interval"], "use \"keepalive\""),
    (&["ssl", "use_ssl", "use_tls", "ssl_context"], "use \"tls\""),
    (&["user"], "use \"username\""),
];

/// What to do instead of a setting that another client has.
pub(super) fn hint(elsewhere: Elsewhere, name: &str) -> Option<&'static str> {
    elsewhere.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use crate::settings::{CacheSettings, Given, LockSettings, NamedSettings};

    /// Each hint names settings that exist, or says that none is needed; and no setting needs a hint.
    fn check<S: NamedSettings>() {
        let known = || S::NAMES.iter().chain(S::OF_HOSTS);
        for (names, hint) in S::ELSEWHERE {
            match hint.split('"').nth(1) {
                Some(quoted) => assert!(known().any(|name| *name == quoted), "{hint}"),
                None => assert!(hint.starts_with("leave it out: "), "{hint}"),
            }
            for name in *names {
                let refused = S::default().set(name, Given::Nothing).unwrap_err();
                assert_eq!(refused.message, format!("there is no setting {name:?}: {hint}"));
            }
        }
    }

    #[test]
    fn what_other_clients_call_a_setting_is_answered_with_its_name_here() {
        check::<CacheSettings>();
        check::<LockSettings>();
    }
}
