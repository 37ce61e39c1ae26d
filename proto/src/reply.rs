//! Turns reply lines into heads: everything that a server says before a value.

use crate::number::{leading, leading_hex, signed, unsigned};
use crate::{Form, Opaque, Verb};

/// The first line of a reply, decoded. If [`Head::size`] is set, a value follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: Status,
    /// The value's length.
    pub size: Option<usize>,
    pub opaque: Option<Opaque>,
    pub item: Item,
    /// The number in the answer to a classic `incr` or `decr`.
    pub number: Option<u64>,
}

/// The kind of answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Stored, deleted or touched; or found, if no value was requested.
    #[default]
    Done,
    /// Found: the value follows, or the reply is the number of an `incr`.
    Hit,
    Miss,
    NotStored,
    /// The CAS token differs.
    Exists,
    NotFound,
    /// The reply to a no-op.
    NoOp,
    /// The server's version, in the reply's line.
    Version,
    /// A name and a value, in the reply's line. More may follow.
    Stat,
    /// The end of `VALUE`, `CONFIG` or `STAT` lines.
    End,
    /// `ERROR`: the server does not know the command.
    UnknownCommand,
    /// `CLIENT_ERROR`: the server did not understand the request.
    ClientError,
    /// `SERVER_ERROR`: the server failed to carry out the request.
    ServerError,
}

impl Head {
    /// A head without anything else.
    pub const fn of(status: Status) -> Self {
        Self { status, size: None, opaque: None, item: Item::UNKNOWN, number: None }
    }
}

impl Item {
    const UNKNOWN: Self = Self {
        client_flags: 0,
        cas: None,
        ttl: None,
        last_access: None,
        hit_before: None,
        size: None,
        won: false,
        stale: false,
        already_won: false,
    };
}

impl Status {
    pub fn is_error(self) -> bool {
        matches!(self, Status::UnknownCommand | Status::ClientError | Status::ServerError)
    }
}

/// What a reply says about the item, as far as it was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub client_flags: u32,
    pub cas: Option<u64>,
    /// Seconds left; -1 if it never expires.
    pub ttl: Option<i64>,
    /// Seconds since the last access before this command.
    pub last_access: Option<u64>,
    pub hit_before: Option<bool>,
    pub size: Option<u64>,
    /// `W`: this caller must make a new value.
    pub won: bool,
    /// `X`: the value is stale.
    pub stale: bool,
    /// `Z`: another caller is already making a new value.
    pub already_won: bool,
}

impl Head {
    /// Whether the item is a placeholder, which the server made on a miss for a caller to fill. An empty value without
    /// client flags looks the same while it is being replaced.
    pub fn is_placeholder(&self) -> bool {
        self.size == Some(0) && self.item.client_flags == 0 && (self.item.won || self.item.already_won)
    }

    /// Whether the value may be a placeholder as far as the reply tells. Classic text does not tell.
    pub fn may_be_placeholder(&self) -> bool {
        self.size == Some(0) && self.item.client_flags == 0 && self.status == Status::Hit && self.opaque.is_none()
    }
}

/// A reply that violates the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub what: &'static str,
    /// The beginning of the received bytes, with unprintable ones escaped.
    pub excerpt: String,
}

impl Malformed {
    pub fn new(what: &'static str, bytes: &[u8]) -> Self {
        Self { what, excerpt: bytes[..bytes.len().min(60)].escape_ascii().to_string() }
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: received \"{}\"", self.what, self.excerpt)
    }
}

impl std::error::Error for Malformed {}

impl Form {
    /// Whether a reply of this form may have this status. Errors may answer any request.
    fn admits(self, status: Status) -> bool {
        use Status::{Done, End, Exists, Hit, Miss, NoOp, NotFound, NotStored, Stat, Version};
        match self {
            _ if status.is_error() => true,
            Form::Meta(Verb::Get) => matches!(status, Hit | Done | Miss),
            Form::Meta(Verb::Store) => matches!(status, Done | NotStored | Exists | NotFound),
            Form::Meta(Verb::Delete) => matches!(status, Done | NotFound | Exists),
            Form::Meta(Verb::Arithmetic) => matches!(status, Hit | Done | NotFound | NotStored | Exists),
            Form::Quiet => matches!(status, Hit | Done | Miss | NotStored | Exists | NotFound | NoOp),
            Form::NoOp => status == NoOp,
            Form::ClassicGet | Form::ClusterConfig => matches!(status, Hit | End),
            Form::ClassicStore => matches!(status, Done | NotStored | Exists | NotFound),
            Form::ClassicDelete | Form::ClassicTouch => matches!(status, Done | NotFound),
            Form::ClassicNumber => matches!(status, Hit | NotFound),
            Form::FlushAll => status == Done,
            Form::Stats => matches!(status, Stat | End),
            Form::Version => status == Version,
        }
    }

    /// Refuses a line whose status is impossible for this form.
    #[inline]
    pub fn check(self, status: Status, line: &[u8]) -> Result<(), Malformed> {
        if self.admits(status) {
            return Ok(());
        }
        Err(Malformed::new(self.expectation(), line))
    }

    fn expectation(self) -> &'static str {
        match self {
            Form::Meta(Verb::Get) => "expected VA, HD or EN in reply to mg",
            Form::Meta(Verb::Store) => "expected HD, NS, EX or NF in reply to ms",
            Form::Meta(Verb::Delete) => "expected HD, NF or EX in reply to md",
            Form::Meta(Verb::Arithmetic) => "expected VA, HD, NF, NS or EX in reply to ma",
            Form::Quiet => "expected a meta reply or MN",
            Form::NoOp => "expected MN in reply to mn",
            Form::ClassicGet => "expected VALUE or END in reply to get",
            Form::ClassicStore => "expected STORED, NOT_STORED, EXISTS or NOT_FOUND in reply to a store",
            Form::ClassicDelete => "expected DELETED or NOT_FOUND in reply to delete",
            Form::ClassicTouch => "expected TOUCHED or NOT_FOUND in reply to touch",
            Form::ClassicNumber => "expected a number or NOT_FOUND in reply to incr or decr",
            Form::FlushAll => "expected OK in reply to flush_all",
            Form::Stats => "expected STAT or END in reply to stats",
            Form::Version => "expected VERSION in reply to version",
            Form::ClusterConfig => "expected CONFIG or END in reply to config get cluster",
        }
    }
}

/// Reads one line without its `\r\n` into `head`. Returns its key, or an empty slice if the line contains none.
#[inline]
pub(crate) fn decode<'b>(line: &'b [u8], form: Form, head: &mut Head) -> Result<&'b [u8], Malformed> {
    if let (Form::Meta(_) | Form::Quiet, [first, second, rest @ ..]) = (form, line) {
        if let (Some(status), [] | [b' ', ..]) = (status_of(*first, *second), rest) {
            return decode_meta(form, status, line, rest, head);
        }
    }
    decode_other(line, form, head)
}

/// The status of a meta reply about an item.
#[inline(always)]
fn status_of(first: u8, second: u8) -> Option<Status> {
    match &[first, second] {
        b"VA" => Some(Status::Hit),
        b"HD" => Some(Status::Done),
        b"EN" => Some(Status::Miss),
        b"NF" => Some(Status::NotFound),
        b"NS" => Some(Status::NotStored),
        b"EX" => Some(Status::Exists),
        _ => None,
    }
}

fn decode_other<'b>(line: &'b [u8], form: Form, head: &mut Head) -> Result<&'b [u8], Malformed> {
    let (word, rest) = split_word(line);
    let status = match (word, form) {
        (b"VALUE", Form::ClassicGet) | (b"CONFIG", Form::ClusterConfig) => return decode_value(line, rest, head),
        (b"MN", Form::NoOp | Form::Quiet) => Status::NoOp,
        (b"ERROR", _) => Status::UnknownCommand,
        (b"CLIENT_ERROR", _) => Status::ClientError,
        (b"SERVER_ERROR", _) => Status::ServerError,
        (b"END" | b"RESET", Form::Stats) | (b"END", Form::ClassicGet | Form::ClusterConfig) => Status::End,
        (b"STAT", Form::Stats) => Status::Stat,
        (b"STORED", Form::ClassicStore) | (b"DELETED", Form::ClassicDelete) => Status::Done,
        (b"TOUCHED", Form::ClassicTouch) | (b"OK", Form::FlushAll) => Status::Done,
        (b"NOT_STORED", Form::ClassicStore) => Status::NotStored,
        (b"EXISTS", Form::ClassicStore) => Status::Exists,
        (b"NOT_FOUND", Form::ClassicStore | Form::ClassicDelete) => Status::NotFound,
        (b"NOT_FOUND", Form::ClassicTouch | Form::ClassicNumber) => Status::NotFound,
        (b"VERSION", Form::Version) => Status::Version,
        (digits, Form::ClassicNumber) => return decode_number(line, digits, head),
        _ => return Err(Malformed::new(form.expectation(), line)),
    };
    form.check(status, line)?;
    let has_text = status.is_error() || matches!(status, Status::Stat | Status::Version);
    if !has_text && !rest.is_empty() {
        return Err(Malformed::new(form.expectation(), line));
    }
    *head = Head::of(status);
    Ok(&[])
}

/// Reads the rest of a meta reply: the value's length after `VA`, then flags.
#[inline]
fn decode_meta<'b>(
    form: Form,
    status: Status,
    line: &'b [u8],
    mut rest: &'b [u8],
    head: &mut Head,
) -> Result<&'b [u8], Malformed> {
    form.check(status, line)?;
    *head = Head::of(status);
    if status == Status::Hit {
        let size = rest.strip_prefix(b" ").and_then(leading).filter(|(_, after)| matches!(after, [] | [b' ', ..]));
        let Some((size, after)) = size else {
            return Err(Malformed::new("a value's length is not a number", line));
        };
        head.size = usize::try_from(size).ok();
        rest = after;
    }
    decode_flags(head, rest).ok_or_else(|| Malformed::new("a flag in the reply is malformed", line))
}

/// Reads ` f0 c12 …` into the head. Returns the key, if there is one.
#[inline(always)]
fn decode_flags<'b>(head: &mut Head, mut rest: &'b [u8]) -> Option<&'b [u8]> {
    let mut key: &[u8] = &[];
    while let [b' ', letter, after @ ..] = rest {
        rest = match letter {
            b'f' => {
                let (flags, next) = leading(after)?;
                head.item.client_flags = flags.try_into().ok()?;
                next
            }
            b'O' => {
                let (opaque, next) = leading_hex(after)?;
                head.opaque = Some(Opaque(opaque));
                next
            }
            b'k' => {
                let next;
                (key, next) = split_word(after);
                next
            }
            _ => {
                let (argument, next) = split_word(after);
                decode_metadata(&mut head.item, *letter, argument)?;
                next
            }
        };
    }
    matches!(rest, [] | [b' ']).then_some(key)
}

fn decode_metadata(item: &mut Item, letter: u8, argument: &[u8]) -> Option<()> {
    match letter {
        b'c' => item.cas = Some(unsigned(argument)?),
        b't' => item.ttl = Some(signed(argument)?),
        b'l' => item.last_access = Some(unsigned(argument)?),
        b'h' => item.hit_before = Some(unsigned(argument)? != 0),
        b's' => item.size = Some(unsigned(argument)?),
        b'W' => item.won = true,
        b'X' => item.stale = true,
        b'Z' => item.already_won = true,
        _ => {}
    }
    Some(())
}

/// Reads `<key> <flags> <length> [<cas>]` after `VALUE `, or the same of a configuration after `CONFIG `.
#[inline]
fn decode_value<'b>(line: &'b [u8], rest: &'b [u8], head: &mut Head) -> Result<&'b [u8], Malformed> {
    let malformed = || Malformed::new("a VALUE line is malformed", line);
    let (key, rest) = next_long_word(rest).ok_or_else(malformed)?;
    let (client_flags, rest) = next_number(rest).ok_or_else(malformed)?;
    let client_flags = client_flags.try_into().map_err(|_| malformed())?;
    let not_a_length = || Malformed::new("a value's length is not a number", line);
    let size = rest.strip_prefix(b" ").filter(|size| !matches!(size, [] | [b' ', ..])).ok_or_else(malformed)?;
    let (size, rest) = leading(size).ok_or_else(not_a_length)?;
    let size = usize::try_from(size).map_err(|_| not_a_length())?;
    let cas = match rest {
        [] => None,
        [b' ', ..] => match next_number(rest) {
            Some((cas, [])) => Some(cas),
            _ => return Err(malformed()),
        },
        _ => return Err(not_a_length()),
    };
    *head = Head::of(Status::Hit);
    (head.size, head.item.client_flags, head.item.cas) = (Some(size), client_flags, cas);
    Ok(key)
}

fn decode_number<'b>(line: &'b [u8], digits: &'b [u8], head: &mut Head) -> Result<&'b [u8], Malformed> {
    let number = unsigned(digits).ok_or_else(|| Malformed::new(Form::ClassicNumber.expectation(), line))?;
    *head = Head { number: Some(number), ..Head::of(Status::Hit) };
    Ok(&[])
}

/// The first word, and the rest beginning with the space.
fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    text.split_at(end)
}

/// The number after a space, and the rest.
#[inline]
fn next_number(text: &[u8]) -> Option<(u64, &[u8])> {
    leading(text.strip_prefix(b" ")?)
}

/// The next word after a space, and the rest. It is as long as keys are.
fn next_long_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b" ")?;
    let (word, rest) = text.split_at(memchr::memchr(b' ', text).unwrap_or(text.len()));
    (!word.is_empty()).then_some((word, rest))
}
