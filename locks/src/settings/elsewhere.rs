//! What other clients call a setting: a user who comes from one of them is told its name here.

use pinyon_net::settings::Elsewhere;

/// The settings of other clients of Redis and of locks.
pub(super) const NAMES: Elsewhere = &[
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
