//! What other clients call a setting: a user who comes from one of them is told its name here.

use pinyon_net::settings::Elsewhere;

/// The settings of other clients of caches.
pub(super) const NAMES: Elsewhere = &[
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
