//! Converts a scenario's call to a wish, and its reply to JSON.

use std::collections::BTreeSet;
use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pinyon::answers::{pinyon_next_answer, Answers};
use pinyon::error_fields::*;
use pinyon::errors::{Error, Kind};
use pinyon::locks::client::pinyon_new_owner;
use pinyon::locks::lock::{
    self, pinyon_lock_check, pinyon_lock_free, pinyon_lock_is_certain, pinyon_lock_listen, pinyon_lock_lost_early,
    pinyon_lock_remaining, pinyon_lock_token,
};
use pinyon::replies::pinyon_reply_clear;
use pinyon::status::{marks, Status};
use pinyon::structs::{empty, Answer, Bytes, Reply};
use pinyon::wishes::permits::Permits;
use pinyon::wishes::wanted::{with as flags, GivenRate, Wish, WishKind};
use pinyon_locks::settings::{OnFailure, UsualLock};
use pinyon_locks::{Limits, Setup, StatusQuestion};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::Sent;
use serde_json::{json, Value};

use crate::kept::kept;
use crate::player::Raised;
use crate::playing;
use crate::reading::{self, plain, texts};

/// A time as wishes have it: 0 is the usual choice there.
fn given(time: f64) -> f64 {
    if time == 0.0 {
        -1.0
    } else {
        time
    }
}

/// All that an error says.
#[derive(Debug)]
pub struct Failure {
    pub kind: ErrorKind,
    pub sent: Sent,
    pub server: String,
    pub command: String,
    pub message: String,
    cycle: usize,
}

pub type Operation = Asked;
pub type Over = Result<Value, Failure>;

impl Failure {
    /// # Safety
    /// It is an error, which is freed.
    pub unsafe fn of(error: *mut Error) -> Self {
        // SAFETY: the caller says so.
        unsafe {
            let text = |text| CStr::from_ptr(text).to_str().unwrap().to_owned();
            let number = pinyon_error_kind(error);
            let kind = ErrorKind::ALL.into_iter().find(|kind| Kind::Core(*kind).number() == number);
            let read = Self {
                kind: kind.expect("a kind of the core's"),
                sent: [Sent::No, Sent::Maybe, Sent::Yes][pinyon_error_sent(error) as usize],
                server: text(pinyon_error_server(error)),
                command: text(pinyon_error_command(error)),
                message: text(pinyon_error_message(error)),
                cycle: (0..).take_while(|index| !pinyon_error_holder(error, *index).is_null()).count(),
            };
            pinyon_error_free(error);
            read
        }
    }
}

impl From<Failure> for Raised {
    fn from(Failure { kind, message, cycle, .. }: Failure) -> Self {
        Self { kind, message, cycle }
    }
}

/// What C cannot be asked, as its words are flags.
impl From<InvalidArgument> for Raised {
    fn from(InvalidArgument { kind, message, .. }: InvalidArgument) -> Self {
        Self { kind, message, cycle: 0 }
    }
}

impl From<Failure> for playing::Raised {
    fn from(Failure { kind, sent, server, command, message, .. }: Failure) -> Self {
        Self { kind, sent, server: server.into(), command: kept(command), text: message }
    }
}

/// A lock that was asked for, and perhaps acquired.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Handle>>);

struct Handle(*mut lock::Lock);

// SAFETY: threads may share a lock, as the header says.
unsafe impl Send for Handle {}

impl Default for Handle {
    fn default() -> Self {
        Self(null_mut())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_lock_free(self.0) }
    }
}

impl Held {
    pub fn handle(&self) -> *mut lock::Lock {
        self.0.lock().unwrap().0
    }

    pub fn token(&self) -> u64 {
        // SAFETY: as the header says.
        unsafe { pinyon_lock_token(self.handle()) }
    }

    pub fn remaining(&self) -> Option<Duration> {
        // SAFETY: as the header says.
        let remaining = unsafe { pinyon_lock_remaining(self.handle()) };
        (remaining > 0.0).then(|| Duration::from_secs_f64(remaining))
    }

    pub fn not_held(&self) -> Failure {
        let mut error = null_mut();
        // SAFETY: as the header says.
        unsafe {
            assert_eq!(pinyon_lock_check(self.handle(), &mut error), Status::Failed as i32);
            Failure::of(error)
        }
    }

    /// The failure of a holder whose lock was lost.
    pub fn lost_early(&self) -> Failure {
        // SAFETY: as the header says.
        unsafe { Failure::of(pinyon_lock_lost_early(self.handle())) }
    }

    pub fn is_certain(&self) -> bool {
        // SAFETY: as the header says.
        unsafe { pinyon_lock_is_certain(self.handle()) }
    }

    /// Has a loss told with this name.
    pub fn listen(&self, name: String) -> Result<(), ()> {
        let context = std::ptr::from_ref(kept(name)).cast_mut();
        // SAFETY: as the header says.
        match unsafe { pinyon_lock_listen(self.handle(), context.cast::<c_void>()) } {
            true => Ok(()),
            false => Err(()),
        }
    }
}

/// A lock that a call asks for.
#[derive(Clone)]
pub struct Lock {
    pub held: Held,
}

/// A wish, with all that it points to.
#[derive(Clone)]
pub struct Asked {
    kind: WishKind,
    with: u32,
    names: Vec<String>,
    read: Vec<String>,
    permits: Vec<(String, u32, Option<u32>)>,
    lock: Held,
    owner: u64,
    ttl: f64,
    wait: f64,
    max_hold: f64,
    token: u64,
    most: u32,
    at_least: f64,
    ticket: String,
    note: String,
    question: Option<StatusQuestion>,
    rate: Option<GivenRate>,
}

impl Asked {
    fn new(kind: WishKind) -> Self {
        Self {
            kind,
            with: 0,
            names: Vec::new(),
            read: Vec::new(),
            permits: Vec::new(),
            lock: Held::default(),
            owner: 0,
            ttl: 0.0,
            wait: 0.0,
            max_hold: 0.0,
            token: 0,
            most: 0,
            at_least: 0.0,
            ticket: String::new(),
            note: String::new(),
            question: None,
            rate: None,
        }
    }

    /// Passes the wish to a function of the header.
    pub fn pass<T>(&self, to: impl FnOnce(&Wish) -> T) -> T {
        let bytes = |names: &[String]| names.iter().map(|name| Bytes::of(name.as_bytes())).collect::<Vec<_>>();
        let (names, read) = (bytes(&self.names), bytes(&self.read));
        let permits = self.permits.iter().map(|(pool, count, limit)| Permits {
            pool: Bytes::of(pool.as_bytes()),
            count: *count,
            limit: limit.unwrap_or_default(),
        });
        let permits: Vec<Permits> = permits.collect();
        let lock = if self.kind == WishKind::Lock { null_mut() } else { self.lock.handle() };
        to(&Wish {
            kind: self.kind as u32,
            with: self.with,
            names: names.as_ptr(),
            count: names.len(),
            lock,
            owner: self.owner,
            ttl: self.ttl,
            wait: self.wait,
            max_hold: self.max_hold,
            token: self.token,
            most: self.most,
            rate: self.rate.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            at_least: self.at_least,
            ticket: if self.ticket.is_empty() { Bytes::NONE } else { Bytes::of(self.ticket.as_bytes()) },
            note: if self.note.is_empty() { Bytes::NONE } else { Bytes::of(self.note.as_bytes()) },
            read: read.as_ptr(),
            read_count: read.len(),
            permits: permits.as_ptr(),
            permits_count: permits.len(),
            ..empty()
        })
    }

    /// The outcome of a reply, which is cleared.
    pub fn over(&self, reply: &mut Reply) -> Over {
        let outcome = self.read(reply);
        // SAFETY: as the header says.
        unsafe { pinyon_reply_clear(reply) };
        outcome
    }

    fn read(&self, reply: &mut Reply) -> Over {
        if reply.status == Status::Failed as i32 {
            // SAFETY: a reply that failed has an error, which is taken over.
            return Err(unsafe { Failure::of(std::mem::replace(&mut reply.error, null_mut())) });
        }
        if !reply.lock.is_null() {
            self.lock.0.lock().unwrap().0 = std::mem::replace(&mut reply.lock, null_mut()).cast();
        }
        Ok(match self.kind {
            WishKind::Lock | WishKind::Rate => json!(reply.status == Status::Done as i32),
            WishKind::Release | WishKind::Extend | WishKind::Upgrade | WishKind::Downgrade => {
                json!(reply.status == Status::Done as i32)
            }
            WishKind::Park => json!(reply.marks & marks::WAS_NOTIFIED != 0),
            WishKind::Notify | WishKind::ForceRelease | WishKind::ReleaseAll | WishKind::Available => {
                json!(reply.number)
            }
            // SAFETY: as the header says.
            WishKind::HandOver => json!(String::from_utf8(unsafe { reply.value.slice() }.to_vec()).unwrap()),
            WishKind::Inspect => self.state(reply),
            WishKind::Command => {
                // SAFETY: the reply has answers, as the header says.
                let answers = unsafe { &*reply.answers.cast::<Answers>() };
                plain(answers.value.as_ref().expect("the server's answer"))
            }
        })
    }

    fn state(&self, reply: &Reply) -> Value {
        let mut holders: Vec<(Vec<u8>, u64)> = Vec::new();
        let (mut waiting, mut owners) = (BTreeSet::new(), Vec::new());
        let mut answer: Answer = empty();
        // SAFETY: as the header says.
        while unsafe { pinyon_next_answer(reply.answers.cast(), &mut answer) } {
            // SAFETY: as above.
            let who = unsafe { answer.value.slice() }.to_vec();
            // SAFETY: as above.
            let [label, note] = unsafe { [answer.label.slice(), answer.note.slice()] }
                .map(|text| (!text.is_empty()).then(|| String::from_utf8(text.to_vec()).expect("text")));
            // The first of all readers is the holder, too.
            if answer.reads != 0 && owners.len() == 1 && waiting.is_empty() && holders[0].0 == who {
                owners.clear();
            }
            if !who.is_empty() {
                owners.push(json!([label, note]));
            }
            match (answer.waits, answer.reads) {
                (0, 0) => holders.push((who, answer.token)),
                (0, _) => {}
                _ => drop(waiting.insert(who)),
            }
        }
        match self.question {
            Some(StatusQuestion::IsLocked) => json!(holders.iter().any(|(who, _)| !who.is_empty())),
            Some(StatusQuestion::Waiting) => json!(waiting.len()),
            _ => json!({"token": holders[0].1, "owners": owners}),
        }
    }
}

/// Asks for a lock. `settings`: those of the call; the others are the defaults.
pub fn acquire(
    owner: u64,
    at_once: bool,
    names: &Value,
    settings: &Value,
    usual: &UsualLock,
    _limits: &Limits,
) -> Result<(Lock, Asked), Raised> {
    let number = |name: &str| settings[name].as_f64();
    let reentrant = settings["reentrant"].as_bool().unwrap_or(usual.reentrant);
    let on_failure = settings["on_failure"].as_str().map_or(Ok(OnFailure::Raise), OnFailure::named)?;
    let with = [
        (at_once, flags::AT_ONCE),
        (on_failure == OnFailure::Proceed, flags::PROCEED),
        (settings["renew"] == false, flags::NO_RENEWAL),
        (reentrant, flags::REENTRANT),
        (!reentrant, flags::NOT_REENTRANT),
    ];
    let asked = Asked {
        names: texts(names),
        read: reading::read(settings),
        permits: reading::permits(settings),
        owner,
        ttl: given(number("ttl").unwrap_or(usual.ttl)),
        wait: given(number("timeout").unwrap_or(usual.timeout)),
        max_hold: number("max_hold").unwrap_or_default(),
        at_least: number("at_least").unwrap_or_default(),
        note: settings["note"].as_str().unwrap_or_default().to_owned(),
        with: with.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).sum(),
        ..Asked::new(WishKind::Lock)
    };
    Ok((Lock { held: asked.lock.clone() }, asked))
}

/// Asks for the lock on a name, and waits without a limit.
pub fn acquire_at_last(name: &str, usual: &UsualLock) -> (Lock, Asked) {
    // SAFETY: as the header says.
    let owner = unsafe { pinyon_new_owner() };
    let (names, with) = (vec![name.to_owned()], flags::NOT_REENTRANT);
    let asked = Asked { names, owner, with, ttl: usual.ttl, wait: f64::INFINITY, ..Asked::new(WishKind::Lock) };
    (Lock { held: asked.lock.clone() }, asked)
}

/// Asks for a lock that was handed over.
pub fn adopt(
    owner: u64,
    ticket: &str,
    settings: &Value,
    usual: &UsualLock,
    _: &Setup,
) -> Result<(Lock, Asked), Raised> {
    let ttl = given(settings["ttl"].as_f64().unwrap_or(usual.ttl));
    let note = settings["note"].as_str().unwrap_or_default().to_owned();
    let asked = Asked { ticket: ticket.to_owned(), note, owner, ttl, ..Asked::new(WishKind::Lock) };
    Ok((Lock { held: asked.lock.clone() }, asked))
}

pub fn release_all() -> Asked {
    Asked::new(WishKind::ReleaseAll)
}

/// A wish about a lock.
pub fn with(lock: &Lock, method: &str, others: &[Value]) -> Result<Asked, Raised> {
    let argument = others.first().unwrap_or(&Value::Null);
    let number = argument.as_f64();
    let about = |kind| Asked { lock: lock.held.clone(), ..Asked::new(kind) };
    Ok(match method {
        "release" => about(WishKind::Release),
        "hand_over" => about(WishKind::HandOver),
        "upgrade" => {
            let wait = others.get(1).and_then(Value::as_f64).map_or(0.0, given);
            Asked { names: texts(argument), wait, ..about(WishKind::Upgrade) }
        }
        "downgrade" => Asked { names: texts(argument), ..about(WishKind::Downgrade) },
        "extend" => Asked { ttl: given(number.unwrap()), ..about(WishKind::Extend) },
        "wait" => Asked { wait: number.map_or(0.0, given), ..about(WishKind::Park) },
        "notify" => Asked { most: argument.as_u64().unwrap() as u32, ..about(WishKind::Notify) },
        other => panic!("no call {other}"),
    })
}

/// A question about names.
pub fn about(given: &Value, question: StatusQuestion) -> Result<Asked, Raised> {
    Ok(Asked { names: texts(given), question: Some(question), ..Asked::new(WishKind::Inspect) })
}

pub fn force_release(given: &Value, token: Option<u64>) -> Result<Asked, Raised> {
    let with = token.map_or(0, |_| flags::TOKEN);
    Ok(Asked { names: texts(given), with, token: token.unwrap_or_default(), ..Asked::new(WishKind::ForceRelease) })
}

/// Asks for permits of a rate, and waits for them if there is a timeout.
pub fn permits(name: &str, settings: &Value, permits: i64, timeout: Option<f64>) -> Result<Asked, Raised> {
    let (limit, per) = (settings["limit"].as_i64().expect("limit"), settings["per"].as_f64().expect("per"));
    let rate = GivenRate { limit, per, burst: settings["burst"].as_i64().unwrap_or_default(), ..empty() };
    Ok(Asked {
        names: vec![name.to_owned()],
        with: timeout.map_or(0, |_| flags::WAITS),
        wait: timeout.map_or(0.0, given),
        most: permits as u32,
        rate: Some(rate),
        ..Asked::new(WishKind::Rate)
    })
}

pub fn execute(parts: &[String]) -> Asked {
    Asked { names: parts.to_vec(), ..Asked::new(WishKind::Command) }
}

/// What came of a wish.
pub fn ended(over: Over) -> Over {
    over
}
