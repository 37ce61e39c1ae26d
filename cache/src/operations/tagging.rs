//! The generations of tags, as an operation asks for them, and what values are worth by them.
//!
//! The gets of tags to one server leave together. A tag's server is the ring's, whatever state it is in: another one would
//! not know what was invalidated. A tag without a generation gets one only if a value is to be stored with it.

use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Command, Generation, Head, Mode, Status, Store, GENERATION_LENGTH};

use super::route::{choose, may_go_on, told};
use super::values::{OwnedKey, SentKey};
use super::{Ask, End, Next, Sending};
use crate::fleet::Fleet;
use crate::session::{Data, Destination, Refused, Reply, Session, Ticket, Value};
use crate::tags::{sorted, Header, KnownTags, Question, NO_TAGS, TAGGED, TAG_KEY};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::network::Network;

/// Tags by their names, each once.
#[derive(Clone, Debug)]
pub struct Tags(Arc<[Tag]>);

#[derive(Clone, Debug)]
pub(super) struct Tag {
    pub(super) name: Box<[u8]>,
    pub(super) key: OwnedKey,
}

/// Tags with the generations that they had when they were asked for: what stands before a stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTags(Arc<[u8]>);

/// The tags to store a value with.
#[derive(Clone, Debug)]
pub enum Tagging {
    /// Their generations are those of the moment.
    Named(Tags),
    /// Their generations were read before the value was made.
    Read(ReadTags),
    /// With [`Request::Lease`](super::Request::Lease): their generations are read, and nothing is asked about the key. There is
    /// one at least.
    Alone(Tags),
}

impl Tags {
    /// `known`: the client's, see [`Directory::tags`](crate::directory::Directory::tags).
    pub fn new<'n>(
        known: Option<&KnownTags>,
        names: impl IntoIterator<Item = &'n [u8]>,
    ) -> Result<Self, InvalidArgument> {
        let Some(known) = known else { return Err(InvalidArgument::usage(NO_TAGS)) };
        let tag = |name| {
            let refused = |error| {
                let message = format!("the tag {:?}: {error}", String::from_utf8_lossy(name));
                InvalidArgument::new(ErrorKind::InvalidKey, message)
            };
            Tag::new(known, name).map_err(refused)
        };
        Ok(Self(sorted(names)?.into_iter().map(tag).collect::<Result<_, _>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Tag> {
        self.0.iter()
    }
}

impl Tagging {
    /// The same tags, to read nothing else.
    pub fn alone(self) -> Self {
        match self {
            Self::Named(tags) => Self::Alone(tags),
            read => read,
        }
    }
}

impl ReadTags {
    #[cfg(test)]
    pub(crate) fn pretended(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Tag {
    fn new(known: &KnownTags, name: &[u8]) -> Result<Self, pinyon_proto::KeyError> {
        let key = OwnedKey::new(known.rules(), &[TAG_KEY, name].concat())?;
        Ok(Self { name: name.into(), key })
    }
}

/// The tags that an operation must know. Each is asked for by two parts at most: the even one reads its generation, the
/// odd one begins with one.
#[derive(Default)]
pub(super) struct AskedTags(Vec<AskedTag>);

struct AskedTag {
    tag: Tag,
    /// Whether a value is stored with it, so that it must have a generation.
    is_needed: bool,
    state: State,
    question: Option<Question>,
    /// The generation to begin with.
    begun: Option<Generation>,
    has_begun: bool,
    heard: Option<Generation>,
    /// Whether it must not share a line.
    alone: bool,
    sent: Sent,
    error: Option<Error>,
}

enum State {
    Wanted,
    /// The number of its asks that are open.
    Asked(u32),
    Known(Option<Generation>),
    Failed(Box<Error>),
}

/// What a value is worth by its tags.
pub(super) enum Worth {
    Valid,
    Invalid,
    Unknown(Error),
}

impl AskedTags {
    pub(super) fn add(&mut self, tag: Tag, is_needed: bool) {
        if let Some(there) = self.0.iter_mut().find(|there| there.tag.name == tag.name) {
            there.is_needed |= is_needed;
            // It must begin with a generation.
            if is_needed && matches!(there.state, State::Known(None)) {
                there.state = State::Wanted;
            }
            return;
        }
        self.0.push(AskedTag {
            tag,
            is_needed,
            state: State::Wanted,
            question: None,
            begun: None,
            has_begun: false,
            heard: None,
            alone: false,
            sent: Sent::No,
            error: None,
        });
    }

    /// Adds the tags of a stored value.
    pub(super) fn add_of(&mut self, header: &Header<'_>, known: &KnownTags) {
        for (name, _) in &header.tags {
            // A name that this client cannot form a key of is not one of its tags.
            if let Ok(tag) = Tag::new(known, name) {
                self.add(tag, false);
            }
        }
    }

    /// Asks for what is not known well enough. `part`: the number of the ask in its operation.
    pub(super) fn begin(
        &mut self,
        fleet: &Fleet,
        known: &KnownTags,
        now: Instant,
        asks: &mut Vec<Ask>,
        mut part: impl FnMut(u32) -> u32,
    ) {
        for (index, asked) in self.0.iter_mut().enumerate() {
            if !matches!(asked.state, State::Wanted) {
                continue;
            }
            if let Some(generation) = known.fresh(&asked.tag.name) {
                asked.state = State::Known(Some(generation));
                continue;
            }
            let earlier = asked.error.take();
            match choose(fleet, asked.tag.key.routed(), false, now, || "get", earlier.as_ref()) {
                Err(error) => asked.state = State::Failed(error),
                Ok(choice) => {
                    asked.question = Some(known.question());
                    let begins = asked.begun.is_some() || !known.was_there(&asked.tag.name);
                    asked.begun = (asked.is_needed && begins).then(|| known.new_generation());
                    (asked.has_begun, asked.heard) = (false, None);
                    let get = 2 * index as u32;
                    let parts = asked.begun.map(|_| get + 1).into_iter().chain([get]);
                    let before = asks.len();
                    asks.extend(parts.map(|own| Ask { part: part(own), choice }));
                    asked.state = State::Asked((asks.len() - before) as u32);
                }
            }
        }
    }

    pub(super) fn routed(&self, part: u32) -> &[u8] {
        self.of(part).tag.key.routed()
    }

    pub(super) fn name_of(part: u32) -> &'static str {
        match part % 2 {
            0 => "get",
            _ => Mode::Add.name(),
        }
    }

    pub(super) fn only_reads(part: u32) -> bool {
        part % 2 == 0
    }

    pub(super) fn submit<N: Network>(
        &self,
        part: u32,
        session: &mut Session<N>,
        sending: Sending,
    ) -> Result<Ticket, Refused> {
        let asked = self.of(part);
        let key = asked.tag.key.wire();
        match asked.begun.filter(|_| part % 2 == 1) {
            Some(generation) => {
                let (mode, size) = (Mode::Add, GENERATION_LENGTH);
                let store = Store { mode, key, size, client_flags: 0, ttl: 0, cas: None, returns_cas: false };
                session.submit(&Command::Store(store), Data::Copied(&generation.text()), sending.deadline)
            }
            None if asked.alone => session.submit(&Command::Get { key, cas: false }, Data::None, sending.deadline),
            None => session.submit_joined_get(key, sending.deadline),
        }
    }

    pub(super) fn reply(&mut self, part: u32, reply: &Reply<'_>) {
        let asked = self.of_mut(part);
        match (part % 2, reply.head.status) {
            (1, status) => asked.has_begun = status == Status::Done,
            (_, Status::Hit) => match Generation::read(reply.value.bytes()) {
                Some(generation) => asked.heard = Some(generation),
                None => asked.error = Some(unreadable(&asked.tag, reply.server)),
            },
            _ => {}
        }
    }

    /// Takes note of the end of an ask. Afterwards the operation begins again once all are answered.
    pub(super) fn over(&mut self, part: u32, end: End, known: Option<&KnownTags>) -> Next {
        let asked = self.of_mut(part);
        let State::Asked(open) = &mut asked.state else { unreachable!("it was asked for") };
        *open -= 1;
        let is_last = *open == 0;
        let again = match end {
            End::Answered => false,
            End::Withdrawn => true,
            End::Failed { error, in_time } => asked.failed(Self::name_of(part), error, in_time),
        };
        if again {
            asked.question = None;
        }
        if is_last {
            asked.settle(known);
        }
        let (mut open, mut wanted) = (false, false);
        for asked in &self.0 {
            open |= matches!(asked.state, State::Asked(_));
            wanted |= matches!(asked.state, State::Wanted);
        }
        match wanted || !open {
            true => Next::Again,
            false => Next::Nothing,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.iter().any(|asked| matches!(asked.state, State::Wanted | State::Asked(_)))
    }

    /// The header of a value with these tags, once they are known.
    pub(super) fn header(&self, tags: &Tags) -> Result<ReadTags, Error> {
        let generation = |tag: &'_ Tag| match self.state(&tag.name) {
            Some(State::Known(Some(generation))) => Ok(*generation),
            Some(State::Failed(error)) => Err((**error).clone()),
            _ => Err(Error::new(Kind::Server, &"".into(), "the server keeps no generation of the tag")),
        };
        let generations = tags.iter().map(generation).collect::<Result<Vec<_>, _>>()?;
        let pairs = tags.iter().zip(generations).map(|(tag, generation)| (&*tag.name, generation));
        Ok(ReadTags(Header::write(pairs).into()))
    }

    pub(super) fn worth(&self, header: &Header<'_>) -> Worth {
        let mut unknown = None;
        for (name, generation) in &header.tags {
            match self.state(name) {
                Some(State::Known(Some(now))) if now == generation => {}
                Some(State::Failed(error)) => unknown = Some((**error).clone()),
                _ => return Worth::Invalid,
            }
        }
        unknown.map_or(Worth::Valid, Worth::Unknown)
    }

    fn state(&self, name: &[u8]) -> Option<&State> {
        self.0.iter().find(|asked| *asked.tag.name == *name).map(|asked| &asked.state)
    }

    fn of(&self, part: u32) -> &AskedTag {
        &self.0[part as usize / 2]
    }

    fn of_mut(&mut self, part: u32) -> &mut AskedTag {
        &mut self.0[part as usize / 2]
    }
}

impl AskedTag {
    /// Returns whether to ask again. To begin twice changes nothing: the get behind it tells which generation there is.
    fn failed(&mut self, command: &'static str, error: Error, in_time: bool) -> bool {
        let error = told(error, command, self.sent);
        self.sent = error.sent;
        let is_in_doubt = error.is_unattributed() && !self.alone;
        self.alone |= is_in_doubt;
        let again = in_time && (is_in_doubt || may_go_on(&error, true));
        self.error = Some(error);
        again
    }

    fn settle(&mut self, known: Option<&KnownTags>) {
        let Some(question) = self.question else {
            self.state = State::Wanted;
            return;
        };
        let generation = self.heard.or(self.begun.filter(|_| self.has_begun && self.error.is_none()));
        if let (None, Some(error)) = (generation, self.error.take()) {
            self.state = State::Failed(error.into());
            return;
        }
        if generation.is_none() && self.is_needed && self.begun.is_none() {
            (self.begun, self.state) = (known.map(KnownTags::new_generation), State::Wanted);
            return;
        }
        known.iter().for_each(|known| known.heard(&self.tag.name, &question, generation));
        self.state = State::Known(generation);
    }
}

fn unreadable(tag: &Tag, server: &Arc<str>) -> Error {
    let name = String::from_utf8_lossy(&tag.name);
    let message = format!(
        "the item of the tag {name:?} is not a generation, because something else was stored there: invalidate the tag, \
         or choose another one"
    );
    Error::new(Kind::Unreadable, server, message).of("get", Sent::Yes)
}

/// A reply with a value whose tags are not known yet.
pub(super) struct KeptReply {
    pub(super) head: Head,
    value: KeptValue,
    server: Arc<str>,
}

enum KeptValue {
    Copied(Box<[u8]>),
    Received(Box<dyn Destination>),
}

impl KeptReply {
    pub(super) fn new(reply: Reply<'_>) -> Self {
        let value = match reply.value {
            Value::Received(destination) => KeptValue::Received(destination),
            other => KeptValue::Copied(other.bytes().into()),
        };
        Self { head: *reply.head, value, server: reply.server.clone() }
    }

    /// The tags before the value. `None`: the client flag means something else.
    pub(super) fn header(&self) -> Option<Header<'_>> {
        Header::read(self.bytes())
    }

    /// The same as it is stored.
    pub(super) fn tags(&self) -> Option<ReadTags> {
        self.header().map(|header| ReadTags(self.bytes()[..header.length].into()))
    }

    /// Reads the reply: as it would be without tags, or as it was sent.
    pub(super) fn read<T>(&self, has_tags: bool, read: impl FnOnce(Reply<'_>) -> T) -> T {
        let (mut head, mut bytes) = (self.head, self.bytes());
        if let Some(header) = self.header().filter(|_| has_tags) {
            bytes = &bytes[header.length..];
            head.item.client_flags &= !TAGGED;
            head.size = head.size.map(|_| bytes.len());
        }
        read(Reply { head: &head, index: 0, value: Value::Borrowed(bytes), line: &[], server: &self.server })
    }

    fn bytes(&self) -> &[u8] {
        match &self.value {
            KeptValue::Copied(bytes) => bytes,
            KeptValue::Received(destination) => destination.bytes(),
        }
    }
}
