//! The calls of a client: one table, which everything that lists them asks. Front ends define their methods by it, tell by
//! it which of them are awaited or traced, and have their stubs and the table in `docs/calls.md` written from it.
//!
//! To add a call, add a line here and a request or an operation in [`operations`](crate::operations). CONTRIBUTING.md
//! names the files of each front end.

mod described;
mod table;
#[cfg(test)]
mod tests;

use pinyon_net::worded;

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

worded! {
    /// Whom a call asks.
    Asks {
        /// The server of one key.
        Key = c"key",
        /// The servers of many keys, all at the same time.
        Keys = c"keys",
        Servers = c"servers",
    }

    /// An argument.
    Takes {
        Key = c"key",
        Keys = c"keys",
        /// Values by their keys.
        Pairs = c"pairs",
        /// A value that the serializer takes.
        Value = c"value",
        /// Text or bytes that the server joins with what is stored.
        Bytes = c"bytes",
        /// Seconds, which must be given.
        Ttl = c"ttl",
        /// Seconds, by default the client's.
        StoredTtl = c"stored_ttl",
        Cas = c"cas",
        /// Seconds for which a stale value lives; by default the item is deleted.
        Stale = c"stale",
        Delta = c"delta",
        /// The number to create if there is none; by default nothing is created.
        Initial = c"initial",
        /// What to return if there is no value.
        Default = c"default",
        /// Where the errors of failed servers go; by default they are raised.
        Failed = c"failed",
        /// A group of statistics.
        Kind = c"kind",
        /// Seconds from now.
        Delay = c"delay",
        /// Seconds for making a missing value.
        Lease = c"lease",
        /// One caller also wins if the item expires within so many seconds.
        Recache = c"recache",
        /// Whether the value of an item stays.
        Keep = c"keep",
        /// Names of tags, each an argument of its own.
        Tags = c"tags",
    }

    /// What a call returns.
    Gives {
        Value = c"value",
        ValueAndCas = c"value_and_cas",
        ValueAndTtl = c"value_and_ttl",
        /// Values by key.
        Values = c"values",
        /// Values and tokens by key.
        ValuesAndCas = c"values_and_cas",
        /// Whether the server did it.
        Done = c"done",
        /// Whether it was stored, has changed, or is gone.
        Compared = c"compared",
        /// The keys that were not stored.
        NotStored = c"not_stored",
        /// The keys that have an item.
        Found = c"found",
        /// How many items there were.
        Count = c"count",
        Number = c"number",
        Metadata = c"metadata",
        Lease = c"lease",
        /// A text by server.
        Texts = c"texts",
        /// Texts by name, by server.
        Statistics = c"statistics",
        Nothing = c"nothing",
    }

    /// A language that may have a word of its own.
    Language {
        Python = c"python",
        Ruby = c"ruby",
        Perl = c"perl",
        C = c"c",
    }
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
