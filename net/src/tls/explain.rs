//! Explains failures of TLS, and what to do about them.

use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// What a failure means to the person who configured the client.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error),
        Error::AlertReceived(alert) => alerted(*alert),
        Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => {
            "the server speaks no version of TLS that is safe: let it speak 1.2 or 1.3".into()
        }
        error => format!("TLS failed: {error}"),
    }
}

/// Why the server's certificate is refused.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("the server's certificate expired {} ago: renew it on the server", between(*not_after, *time))
        }
        CertificateError::Expired => "the server's certificate has expired: renew it on the server".into(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the server's certificate is not valid for another {}: is this machine's clock right?",
            between(*time, *not_before)
        ),
        CertificateError::UnknownIssuer => {
            "the server's certificate is not signed by a trusted authority: name the file with the certificate of who \
             signed it as ca"
                .into()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            let names = if names.is_empty() { "no name at all".into() } else { names.join(", ") };
            format!(
                "the server's certificate is not for \"{}\" but for {names}: use a name that it is for, or set \
                 server_name to one",
                expected.to_str()
            )
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server shows a certificate that is for signing others (CA:TRUE): make it one of its own, signed by that"
                .into()
        }
        other => format!("the server's certificate is refused: {other}"),
    }
}

/// The alert with which the server ended the connection.
fn alerted(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::CertificateRequired => {
            "the server wants a certificate of the client's: set certificate and key"
        }
        AlertDescription::UnknownCA => {
            "the server does not trust who signed the client's certificate: use one that it trusts, or tell it whom to"
        }
        AlertDescription::CertificateExpired => "the client's certificate has expired: renew it",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => {
            "the server refused the client's certificate, or wants one: see certificate"
        }
        AlertDescription::HandshakeFailure => {
            "the server and the client have no way to agree, or the server wants a certificate of the client's: see \
             certificate"
        }
        AlertDescription::ProtocolVersion => {
            "the server speaks no version of TLS that is safe: let it speak 1.2 or 1.3"
        }
        AlertDescription::UnrecognisedName => "the server does not know the name it was asked for: see server_name",
        _ => "the server ended TLS",
    };
    format!("{why} (its alert is {alert:?})")
}

/// The name inside `DnsName("cache1")` or `IpAddress(10.0.0.1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

/// The time between them, in the largest suitable unit.
fn between(earlier: UnixTime, later: UnixTime) -> String {
    let seconds = Duration::from_secs(later.as_secs().saturating_sub(earlier.as_secs())).as_secs();
    let (count, unit) = match seconds {
        0..=119 => (seconds, "seconds"),
        120..=7199 => (seconds / 60, "minutes"),
        7200..=172_799 => (seconds / 3600, "hours"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{count} {unit}")
}
