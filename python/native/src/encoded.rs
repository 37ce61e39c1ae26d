//! The bytes of values, on their way out.

use std::sync::Arc;

use pinyon_core::session::LARGE;
use pinyon_core::{Data, SharedBytes};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString};

/// A value ready to be sent.
pub(crate) enum Encoded<'v> {
    Bytes(&'v Bound<'v, PyBytes>),
    Text(&'v Bound<'v, PyString>),
    Owned(Vec<u8>),
    Large(Arc<Vec<u8>>),
    Dumped(Bound<'v, PyBytes>),
}

impl Encoded<'_> {
    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        match bytes.len() < LARGE {
            true => Encoded::Owned(bytes),
            false => Encoded::Large(Arc::new(bytes)),
        }
    }

    /// For one command: small values are copied when submitted, large ones sent from where they are.
    pub(crate) fn data(&self) -> PyResult<Data<'_>> {
        let bytes = self.bytes()?;
        if bytes.len() < LARGE {
            return Ok(Data::Copied(bytes));
        }
        Ok(Data::Shared(match self {
            Encoded::Bytes(bytes) => Arc::new(PyBackedBytes::from((*bytes).clone())),
            Encoded::Dumped(bytes) => Arc::new(PyBackedBytes::from(bytes.clone())),
            Encoded::Text(text) => Arc::new(Text(PyBackedStr::try_from((*text).clone())?)),
            Encoded::Large(bytes) => bytes.clone(),
            Encoded::Owned(bytes) => Arc::new(bytes.clone()),
        }))
    }

    /// For a command that may have to be sent again.
    pub(crate) fn keep(&self) -> PyResult<Kept> {
        match self {
            Encoded::Bytes(bytes) if bytes.as_bytes().len() < LARGE => {
                Ok(Kept::Object(PyBackedBytes::from((*bytes).clone())))
            }
            _ => Ok((&self.data()?).into()),
        }
    }

    pub(crate) fn bytes(&self) -> PyResult<&[u8]> {
        match self {
            Encoded::Bytes(bytes) => Ok(bytes.as_bytes()),
            Encoded::Dumped(bytes) => Ok(bytes.as_bytes()),
            Encoded::Text(text) => text.to_str().map(str::as_bytes),
            Encoded::Owned(bytes) => Ok(bytes),
            Encoded::Large(bytes) => Ok(bytes),
        }
    }
}

/// Sent from where Python has it.
struct Text(PyBackedStr);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A value kept until it is sent.
pub(crate) enum Kept {
    Nothing,
    Small(Vec<u8>),
    /// As Python has it, small.
    Object(PyBackedBytes),
    Large(SharedBytes),
}

impl Kept {
    pub(crate) fn data(&self) -> Data<'_> {
        match self {
            Kept::Nothing => Data::None,
            Kept::Small(bytes) => Data::Copied(bytes),
            Kept::Object(bytes) => Data::Copied(bytes),
            Kept::Large(bytes) => Data::Shared(bytes.clone()),
        }
    }
}

impl From<&Data<'_>> for Kept {
    fn from(data: &Data<'_>) -> Self {
        match data {
            Data::None => Kept::Nothing,
            Data::Copied(bytes) => Kept::Small(bytes.to_vec()),
            Data::Shared(bytes) => Kept::Large(bytes.clone()),
        }
    }
}
