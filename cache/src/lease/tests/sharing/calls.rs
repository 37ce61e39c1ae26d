//! The calls of a scenario as operations, and their outcomes as JSON.

use serde_json::{Map, Value};

use super::clients::Client;
use super::{text, Outcome, Playing};
use crate::lease::tests::Woken;
use crate::lease::{FlightKey, GetOrSet, LeaseTypes, Step, StepOutcome, Terms};
use crate::operations::tests::world::Any;
use crate::operations::{
    Answer, AnyOperation, AsBytes, Beside, Bytes, Change, Compared, DataBlock, Everywhere, Fact, Failed, Fetch,
    FoundKey, Keys, Mode, OwnedKey, Request, ServerCommand, Single, Tagging, Tags,
};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::fake_clock::{clock, pass};

/// The client flags of a text.
const TEXT: u32 = 16;

/// Values are texts, errors the names of their kinds.
pub enum Texts {}

impl LeaseTypes for Texts {
    type Value = Bytes;
    type Shared = Bytes;
    type Error = String;
    type Signal = Woken;
}

impl Client {
    /// A call of one operation. Fails with the name of an error.
    pub fn operation(&self, call: &Value) -> Result<Any, String> {
        let argument = |number: usize| call.get(number).unwrap_or(&Value::Null);
        let key = || text(argument(1));
        let value = || text(argument(2));
        let tags = |number: usize| self.tagging(&argument(number)["tags"]);
        Ok(match text(argument(0)) {
            "get" => self.single(Request::Get(Beside::Nothing), key(), None).into(),
            "gets" => self.single(Request::Get(Beside::Cas), key(), None).into(),
            "gat" => self.single(Request::GetAndTouch { ttl: ttl(argument(2)), cas: false }, key(), None).into(),
            "touch" => self.single(Request::Touch { ttl: ttl(argument(2)) }, key(), None).into(),
            "delete" => self.single(Request::Delete, key(), None).into(),
            "set" => self.store(Mode::Set, None, key(), value()).with_tags(tags(3)).into(),
            "add" => self.store(Mode::Add, None, key(), value()).with_tags(tags(3)).into(),
            "cas" => self.store(Mode::Set, Some(self.token.unwrap()), key(), value()).with_tags(tags(3)).into(),
            "get_many" => {
                let names = argument(1).as_array().unwrap().iter().map(text);
                Fetch::new(self.many(names), Request::Get(Beside::Nothing), AsBytes, self.policy).into()
            }
            "set_many" => {
                let pairs = argument(1).as_object().unwrap();
                let block = |value: &Value| DataBlock {
                    data: Some(text(value).into()),
                    size: text(value).len(),
                    client_flags: TEXT,
                };
                let keys = self.many(pairs.keys().map(String::as_str));
                Change::store(keys, pairs.values().map(block).collect(), 0, self.policy).with_tags(tags(2)).into()
            }
            "invalidate_tags" => {
                Change::invalidate(&self.tags, &self.tags(call.as_array().unwrap()[1..].iter())).into()
            }
            "clear_namespace" => {
                let clear = ServerCommand::clear_namespace(self.keys());
                Everywhere::new(clear.map_err(|refused| refused.kind.as_str().to_owned())?).into()
            }
            "flush_all" => Everywhere::new(ServerCommand::FlushAll { delay: 0 }).into(),
            other => panic!("{other} is not a call"),
        })
    }

    fn single(&self, request: Request, key: &str, data: Option<&str>) -> Single<OwnedKey, Option<Vec<u8>>, AsBytes> {
        let key = OwnedKey::new(self.keys(), key.as_bytes()).unwrap();
        Single::new(request, key, data.map(|data| data.as_bytes().to_vec()), AsBytes, self.policy)
    }

    fn store(
        &self,
        mode: Mode,
        cas: Option<u64>,
        key: &str,
        value: &str,
    ) -> Single<OwnedKey, Option<Vec<u8>>, AsBytes> {
        let (size, client_flags) = (value.len(), TEXT);
        let request = Request::Store { mode, size, client_flags, ttl: 0, cas, returns_cas: false };
        self.single(request, key, Some(value))
    }

    fn many<'n>(&self, names: impl Iterator<Item = &'n str>) -> Keys {
        let mut keys = Keys::default();
        names.for_each(|name| keys.push(self.keys(), name.as_bytes()).unwrap());
        keys
    }

    fn tagging(&self, names: &Value) -> Option<Tagging> {
        names.as_array().map(|names| Tagging::Named(self.tags(names.iter())))
    }

    fn tags<'n>(&self, names: impl Iterator<Item = &'n Value>) -> Tags {
        Tags::new(Some(&self.tags), names.map(|name| text(name).as_bytes())).unwrap()
    }
}

impl Playing {
    /// What a call comes to, and whether it called its maker.
    pub fn call(&mut self, by: &str, call: &Value) -> (Outcome, bool) {
        if call[0] == "get_or_set" {
            return self.get_or_set(by, call);
        }
        let client = &self.clients[by];
        let outcome = match client.operation(call) {
            Err(refused) => Err(refused),
            Ok(operation) => {
                let over = self.world.run(client.process, operation);
                self.outcome(by, call, over)
            }
        };
        (outcome, false)
    }

    /// What an operation that is over comes to.
    pub fn outcome(&mut self, by: &str, call: &Value, operation: Any) -> Outcome {
        match operation {
            AnyOperation::Single(mut single) => {
                let (returned, token) = returned(single.take_answer().map_err(raised)?);
                let client = self.clients.get_mut(by).unwrap();
                client.token = token.or(client.token);
                Ok(returned)
            }
            AnyOperation::Fetch(fetch) => {
                let mut fetched = fetch.finish();
                let pair = |found: &FoundKey<Bytes>| (text(&call[1][found.index]).to_owned(), shown(&found.value));
                match fetched.failures.raised() {
                    Some(error) => Err(kind(&error)),
                    None => Ok(fetched.found.iter().map(pair).collect::<Map<_, _>>().into()),
                }
            }
            AnyOperation::Change(change) => nothing(change.finish().failures.raised()),
            AnyOperation::Everywhere(everywhere) => nothing(everywhere.finish().err()),
            _ => panic!("no call is such an operation"),
        }
    }

    fn get_or_set(&mut self, by: &str, call: &Value) -> (Outcome, bool) {
        let client = self.clients[by].clone();
        let (key, maker, terms) = (text(&call[1]), &call[2], &call[3]);
        let number = |name: &str| terms[name].as_i64().unwrap_or_default();
        let wait = terms["wait"].as_f64();
        let flight_key = FlightKey { scope: 1, key: key.as_bytes().into(), policy: client.policy };
        let terms = Terms::new(number("ttl"), number("stale"), 0, 10, wait).unwrap();
        let mut machine = GetOrSet::<Texts>::new(client.flights.clone(), flight_key, 1, terms, 1, clock());
        let (mut step, mut makes) = (machine.begin(clock()), false);
        loop {
            let outcome = match step {
                Step::Ask(request) => self.found(&client, request, key, &call[3]["tags"]),
                Step::Pause(time) => {
                    pass(time);
                    StepOutcome::Done
                }
                Step::Make => {
                    makes = true;
                    maker.get("meanwhile").into_iter().for_each(|steps| self.play(steps));
                    StepOutcome::Value(Bytes { bytes: text(&maker["value"]).into(), client_flags: TEXT })
                }
                Step::Share => StepOutcome::Shared(machine.value().unwrap().clone()),
                Step::Store { cas, .. } => {
                    let value = String::from_utf8(machine.value().unwrap().bytes.clone()).unwrap();
                    let tags = machine.tags().cloned().map(Tagging::Read);
                    let store = client.store(Mode::Set, Some(cas), key, &value).with_tags(tags);
                    self.stored(&client, store)
                }
                Step::GiveBack(request) => {
                    self.world.run(client.process, client.single(request, key, None));
                    StepOutcome::Done
                }
                Step::Return(value) => return (Ok(shown(&value)), makes),
                Step::Raise(error) => return (Err(error), makes),
                Step::Refuse(refusal) => return (Err(refusal.kind().as_str().to_owned()), makes),
                _ => panic!("no scenario comes to this step"),
            };
            step = machine.next(outcome, clock());
        }
    }

    fn found(&mut self, client: &Client, request: Request, key: &str, tags: &Value) -> StepOutcome<Texts> {
        let asked = client.single(request, key, None).with_tags(client.tagging(tags));
        match one(self.world.run(client.process, asked)) {
            Ok(Answer::Lease(found)) => StepOutcome::Found(*found),
            Ok(other) => panic!("{other:?} is the answer to a lease"),
            Err(error) => StepOutcome::Failed { error, is_outage: false },
        }
    }

    fn stored(&mut self, client: &Client, store: impl Into<Any>) -> StepOutcome<Texts> {
        match one(self.world.run(client.process, store)) {
            Ok(answer) => StepOutcome::Stored(answer == Answer::Compared(Compared::Stored)),
            Err(error) => StepOutcome::Failed { error, is_outage: false },
        }
    }
}

fn one(operation: Any) -> Result<Answer<Bytes>, String> {
    let AnyOperation::Single(mut single) = operation else { panic!("it is about one key") };
    single.take_answer().map_err(raised)
}

/// What a call returns, and the token that it has read.
fn returned(answer: Answer<Bytes>) -> (Value, Option<u64>) {
    match answer {
        Answer::Missing | Answer::Compared(Compared::Gone) => (Value::Null, None),
        Answer::Value(value) => (shown(&value), None),
        Answer::ValueAnd(value, Fact::Cas(token)) => (shown(&value), Some(token)),
        Answer::Done(done) => (done.into(), None),
        Answer::Compared(compared) => ((compared == Compared::Stored).into(), None),
        other => panic!("no call returns {other:?}"),
    }
}

fn nothing(error: Option<pinyon_net::error::Error>) -> Outcome {
    error.map_or(Ok(Value::Null), |error| Err(kind(&error)))
}

fn raised<E>(failed: Failed<E>) -> String {
    match failed {
        Failed::Error(error) => kind(&error),
        Failed::Unreadable { .. } => ErrorKind::UndecodableValue.as_str().to_owned(),
    }
}

fn kind(error: &pinyon_net::error::Error) -> String {
    ErrorKind::from(error.kind).as_str().to_owned()
}

fn shown(value: &Bytes) -> Value {
    assert_eq!(value.client_flags, TEXT);
    String::from_utf8(value.bytes.clone()).unwrap().into()
}

fn ttl(value: &Value) -> i32 {
    value.as_i64().unwrap() as i32
}
