//! The setting `tls`, and its parts.

use std::sync::Arc;

use super::given::{refused, Setting};
use super::Given;
use crate::error::kinds::ErrorKind;
use crate::invalid::InvalidArgument;
use crate::tls::{Tls, TlsError, TlsSettings};
use crate::words::{words, Words};

/// Whether to use TLS, and how.
#[derive(Clone, Debug)]
pub enum TlsChoice {
    Off,
    /// With the authorities that the system trusts.
    Usual,
    Own(Arc<Tls>),
}

impl TlsChoice {
    pub fn tls(&self) -> Result<Option<Arc<Tls>>, TlsError> {
        match self {
            TlsChoice::Off => Ok(None),
            TlsChoice::Usual => Tls::usual().map(Some),
            TlsChoice::Own(tls) => Ok(Some(tls.clone())),
        }
    }
}

impl Setting for TlsChoice {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Tls(tls) => Ok(Self::Own(tls)),
            Given::Flag(_) | Given::Untyped(_) => {
                bool::read(name, given).map(|speaks| if speaks { Self::Usual } else { Self::Off })
            }
            other => {
                let Words { yes, no, tls, .. } = words();
                refused(ErrorKind::UsageError, name, &format!("{yes}, {no} or {tls}"), &other)
            }
        }
    }

    fn given(&self) -> Given<'_> {
        match self {
            TlsChoice::Off => Given::Flag(false),
            TlsChoice::Usual => Given::Flag(true),
            TlsChoice::Own(tls) => Given::Tls(tls.clone()),
        }
    }
}

crate::named!(TlsSettings { ca, certificate, key, server_name, accept_any_certificate_which_is_dangerous });
