//! Compression as users set it: by a word, by an algorithm's name, or by a settings object.

use std::sync::Arc;

use crate::dialect::{CompressionSettings, Dictionaries};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings::{refused, wrong, Given, Setting, Words};
use pinyon_net::words::words;

/// Whether to compress, and how.
#[derive(Clone, Debug)]
pub enum CompressionChoice {
    Off,
    /// The dialect's default.
    Usual,
    /// The algorithm with this name.
    Named(String),
    Own(Arc<CompressionSettings>),
}

impl CompressionChoice {
    pub(super) fn settings(&self) -> Option<Arc<CompressionSettings>> {
        match self {
            CompressionChoice::Off => None,
            CompressionChoice::Usual => Some(Arc::default()),
            CompressionChoice::Named(name) => {
                Some(Arc::new(CompressionSettings { algorithm: Some(name.clone()), ..CompressionSettings::default() }))
            }
            CompressionChoice::Own(settings) => Some(settings.clone()),
        }
    }
}

impl Setting for CompressionChoice {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Flag(false) => Ok(Self::Off),
            Given::Flag(true) => Ok(Self::Usual),
            Given::Untyped(text) => match bool::read(name, given) {
                Ok(false) => Ok(Self::Off),
                Ok(true) => Ok(Self::Usual),
                Err(_) => Ok(Self::Named(text.to_owned())),
            },
            Given::Text(algorithm) => Ok(Self::Named(algorithm.to_owned())),
            Given::Compression(settings) => match settings.downcast() {
                Ok(settings) => Ok(Self::Own(settings)),
                Err(_) => unreachable!("compression has one type of settings"),
            },
            other => {
                let Words { yes, no, compression, .. } = words();
                let expected = format!("{yes}, {no}, an algorithm's name or {compression}");
                refused(ErrorKind::UsageError, name, &expected, &other)
            }
        }
    }

    fn given(&self) -> Given<'_> {
        match self {
            CompressionChoice::Off => Given::Flag(false),
            CompressionChoice::Usual => Given::Flag(true),
            CompressionChoice::Named(name) => Given::Text(name),
            CompressionChoice::Own(settings) => Given::Compression(settings.clone()),
        }
    }
}

impl Setting for Dictionaries {
    /// Each dictionary is either its bytes, or a list of its id and its bytes.
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        let listed = match given {
            Given::List(listed) => listed,
            one @ Given::Bytes(_) => vec![one],
            other => return wrong(name, "a list of dictionaries", &other),
        };
        let dictionary = |given: &Given<'_>| match given {
            Given::Bytes(bytes) => Ok((Dictionaries::id_of(bytes), bytes.to_vec())),
            Given::List(pair) => match pair[..] {
                [Given::Whole(id), Given::Bytes(bytes)] if u32::try_from(id).is_ok() => Ok((id as u32, bytes.to_vec())),
                _ => wrong(name, "pairs of an id and bytes", given),
            },
            other => wrong(name, "a list of bytes", other),
        };
        listed.iter().map(dictionary).collect::<Result<_, _>>().map(Self)
    }

    fn given(&self) -> Given<'_> {
        let pairs = self.0.iter().map(|(id, bytes)| Given::List(vec![Given::Whole((*id).into()), Given::Bytes(bytes)]));
        Given::List(pairs.collect())
    }
}

pinyon_net::named!(CompressionSettings { algorithm, threshold, minimum_gain, level, dictionaries });
