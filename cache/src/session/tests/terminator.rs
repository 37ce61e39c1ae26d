//! The server's end of TLS: it decrypts what a session sends, and encrypts what it receives.

use std::io::{ErrorKind, Read, Write};
use std::sync::{Arc, OnceLock};

use rcgen::CertifiedKey;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::host::Host;
use pinyon_net::address::Endpoint;
use pinyon_net::tls::{ServerTls, Tls, TlsSettings};

pub struct Terminator(ServerConnection);

/// TLS for a client that accepts any certificate, and the server's end of it.
pub fn terminator() -> (ServerTls, Terminator) {
    let endpoint = Endpoint::Tcp { host: "cache1".into(), port: 11211 };
    let settings = TlsSettings { accept_any_certificate_which_is_dangerous: true, ..TlsSettings::default() };
    let tls = Arc::new(Tls::new(&settings).unwrap()).of_endpoint(&endpoint).unwrap();
    (tls, Terminator(ServerConnection::new(config()).unwrap()))
}

fn config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let make = || {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["cache1".into()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap())
    };
    CONFIG.get_or_init(make).clone()
}

impl Terminator {
    /// Completes the handshake. Returns what the session has sent since.
    pub fn shake(&mut self, host: &mut Host) -> Vec<u8> {
        let mut plain = Vec::new();
        for _ in 0..100_000 {
            if !plain.is_empty() && !self.0.is_handshaking() && !self.0.wants_write() {
                break;
            }
            assert!(host.turn().is_empty());
            plain.extend(self.decrypt(&host.peer.take_received()));
            let said = self.encrypt(b"");
            host.peer.reply(&said);
        }
        plain
    }

    /// The contents of the records that are complete.
    pub fn decrypt(&mut self, mut received: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        while !received.is_empty() {
            self.0.read_tls(&mut received).unwrap();
            self.0.process_new_packets().unwrap();
            let read = self.0.reader().read_to_end(&mut plain);
            assert!(read.is_ok() || read.unwrap_err().kind() == ErrorKind::WouldBlock);
        }
        plain
    }

    /// The records in which a server sends this, together with pending handshake messages.
    pub fn encrypt(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        for part in plain.chunks(10_000) {
            self.0.writer().write_all(part).unwrap();
            while self.0.wants_write() {
                self.0.write_tls(&mut records).unwrap();
            }
        }
        while self.0.wants_write() {
            self.0.write_tls(&mut records).unwrap();
        }
        records
    }

    /// The record that ends the connection.
    pub fn close(&mut self) -> Vec<u8> {
        self.0.send_close_notify();
        self.encrypt(b"")
    }

    /// The record that asks the client for new keys.
    pub fn renew_keys(&mut self) -> Vec<u8> {
        self.0.refresh_traffic_keys().unwrap();
        self.encrypt(b"")
    }
}
