//! TLS for clients: which authorities to trust, which certificate to present, and which name each server must prove.
//!
//! The protocol itself is rustls's, driven by `connection`. This module checks the settings once, and reads the files
//! again when they have changed.
//!
//! If changed files cannot be used, the settings read last stay in use. The sessions to resume are behind a lock, so
//! each process has its own.
//!
//! rustls uses ring, which needs only a C compiler. Authorities come from rustls-native-certs, because people install
//! theirs in the system.

mod certificates;
mod explain;
mod renewal;
mod unverified;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustls::client::{Resumption, UnbufferedClientConnection, WantsClientCert};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use crate::address::{Endpoint, ServerSpec};
use crate::fork::PerProcess;
use crate::invalid::InvalidArgument;
pub use explain::explain;
pub use renewal::Renewed;
use renewal::Renewing;
use unverified::AnyCertificate;

/// The number of servers whose sessions are kept for resumption.
const SESSIONS: usize = 256;

/// The user's TLS settings.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// The only authorities to trust; without it, those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The client's certificate, with its chain up to an authority that the servers trust.
    pub certificate: Option<PathBuf>,
    /// The certificate's private key; without it, the key is in the certificate's file too.
    pub key: Option<PathBuf>,
    /// The name that every server's certificate must have; without it, the host in the server's address.
    pub server_name: Option<String>,
    /// Accepts any server, without verification.
    pub accept_any_certificate_which_is_dangerous: bool,
}

impl std::fmt::Display for TlsSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths = [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)];
        let paths = paths.into_iter().filter_map(|(name, path)| Some(format!("{name}={}", path.as_ref()?.display())));
        let name = self.server_name.iter().map(|name| format!("server_name={name}"));
        let dangerous = self.accept_any_certificate_which_is_dangerous;
        let dangerous = dangerous.then(|| "accept_any_certificate_which_is_dangerous".to_owned());
        let shown: Vec<_> = paths.chain(name).chain(dangerous).collect();
        f.write_str(if shown.is_empty() { "trusting what the system trusts" } else { "" })?;
        f.write_str(&shown.join(", "))
    }
}

/// Settings that cannot be used, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl TlsError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl From<TlsError> for InvalidArgument {
    fn from(error: TlsError) -> Self {
        Self::usage(format!("TLS cannot be used: {error}"))
    }
}

/// TLS settings in use, by any number of clients. Their connections resume each other's sessions, which saves a server
/// most of a handshake.
#[derive(Debug)]
pub struct Tls {
    /// One for each process, since a mutex protects its sessions.
    config: PerProcess<Renewing>,
    settings: TlsSettings,
    server_name: Option<ServerName<'static>>,
}

impl Tls {
    /// The default settings. All clients of a process share one object, because reading the system's authorities takes
    /// several milliseconds.
    pub fn usual() -> Result<Arc<Self>, TlsError> {
        static USUAL: Mutex<Option<Arc<Tls>>> = Mutex::new(None);
        let known = USUAL.try_lock().ok().and_then(|known| known.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(Self::new(&TlsSettings::default())?);
        match USUAL.try_lock() {
            Ok(mut known) => Ok(known.get_or_insert(made).clone()),
            Err(_) => Ok(made),
        }
    }

    /// Reads the files named in the settings. They are read again when they have changed.
    pub fn new(settings: &TlsSettings) -> Result<Self, TlsError> {
        if settings.ca.is_some() && settings.accept_any_certificate_which_is_dangerous {
            return Err(TlsError::new(
                "ca names the authorities to trust, and accept_any_certificate_which_is_dangerous means to trust \
                 everybody: leave out one of them",
            ));
        }
        let server_name = settings.server_name.as_deref().map(|name| read_name("server_name", name)).transpose()?;
        let seen = renewal::stamps(settings);
        let config = Renewing::new(configure(settings)?, seen);
        Ok(Self { config: PerProcess::new(config), settings: settings.clone(), server_name })
    }

    /// Reads the files again if they have changed. Call it before a connection is made. One of the callers is told what
    /// came of each change.
    pub fn renew(&self) -> Option<Renewed> {
        self.current().look(&self.settings)
    }

    /// TLS for this server.
    pub fn of_server(self: &Arc<Self>, spec: &ServerSpec) -> Result<ServerTls, TlsError> {
        match &spec.certified_as {
            Some(name) if self.server_name.is_none() => {
                Ok(ServerTls { tls: self.clone(), name: read_name("the name", name)? })
            }
            _ => self.of_endpoint(&spec.endpoint),
        }
    }

    /// TLS for the server at this endpoint.
    pub fn of_endpoint(self: &Arc<Self>, endpoint: &Endpoint) -> Result<ServerTls, TlsError> {
        let name = match (&self.server_name, endpoint) {
            (Some(name), _) => name.clone(),
            (None, Endpoint::Tcp { host, .. }) => read_name("the server's host", host)?,
            (None, Endpoint::Unix(path)) => {
                return Err(TlsError::new(format!(
                    "{} is a path, for which no certificate is issued: set server_name to the name in the server's",
                    path.display()
                )))
            }
        };
        Ok(ServerTls { tls: self.clone(), name })
    }

    fn current(&self) -> &Renewing {
        self.config.get(|parents| Renewing::inherited(parents, &self.settings))
    }
}

/// Reads the files named in the settings.
fn configure(settings: &TlsSettings) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| TlsError::new(error.to_string()))?;
    let builder: ConfigBuilder<ClientConfig, WantsClientCert> = match settings.accept_any_certificate_which_is_dangerous
    {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        false => builder.with_root_certificates(certificates::roots(settings.ca.as_deref())?),
    };
    let mut config = match (&settings.certificate, &settings.key) {
        (Some(certificate), key) => certificates::with_client(builder, certificate, key.as_deref())?,
        (None, None) => builder.with_no_client_auth(),
        (None, Some(_)) => return Err(TlsError::new("a key is of no use without its certificate: give both")),
    };
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Ok(config)
}

/// The configuration of a process that knows of no files that can be used.
fn trusting_nobody() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has these versions");
    builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

/// The same configuration, with TLS sessions of its own.
fn resuming_anew(config: &ClientConfig) -> ClientConfig {
    let mut config = config.clone();
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    config
}

/// TLS with one server.
#[derive(Clone, Debug)]
pub struct ServerTls {
    tls: Arc<Tls>,
    name: ServerName<'static>,
}

impl ServerTls {
    /// TLS for a server that another one refers to, as in a cluster.
    pub fn moved_to(&self, endpoint: &Endpoint) -> Result<Self, TlsError> {
        self.tls.of_endpoint(endpoint)
    }

    /// Reads the files again if they have changed: see [`Tls::renew`].
    pub fn renew(&self) -> Option<Renewed> {
        self.tls.renew()
    }

    pub fn begin(&self) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(self.tls.current().config(), self.name.clone())
    }
}

fn read_name(what: &str, name: &str) -> Result<ServerName<'static>, TlsError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(ServerName::from(address));
    }
    ServerName::try_from(name.to_owned()).map_err(|_| {
        TlsError::new(format!("{what} \"{}\" is no name that a certificate can have", name.escape_debug()))
    })
}
