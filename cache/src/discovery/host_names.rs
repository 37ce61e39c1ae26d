//! A look at names. Each of their addresses is a server.

use std::net::SocketAddr;
use std::time::Instant;

use super::DiscoverySettings;
use pinyon_net::address::{Endpoint, ServerSpec};
use pinyon_net::error::{Error, Kind};
use pinyon_net::resolver::Resolving;

pub(super) struct Naming {
    names: Vec<Name>,
    until: Instant,
}

struct Name {
    spec: ServerSpec,
    resolution: Resolution,
}

enum Resolution {
    Resolving(Resolving),
    Known(Vec<ServerSpec>),
    Failed(String),
}

impl Naming {
    pub(super) fn new(settings: &DiscoverySettings, now: Instant) -> Self {
        let name = |spec: &ServerSpec| {
            let resolution = match spec.addresses() {
                Ok(_) => Resolution::Known(vec![spec.clone()]),
                Err((name, port)) => match Resolving::begin(name, port) {
                    Ok(resolving) => Resolution::Resolving(resolving),
                    Err(error) => Resolution::Failed(error.to_string()),
                },
            };
            Name { spec: spec.clone(), resolution }
        };
        Self { names: settings.given.iter().map(name).collect(), until: now + settings.timeout }
    }

    /// The servers, once all names are resolved. If one name fails, the look fails: with only some of the servers, keys
    /// would move.
    pub(super) fn advance(&mut self, now: Instant) -> Option<Result<Vec<ServerSpec>, Error>> {
        let mut all = Vec::new();
        for Name { spec, resolution } in &mut self.names {
            if let Resolution::Resolving(resolving) = resolution {
                *resolution = match resolving.take() {
                    Some(Ok(addresses)) if !addresses.is_empty() => Resolution::Known(servers(spec, addresses)),
                    Some(Ok(_)) => Resolution::Failed("it has no addresses".into()),
                    Some(Err(error)) => Resolution::Failed(error.to_string()),
                    None if now < self.until => return None,
                    None => Resolution::Failed("the resolver did not answer in time".into()),
                };
            }
            match resolution {
                Resolution::Known(servers) => all.extend_from_slice(servers),
                Resolution::Resolving(_) => {}
                Resolution::Failed(why) => return Some(Err(unresolved(spec, why))),
            }
        }
        all.sort_by_cached_key(ServerSpec::name);
        all.dedup_by_key(|server| server.name());
        Some(Ok(all))
    }
}

/// The servers at these addresses. If a name has both kinds, only IPv4 counts: both kinds lead to the same servers, and
/// their order may vary.
fn servers(spec: &ServerSpec, addresses: Vec<SocketAddr>) -> Vec<ServerSpec> {
    let Endpoint::Tcp { host, port } = &spec.endpoint else { return vec![spec.clone()] };
    let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
    let counting = addresses.into_iter().filter(|address| !has_ipv4 || address.is_ipv4());
    let server = |address: SocketAddr| {
        let endpoint = Endpoint::Tcp { host: address.ip().to_string(), port: *port };
        ServerSpec { certified_as: Some(host.clone()), ..ServerSpec::new(endpoint, spec.weight) }
    };
    counting.map(server).collect()
}

fn unresolved(spec: &ServerSpec, why: &str) -> Error {
    let message = format!("cannot find the servers: {}", Error::why_unresolved(why));
    Error::new(Kind::Connect, &spec.name().into(), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinyon_net::address::parse_servers;

    #[test]
    fn every_address_is_a_server_of_its_own() {
        let spec = &parse_servers(["cache.example:7:3"]).unwrap()[0];
        let found = |texts: &[&str]| -> Vec<String> {
            servers(spec, texts.iter().map(|text| text.parse().unwrap()).collect())
                .iter()
                .map(ServerSpec::name)
                .collect()
        };
        assert_eq!(found(&["10.0.0.2:7", "10.0.0.1:7"]), ["10.0.0.2:7", "10.0.0.1:7"]);
        assert_eq!(found(&["[::1]:7", "[::2]:7"]), ["[::1]:7", "[::2]:7"]);
        assert_eq!(found(&["[::1]:7", "10.0.0.1:7"]), ["10.0.0.1:7"]);
        let server = &servers(spec, vec!["10.0.0.1:7".parse().unwrap()])[0];
        assert_eq!((server.weight.whole(), server.certified_as.as_deref()), (3, Some("cache.example")));
    }
}
