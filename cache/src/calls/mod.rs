//! The calls of a client: one table, which everything that lists them asks. Front ends define their methods by it, tell by
//! it which of them are awaited or traced, and have their stubs and the table in `docs/calls.md` written from it.
//!
//! To add a call, add a line here and a request or an operation in [`operations`](crate::operations). CONTRIBUTING.md
//! names the files of each front end.

mod described;
mod table;
#[cfg(test)]
mod tests;

pub use described::described;
pub use table::*;

/// A call of a client, as all languages have it.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// The name in the table, which is Python's.
    pub name: &'static str,
    pub asks: Asks,
    pub takes: &'static [Takes],
    pub gives: Gives,
    /// It changes nothing, so a caller may repeat it.
    pub only_reads: bool,
    /// A session may send it together with others of its kind.
    pub may_be_joined: bool,
    /// Servers that take only classic text cannot carry it out.
    pub needs_meta: bool,
    /// What it does, in a sentence.
    pub text: &'static str,
    /// What languages call it that have another word for it: the language and its name. An empty name: it has none.
    pub names: &'static [(Language, &'static str)],
}

/// Whom a call asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// The server of one key.
    Key,
    /// The servers of many keys, all at the same time.
    Keys,
    Servers,
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Key,
    Keys,
    /// Values by their keys.
    Pairs,
    /// A value that the serializer takes.
    Value,
    /// Text or bytes that the server joins with what is stored.
    Bytes,
    /// Seconds, which must be given.
    Ttl,
    /// Seconds, by default the client's.
    StoredTtl,
    Cas,
    /// Seconds for which a stale value lives; by default the item is deleted.
    Stale,
    Delta,
    /// The number to create if there is none; by default nothing is created.
    Initial,
    /// What to return if there is no value.
    Default,
    /// Where the errors of failed servers go; by default they are raised.
    Failed,
    /// A group of statistics.
    Kind,
    /// Seconds from now.
    Delay,
    /// Seconds for making a missing value.
    Lease,
    /// One caller also wins if the item expires within so many seconds.
    Recache,
    /// Whether the value of an item stays.
    Keep,
    /// Names of tags, each an argument of its own.
    Tags,
}

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    Value,
    ValueAndCas,
    ValueAndTtl,
    /// Values by key.
    Values,
    /// Values and tokens by key.
    ValuesAndCas,
    /// Whether the server did it.
    Done,
    /// Whether it was stored, has changed, or is gone.
    Compared,
    /// The keys that were not stored.
    NotStored,
    /// The keys that have an item.
    Found,
    /// How many items there were.
    Count,
    Number,
    Metadata,
    Lease,
    /// A text by server.
    Texts,
    /// Texts by name, by server.
    Statistics,
    Nothing,
}

/// A language that may have a word of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Python,
    Ruby,
    Perl,
    C,
}

impl Call {
    /// The call of this name in the table.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|call| call.name == name)
    }

    /// What a language calls it; `None` if it has no such call.
    pub fn name_in(&self, language: Language) -> Option<&'static str> {
        let own = self.names.iter().find(|(of, _)| *of == language);
        own.map_or(Some(self.name), |(_, name)| Some(*name).filter(|name| !name.is_empty()))
    }
}

/// Names of variants as front ends read them.
macro_rules! words {
    ($($kind:ident { $($variant:ident $word:literal)* })*) => {
        $(
            impl $kind {
                pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

                pub fn word(self) -> &'static str {
                    match self {
                        $(Self::$variant => $word,)*
                    }
                }
            }
        )*
    };
}

words! {
    Asks { Key "key" Keys "keys" Servers "servers" }
    Takes {
        Key "key" Keys "keys" Pairs "pairs" Value "value" Bytes "bytes" Ttl "ttl" StoredTtl "stored_ttl" Cas "cas"
        Stale "stale" Delta "delta" Initial "initial" Default "default" Failed "failed" Kind "kind" Delay "delay"
        Lease "lease" Recache "recache" Keep "keep"
        Tags "tags"
    }
    Gives {
        Value "value" ValueAndCas "value_and_cas" ValueAndTtl "value_and_ttl" Values "values"
        ValuesAndCas "values_and_cas" Done "done" Compared "compared" NotStored "not_stored" Found "found" Count "count"
        Number "number" Metadata "metadata" Lease "lease" Texts "texts" Statistics "statistics" Nothing "nothing"
    }
    Language { Python "python" Ruby "ruby" Perl "perl" C "c" }
}
