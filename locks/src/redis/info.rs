//! What a server tells about itself in the greeting.

use pinyon_proto::resp::Value;
use pinyon_proto::ServerVersion;

/// The server of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    pub protocol: Protocol,
    /// `None` if the server does not report it, or not in a readable form.
    pub version: Option<ServerVersion>,
    /// `redis`, `valkey` or another one, in lower case; empty if unknown, like the following.
    pub kind: Box<str>,
    /// `standalone`, `cluster` or `sentinel`.
    pub mode: Box<str>,
    /// `master` or `replica`.
    pub role: Box<str>,
}

/// The version of the protocol that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Messages of a subscribed connection arrive as arrays, and it takes no other commands.
    #[default]
    Resp2,
    /// Messages arrive as pushes between the replies to any commands.
    Resp3,
}

impl ServerInfo {
    /// Reads the reply to `HELLO`: names and values, as a map or as a list. `None` if it is no such reply.
    pub(super) fn of_hello(reply: &Value) -> Option<Self> {
        let pairs: Vec<(&Value, &Value)> = match reply {
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            Value::Array(values) if !values.is_empty() && values.len() % 2 == 0 => {
                values.chunks(2).map(|pair| (&pair[0], &pair[1])).collect()
            }
            _ => return None,
        };
        let mut info = Self { protocol: Protocol::Resp3, ..Self::default() };
        for (name, value) in pairs {
            match (text(name)?, value) {
                ("proto", Value::Integer(2)) => info.protocol = Protocol::Resp2,
                (name, value) => info.learn(name, text(value).unwrap_or_default()),
            }
        }
        Some(info)
    }

    /// Reads the reply to `INFO`: lines of names and values.
    pub(super) fn learn_from(&mut self, reply: &Value) {
        for line in text(reply).unwrap_or_default().lines() {
            if let Some((name, value)) = line.split_once(':') {
                self.learn(name, value);
            }
        }
    }

    fn learn(&mut self, name: &str, value: &str) {
        match name {
            "server" | "server_name" => self.kind = value.to_ascii_lowercase().into(),
            "version" => self.version = ServerVersion::parse(value.as_bytes()),
            // Valkey also reports the version of Redis that it is compatible with.
            "redis_version" if self.version.is_none() => {
                self.version = ServerVersion::parse(value.as_bytes());
                if self.kind.is_empty() {
                    self.kind = "redis".into();
                }
            }
            "valkey_version" => {
                self.version = ServerVersion::parse(value.as_bytes());
                self.kind = "valkey".into();
            }
            "mode" | "redis_mode" | "server_mode" => self.mode = value.into(),
            "role" if value == "slave" => self.role = "replica".into(),
            "role" => self.role = value.into(),
            _ => {}
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Bytes(bytes) | Value::Status(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().into())
    }

    #[test]
    fn hello_is_read_as_a_map_and_as_an_array() {
        let pairs = [("server", bytes("Valkey")), ("version", bytes("8.0.1")), ("proto", Value::Integer(3))];
        let pairs = pairs.into_iter().chain([("mode", bytes("cluster")), ("modules", Value::Array(vec![]))]);
        let pairs: Vec<(Value, Value)> = pairs.map(|(name, value)| (bytes(name), value)).collect();
        let mut array: Vec<Value> = pairs.iter().cloned().flat_map(|(name, value)| [name, value]).collect();
        let info = ServerInfo::of_hello(&Value::Map(pairs)).unwrap();
        let (version, mode) = (Some(ServerVersion::new(8, 0, 1)), "cluster".into());
        let expected = ServerInfo { protocol: Protocol::Resp3, version, kind: "valkey".into(), mode, role: "".into() };
        assert_eq!(info, expected);

        array[5] = Value::Integer(2);
        let info = ServerInfo::of_hello(&Value::Array(array)).unwrap();
        assert_eq!(info, ServerInfo { protocol: Protocol::Resp2, ..expected });
        for other in [Value::Null, Value::Array(vec![]), bytes("OK"), Value::Array(vec![Value::Null, Value::Null])] {
            assert_eq!(ServerInfo::of_hello(&other), None);
        }
    }

    #[test]
    fn info_is_read_line_by_line() {
        let mut info = ServerInfo::default();
        info.learn_from(&bytes("# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n"));
        info.learn_from(&bytes("# Replication\r\nrole:slave\r\n"));
        assert_eq!((&*info.kind, info.version), ("redis", Some(ServerVersion::new(5, 0, 14))));
        assert_eq!((&*info.mode, &*info.role), ("standalone", "replica"));

        let mut info = ServerInfo::default();
        info.learn_from(&bytes("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\nrole:master"));
        assert_eq!((&*info.kind, info.version), ("valkey", Some(ServerVersion::new(8, 1, 0))));
        assert_eq!(&*info.role, "master");
    }
}
