//! The table.

use super::Language::{Perl, Python, Ruby, C};
use super::{Asks, Call, Gives, Takes};

/// Whether a word is there.
macro_rules! is {
    () => {
        false
    };
    ($word:ident) => {
        true
    };
}

/// Defines a constant for each call, and the list of them all.
macro_rules! calls {
    ($(
        $(#[doc = $text:literal])*
        $constant:ident = $name:literal, asks $asks:ident, takes [$($takes:ident)*], gives $gives:ident
            $(, only $only_reads:ident)? $(, may $may_be_joined:ident)? $(, needs $needs_meta:ident)?
            $(, names [$(($language:ident $own:literal))*])?;
    )*) => {
        $(
            $(#[doc = $text])*
            pub const $constant: Call = Call {
                name: $name,
                asks: Asks::$asks,
                takes: &[$(Takes::$takes,)*],
                gives: Gives::$gives,
                only_reads: is!($($only_reads)?),
                may_be_joined: is!($($may_be_joined)?),
                needs_meta: is!($($needs_meta)?),
                text: concat!($($text),*),
                names: &[$($(($language, $own),)*)?],
            };
        )*

        /// All calls, in the order in which they are shown.
        pub const ALL: [&Call; [$($name,)*].len()] = [$(&$constant,)*];
    };
}

calls! {
    /// Returns the value of a key.
    GET = "get", asks Key, takes [Key Default], gives Value, only reads, may be_joined;
    /// Returns the values of many keys.
    GET_MANY = "get_many", asks Keys, takes [Keys Failed], gives Values, only reads, names [(Perl "get_multi") (C "")];
    /// Returns the value of a key with its CAS token.
    GETS = "gets", asks Key, takes [Key], gives ValueAndCas, only reads;
    /// Returns the values of many keys, each with its CAS token.
    GETS_MANY = "gets_many", asks Keys, takes [Keys Failed], gives ValuesAndCas, only reads,
        names [(Perl "gets_multi") (C "")];
    /// Returns the value of a key with the seconds until it expires.
    GET_WITH_TTL = "get_with_ttl", asks Key, takes [Key], gives ValueAndTtl, only reads, needs meta;
    /// Returns the value of a key, and sets its ttl.
    GAT = "gat", asks Key, takes [Key Ttl], gives Value;
    /// Returns the value of a key with its CAS token, and sets its ttl.
    GATS = "gats", asks Key, takes [Key Ttl], gives ValueAndCas, names [(Python "") (Ruby "")];
    /// Returns the values of many keys, and sets their ttl.
    GAT_MANY = "gat_many", asks Keys, takes [Keys Ttl Failed], gives Values, names [(Perl "gat_multi") (C "")];
    /// Sets the ttl of an item.
    TOUCH = "touch", asks Key, takes [Key Ttl], gives Done;
    /// Sets the ttl of many items.
    TOUCH_MANY = "touch_many", asks Keys, takes [Keys Ttl], gives Found, names [(Perl "touch_multi") (C "")];
    /// Stores a value.
    SET = "set", asks Key, takes [Key Value StoredTtl], gives Done, may be_joined;
    /// Stores a value unless the key has one.
    ADD = "add", asks Key, takes [Key Value StoredTtl], gives Done;
    /// Stores a value if the key has one.
    REPLACE = "replace", asks Key, takes [Key Value StoredTtl], gives Done;
    /// Appends to the stored value.
    APPEND = "append", asks Key, takes [Key Bytes], gives Done;
    /// Prepends to the stored value.
    PREPEND = "prepend", asks Key, takes [Key Bytes], gives Done;
    /// Stores a value if the item still has this CAS token.
    CAS = "cas", asks Key, takes [Key Value Cas StoredTtl], gives Compared;
    /// Stores many values.
    SET_MANY = "set_many", asks Keys, takes [Pairs StoredTtl], gives NotStored, names [(Perl "set_multi") (C "")];
    /// Deletes an item, or marks its value stale.
    DELETE = "delete", asks Key, takes [Key Stale], gives Done;
    /// Deletes many items.
    DELETE_MANY = "delete_many", asks Keys, takes [Keys], gives Count, names [(Perl "delete_multi") (C "")];
    /// Adds to a stored number.
    INCR = "incr", asks Key, takes [Key Delta Initial StoredTtl], gives Number;
    /// Subtracts from a stored number.
    DECR = "decr", asks Key, takes [Key Delta Initial StoredTtl], gives Number;
    /// Returns what the server knows of an item besides its value.
    META = "meta", asks Key, takes [Key], gives Metadata, only reads, needs meta;
    /// Makes all servers forget all items.
    FLUSH_ALL = "flush_all", asks Servers, takes [Delay], gives Nothing;
    /// Forgets all items of the namespace, and nothing else. Needs the setting `clearable`.
    CLEAR_NAMESPACE = "clear_namespace", asks Servers, takes [], gives Nothing;
    /// Has all values with one of these tags count as missing, wherever they are.
    INVALIDATE_TAGS = "invalidate_tags", asks Keys, takes [Tags], gives Nothing;
    /// Returns the statistics of each server.
    STATS = "stats", asks Servers, takes [Kind], gives Statistics, only reads;
    /// Returns the version of each server.
    VERSION = "version", asks Servers, takes [], gives Texts, only reads;
    /// Asks for the value of a key, or for the right to make it: what `get_or_set` and `lease` do first.
    LEASE = "lease", asks Key, takes [Key Lease Recache], gives Lease, needs meta,
        names [(Python "_ask_lease") (Ruby "ask_lease") (Perl "_lease")];
    /// Gives back a lease that was won.
    GIVE_BACK = "give_back", asks Key, takes [Key Cas Keep], gives Done, needs meta,
        names [(Perl "_give_back") (Python "_give_back")];
}
