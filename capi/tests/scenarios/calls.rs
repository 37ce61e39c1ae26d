//! A scenario's calls as requests of the C interface, and replies as JSON.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use pinyon::answers::{pinyon_next_answer, Answers};
use pinyon::client::{pinyon_client_new, Client};
use pinyon::error_fields::*;
use pinyon::errors::Error;
use pinyon::requests::{with, Verb};
use pinyon::status::{marks, Status};
use pinyon::structs::{empty, Answer, Bytes, NamedText, Reply, Request};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::Sent;
use serde_json::{json, Value};

use crate::cache::decoded;
use crate::kept::kept;
use crate::playing::{Outcome, Raised};

/// A client with the settings of a scenario.
pub fn client(scenario: &Value) -> *mut Client {
    let given = &scenario["client"];
    let mut options = vec![("servers", text(&scenario["address"]))];
    options.push(("connect_timeout", given["connect_timeout"].as_f64().unwrap_or(1.0).to_string()));
    for name in ["username", "password", "protocol"] {
        options.extend(given[name].as_str().map(|value| (name, value.to_owned())));
    }
    for name in ["timeout", "slow_after"] {
        options.extend(given[name].as_f64().map(|value| (name, value.to_string())));
    }
    options.extend(given["near"].as_bool().map(|near| ("near", near.to_string())));
    let names: Vec<CString> = options.iter().map(|(name, _)| CString::new(*name).unwrap()).collect();
    let option = |(name, (_, value)): (&CString, &(_, String))| NamedText {
        name: name.as_ptr(),
        value: Bytes::of(value.as_bytes()),
    };
    let named: Vec<NamedText> = names.iter().zip(&options).map(option).collect();
    // SAFETY: as the header says.
    let client = unsafe { pinyon_client_new(named.as_ptr(), named.len(), null_mut()) };
    assert!(!client.is_null());
    client
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The requests of a call, with the texts that they point to.
pub struct Call {
    texts: Vec<String>,
    pub requests: Vec<Request>,
    is_many: bool,
}

impl Call {
    pub fn new(call: &[Value]) -> Self {
        let name = call[0].as_str().unwrap();
        let mut made = Self { texts: Vec::new(), requests: Vec::new(), is_many: true };
        match name {
            "get_many" => call[1].as_array().unwrap().iter().for_each(|key| made.push(Verb::Get, &text(key), "")),
            "delete_many" => call[1].as_array().unwrap().iter().for_each(|key| made.push(Verb::Delete, &text(key), "")),
            "gat_many" => made.push_each_with_ttl(Verb::Gat, call),
            "touch_many" => made.push_each_with_ttl(Verb::Touch, call),
            "set_many" => {
                let pairs = call[1].as_object().unwrap();
                pairs.iter().for_each(|(key, value)| made.push(Verb::Set, key, value.as_str().unwrap()));
            }
            _ => made.push_one(name, call),
        }
        made
    }

    /// The commands of a batch.
    pub fn of_batch(commands: &[Value]) -> Self {
        let mut made = Self { texts: Vec::new(), requests: Vec::new(), is_many: true };
        for command in commands {
            let command = command.as_array().unwrap();
            made.push_one(command[0].as_str().unwrap(), command);
        }
        made
    }

    fn push_one(&mut self, name: &str, call: &[Value]) {
        self.is_many = false;
        let verb = match name {
            "get" | "gets" => Verb::Get,
            "gat" => Verb::Gat,
            "touch" => Verb::Touch,
            "set" | "cas" => Verb::Set,
            "add" => Verb::Add,
            "append" => Verb::Append,
            "delete" => Verb::Delete,
            "incr" => Verb::Incr,
            "meta" => Verb::Metadata,
            "version" => Verb::Versions,
            "stats" => Verb::Stats,
            "flush_all" => Verb::FlushAll,
            other => panic!("no call {other}"),
        };
        let key = call.get(1).and_then(Value::as_str).unwrap_or_default();
        let stores = matches!(verb, Verb::Set | Verb::Add | Verb::Append);
        self.push(verb, key, if stores { call[2].as_str().unwrap() } else { "" });
        let request = self.requests.last_mut().unwrap();
        match name {
            "gets" => request.with = with::CAS,
            "cas" => (request.with, request.cas) = (with::CAS, call[3].as_u64().unwrap()),
            "gat" | "touch" => request.ttl = call[2].as_i64().unwrap(),
            "incr" => request.delta = 1,
            _ => {}
        }
    }

    fn push_each_with_ttl(&mut self, verb: Verb, call: &[Value]) {
        for key in call[1].as_array().unwrap() {
            self.push(verb, &text(key), "");
            self.requests.last_mut().unwrap().ttl = call[2].as_i64().unwrap();
        }
    }

    fn push(&mut self, verb: Verb, key: &str, value: &str) {
        self.texts.extend([key.to_owned(), value.to_owned()]);
        let [.., key, value] = &self.texts[..] else { unreachable!("two were pushed") };
        // A text's bytes stay where they are when the list of texts grows.
        let (key, value) = (Bytes::of(key.as_bytes()), Bytes::of(value.as_bytes()));
        let client_flags = if value.size > 0 { 16 } else { 0 };
        self.requests.push(Request { verb: verb as u32, key, value, client_flags, ..empty() });
    }

    /// Whether it reads many keys at once.
    pub fn reads_many(&self) -> bool {
        self.is_many && self.requests.first().is_some_and(|request| request.verb == Verb::Get as u32)
    }

    /// What came of it.
    pub fn outcome(&self, replies: &[Reply]) -> Outcome {
        if !self.is_many {
            return outcome(&self.requests[0], &replies[0]);
        }
        let raised = replies.iter().find_map(|reply| raised(reply.error));
        // SAFETY: the key is there as long as this call.
        let name = |request: &Request| String::from_utf8_lossy(unsafe { request.key.slice() }).into_owned();
        let all = self.requests.iter().zip(replies);
        let done = all.clone().filter(|(_, reply)| reply.status == Status::Done as i32);
        match self.requests.first().map(|request| Verb::ALL[request.verb as usize]) {
            Some(Verb::Get | Verb::Gat) | None => {}
            Some(Verb::Touch) => {
                return Outcome { value: done.map(|(request, _)| json!(name(request))).collect(), raised }
            }
            Some(_) => return Outcome { value: json!(done.count()), raised },
        }
        let found = all.filter(|(_, reply)| reply.marks & marks::HAS_VALUE != 0);
        let found = found.map(|(request, reply)| (name(request), value_of(reply).value));
        Outcome { value: Value::Object(found.collect()), raised }
    }
}

fn outcome(request: &Request, reply: &Reply) -> Outcome {
    if let Some(raised) = raised(reply.error) {
        return raised.into();
    }
    if !reply.answers.is_null() {
        return Outcome { value: lines(reply.answers.cast()), raised: None };
    }
    let is_done = reply.status == Status::Done as i32;
    let value = match Verb::ALL[request.verb as usize] {
        Verb::Get | Verb::Gat if is_done && reply.marks & marks::HAS_CAS != 0 => {
            let Outcome { value, raised } = value_of(reply);
            return Outcome { value: json!([value, reply.cas]), raised };
        }
        Verb::Get | Verb::Gat if is_done => return value_of(reply),
        Verb::Get | Verb::Gat => Value::Null,
        Verb::Incr if is_done => json!(reply.number),
        Verb::Incr | Verb::Metadata if !is_done => Value::Null,
        Verb::Metadata => json!("metadata"),
        _ => json!(is_done),
    };
    Outcome { value, raised: None }
}

fn value_of(reply: &Reply) -> Outcome {
    // SAFETY: a reply has its value until it is cleared.
    decoded(reply.client_flags, unsafe { reply.value.slice() })
}

fn lines(answers: *mut Answers) -> Value {
    let (mut all, mut answer): (Vec<Value>, Answer) = (Vec::new(), empty());
    // SAFETY: as the header says.
    unsafe {
        while pinyon_next_answer(answers, &mut answer) {
            let text = |bytes: Bytes| String::from_utf8_lossy(bytes.slice()).into_owned();
            all.push(json!([text(answer.name), text(answer.value)]));
        }
    }
    json!([all])
}

pub fn raised(error: *mut Error) -> Option<Raised> {
    if error.is_null() {
        return None;
    }
    // SAFETY: it is an error that lives.
    unsafe {
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        let name = text(pinyon_kind_name(pinyon_error_kind(error)));
        let kind = ErrorKind::ALL.into_iter().find(|kind| kind.as_str() == name).expect("a kind of the core");
        let sent = [Sent::No, Sent::Maybe, Sent::Yes][pinyon_error_sent(error) as usize];
        let command = kept(text(pinyon_error_command(error)));
        let (server, text) = (text(pinyon_error_server(error)).into(), text(pinyon_error_message(error)));
        Some(Raised { kind, sent, server, command, text })
    }
}

/// Carries out a batch. Returns its first failure.
pub fn batch(client: *mut Client, commands: &[Value]) -> Outcome {
    use pinyon::batch::*;
    let call = Call::of_batch(commands);
    // SAFETY: as the header says.
    unsafe {
        let (mut error, host) = (null_mut(), std::ptr::null());
        let batch = pinyon_batch_new(client, &mut error);
        let added = call.requests.iter().all(|request| pinyon_batch_add(batch, request, host, &mut error) == 0);
        if added {
            pinyon_batch_finish(batch, host, &mut error);
        }
        let mut first = raised(error);
        pinyon_error_free(error);
        let mut reply: Reply = empty();
        while pinyon_batch_next_failure(batch, &mut reply) {
            first = first.or(raised(reply.error));
        }
        pinyon::replies::pinyon_reply_clear(&mut reply);
        pinyon_batch_free(batch);
        first.map_or_else(Outcome::default, Outcome::from)
    }
}
