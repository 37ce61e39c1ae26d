//! Certificates and keys, read from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use super::TlsError;

/// The trusted authorities: only those in the file, or else the system's.
pub(super) fn roots(file: Option<&Path>) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for certificate in read_certificates("ca", path)? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable("ca", path, &format!("has a bad certificate: {error}")))?;
            }
        }
        None => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let message = "the system trusts no certificates: install them (Debian's package ca-certificates), or \
                               name those to trust with ca";
                return Err(TlsError::new(message));
            }
        }
    }
    Ok(Arc::new(roots))
}

/// Lets the client present this certificate to servers that request one.
pub(super) fn with_client(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    certificate: &Path,
    key: Option<&Path>,
) -> Result<ClientConfig, TlsError> {
    let chain = read_certificates("certificate", certificate)?;
    let (name, path) = key.map_or(("certificate", certificate), |key| ("key", key));
    let private = read_key(name, path)?;
    builder.with_client_auth_cert(chain, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => unusable(
            name,
            path,
            &format!(
                "has a key that does not belong to the certificate in {}: give the pair that was made together",
                certificate.display()
            ),
        ),
        error => unusable(name, path, &format!("has a key or certificate that cannot be used: {error}")),
    })
}

fn read_certificates(name: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(name, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(unusable(name, path, "has no certificate; it is to be PEM text, with lines BEGIN CERTIFICATE"))
        }
        Ok(certificates) => Ok(certificates),
        Err(_) => Err(unusable(name, path, "is damaged: it is to be certificates as PEM text")),
    }
}

fn read_key(name: &str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(name, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let encrypted = text.windows(9).any(|word| word == b"ENCRYPTED");
        match error {
            _ if encrypted => unusable(
                name,
                path,
                "has a key that is encrypted with a passphrase: decrypt it with \
                                                    \"openssl pkey -in OLD -out NEW\" and keep the file from others",
            ),
            pem::Error::NoItemsFound => {
                unusable(name, path, "has no private key; it is to be PEM text, with a line BEGIN PRIVATE KEY")
            }
            _ => unusable(name, path, "is damaged: it is to be a private key as PEM text"),
        }
    })
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => ": correct the path",
            std::io::ErrorKind::PermissionDenied => ": let this process's user read it",
            _ => "",
        };
        TlsError::new(format!("{name}: {} cannot be read: {error}{remedy}", path.display()))
    })
}

fn unusable(name: &str, path: &Path, why: &str) -> TlsError {
    TlsError::new(format!("{name}: {} {why}", path.display()))
}
