//! Setting values as a front end receives them, and how each type of setting reads them.

use std::any::Any;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::credentials::Password;
use crate::credentials::{Function, Supplied};
use crate::error::kinds::ErrorKind;
use crate::invalid::InvalidArgument;
use crate::tls::Tls;
use crate::words::words;

/// A setting's value as a front end receives it from its user.
#[derive(Clone)]
pub enum Given<'a> {
    /// The language's word for no value, such as Python's None.
    Nothing,
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Text from a host without other types. It is read as the setting's type.
    Untyped(&'a str),
    List(Vec<Given<'a>>),
    Tls(Arc<Tls>),
    /// The settings of compression, which values define.
    Compression(Arc<dyn Any + Send + Sync>),
    /// The settings of hot keys in memory, which caches define.
    Near(Arc<dyn Any + Send + Sync>),
    /// A function, for the settings that may be one.
    Function(Arc<dyn Function>),
    /// Anything else, with the language's name for its type.
    Other(String),
}

impl Given<'_> {
    /// Its type, for messages. They never show a value of the wrong type: it may be a misplaced password.
    fn kind(&self) -> &str {
        match self {
            Given::Nothing => words().nothing,
            Given::Flag(_) => words().flag,
            Given::Whole(_) => words().whole,
            Given::Number(_) => words().number,
            Given::Text(_) | Given::Untyped(_) => words().text,
            Given::Bytes(_) => words().bytes,
            Given::List(_) => words().list,
            Given::Tls(_) => words().tls,
            Given::Compression(_) => words().compression,
            Given::Near(_) => words().near,
            Given::Function(_) => words().function,
            Given::Other(kind) => kind,
        }
    }
}

/// A type of settings.
pub trait Setting: Sized {
    /// `name`: the setting's name, for messages.
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument>;

    /// This value, as a front end may return it.
    fn given(&self) -> Given<'_>;
}

pub fn wrong<T>(name: &str, expected: &str, given: &Given<'_>) -> Result<T, InvalidArgument> {
    refused(ErrorKind::UnsupportedType, name, expected, given)
}

pub fn refused<T>(kind: ErrorKind, name: &str, expected: &str, given: &Given<'_>) -> Result<T, InvalidArgument> {
    Err(InvalidArgument::new(kind, format!("{name} must be {expected}, not {}", given.kind())))
}

impl Setting for bool {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Flag(flag) => Ok(flag),
            Given::Untyped("1" | "true" | "yes" | "on") => Ok(true),
            Given::Untyped("" | "0" | "false" | "no" | "off") => Ok(false),
            other => wrong(name, &format!("{} or {}", words().yes, words().no), &other),
        }
    }

    fn given(&self) -> Given<'_> {
        Given::Flag(*self)
    }
}

impl Setting for i64 {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        let number = match &given {
            Given::Whole(number) => Some(*number),
            Given::Untyped(text) => text.parse().ok(),
            _ => None,
        };
        number.map_or_else(|| wrong(name, "a whole number", &given), Ok)
    }

    fn given(&self) -> Given<'_> {
        Given::Whole(*self)
    }
}

impl Setting for f64 {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        let number = match &given {
            Given::Number(number) => Some(*number),
            Given::Whole(number) => Some(*number as f64),
            Given::Untyped(text) => text.parse().ok(),
            _ => None,
        };
        number.map_or_else(|| wrong(name, "a number", &given), Ok)
    }

    fn given(&self) -> Given<'_> {
        Given::Number(*self)
    }
}

impl Setting for String {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Text(text) | Given::Untyped(text) => Ok(text.to_owned()),
            other => wrong(name, words().text, &other),
        }
    }

    fn given(&self) -> Given<'_> {
        Given::Text(self)
    }
}

impl Setting for Vec<u8> {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Text(text) | Given::Untyped(text) => Ok(text.into()),
            Given::Bytes(bytes) => Ok(bytes.into()),
            other => wrong(name, words().both, &other),
        }
    }

    fn given(&self) -> Given<'_> {
        std::str::from_utf8(self).map_or(Given::Bytes(self), Given::Text)
    }
}

impl Setting for PathBuf {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        Vec::read(name, given).map(|bytes| OsStr::from_bytes(&bytes).into())
    }

    fn given(&self) -> Given<'_> {
        Given::Bytes(self.as_os_str().as_bytes())
    }
}

impl Setting for Password {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        Vec::read(name, given).map(Self::from)
    }

    /// A password stays hidden.
    fn given(&self) -> Given<'_> {
        Given::Nothing
    }
}

impl<T: Setting> Setting for Supplied<T> {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Function(function) => Ok(Self::By(function)),
            given => T::read(name, given).map(Self::Fixed),
        }
    }

    fn given(&self) -> Given<'_> {
        match self {
            Supplied::Fixed(value) => value.given(),
            Supplied::By(function) => Given::Function(function.clone()),
        }
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Nothing => Ok(None),
            given => T::read(name, given).map(Some),
        }
    }

    fn given(&self) -> Given<'_> {
        self.as_ref().map_or(Given::Nothing, Setting::given)
    }
}

/// Servers as a user lists them. Each text contains one server, or several separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTexts(pub Vec<String>);

impl ServerTexts {
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'a> From<&'a str> for ServerTexts {
    fn from(text: &'a str) -> Self {
        Self(vec![text.to_owned()])
    }
}

impl Setting for ServerTexts {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        let listed = match given {
            Given::List(listed) => listed,
            one @ (Given::Text(_) | Given::Untyped(_) | Given::Bytes(_)) => vec![one],
            other => {
                let expected = format!("{} such as \"host:port\", or a list of these", words().text);
                return wrong(name, &expected, &other);
            }
        };
        let texts = listed.iter().map(|server| match server {
            Given::Text(text) | Given::Untyped(text) => Ok((*text).to_owned()),
            other => {
                let expected = format!("{} such as \"host:port\"", words().text);
                refused(ErrorKind::InvalidServers, "a server", &expected, other)
            }
        });
        texts.collect::<Result<_, _>>().map(Self)
    }

    fn given(&self) -> Given<'_> {
        Given::List(self.0.iter().map(|text| Given::Text(text)).collect())
    }
}

/// A server's URL as a user writes it, or several with spaces between them.
#[derive(Clone, Debug)]
pub struct UrlText(pub String);

impl Setting for UrlText {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Text(text) | Given::Untyped(text) => Ok(Self(text.to_owned())),
            Given::List(each) => {
                let urls = each.into_iter().map(|one| match one {
                    Given::Text(text) | Given::Untyped(text) if !text.contains(char::is_whitespace) => Ok(text),
                    Given::Text(_) | Given::Untyped(_) => {
                        let message = format!("a URL in {name} contains a space: write %20");
                        Err(InvalidArgument::new(ErrorKind::InvalidServers, message))
                    }
                    other => {
                        let expected = format!("{} such as \"redis://host:port\"", words().text);
                        refused(ErrorKind::InvalidServers, "a URL", &expected, &other)
                    }
                });
                urls.collect::<Result<Vec<_>, _>>().map(|urls| Self(urls.join(" ")))
            }
            other => {
                let expected = format!("{} such as \"redis://host:port\", or a list of these", words().text);
                refused(ErrorKind::InvalidServers, name, &expected, &other)
            }
        }
    }

    fn given(&self) -> Given<'_> {
        Given::Text(&self.0)
    }
}
