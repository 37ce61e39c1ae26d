//! The handler without scripts against a counter that is lost while it is in use.

mod changes;

use std::time::Duration;

use pinyon_proto::resp::{Command, Value};

use super::{Pure, NOBODY};
use crate::call::{Attempt, Call, Names, ScriptAnswer};
use crate::keys::LockKeys;

/// A server that knows what the handler sends for locks of one name that nobody else has.
#[derive(Default)]
struct Server {
    counter: Option<u64>,
    /// The holder of each key, in the order of their locks.
    held: Vec<(String, String)>,
    queued: Option<Vec<Vec<String>>>,
}

impl Server {
    fn reply(&mut self, command: &[String]) -> Value {
        if let Some(queued) = self.queued.as_mut().filter(|_| command[0] != "EXEC") {
            queued.push(command.to_vec());
            return Value::Status(b"QUEUED"[..].into());
        }
        match &*command[0] {
            "MULTI" => {
                self.queued = Some(Vec::new());
                Value::Status(b"OK"[..].into())
            }
            "EXEC" => {
                let queued = self.queued.take().expect("MULTI came before");
                Value::Array(queued.iter().map(|command| self.reply(command)).collect())
            }
            "INCR" => {
                let next = self.counter.unwrap_or(0) + 1;
                self.counter = Some(next);
                Value::Integer(next as i64)
            }
            "SET" if command[1].ends_with("#f") => {
                self.counter = Some(command[2].parse().expect("a number"));
                Value::Status(b"OK"[..].into())
            }
            "SET" => {
                self.held.push((command[1].clone(), command[2].clone()));
                Value::Status(b"OK"[..].into())
            }
            "MGET" => Value::Array(command[1..].iter().map(|key| self.value(key)).collect()),
            "TIME" => Value::Array(["1800000000", "5"].map(|part| Value::Bytes(part.as_bytes().into())).into()),
            _ => Value::Integer(1),
        }
    }

    fn value(&self, key: &str) -> Value {
        let text = match key.ends_with("#f") {
            true => self.counter.map(|counter| counter.to_string()),
            false => self.held.iter().find(|(of, _)| of == key).map(|(_, holder)| holder.clone()),
        };
        text.map_or(Value::Null, |text| Value::Bytes(text.as_bytes().into()))
    }

    /// Reads and answers everything. Returns the tokens of granted locks.
    fn serve(&mut self, pure: &mut Pure) -> Vec<u64> {
        let mut tokens = Vec::new();
        loop {
            let commands: Vec<(u64, Command)> = pure.take_commands();
            if commands.is_empty() {
                return tokens;
            }
            for (job, command) in commands {
                let words: Vec<String> = command.iter().map(|part| String::from_utf8_lossy(part).into()).collect();
                let reply = self.reply(&words);
                pure.reply(job, reply);
            }
            for (_, answer) in pure.take_answers() {
                match answer.expect("nothing is refused") {
                    ScriptAnswer::Granted { token } => tokens.push(token),
                    ScriptAnswer::Opened { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn locks_taken_together_after_the_counter_was_lost_have_tokens_of_their_own() {
    let mut pure = Pure::new(LockKeys::new("n").unwrap(), true, Duration::from_secs(15), 0);
    let mut server = Server::default();
    pure.begin(NOBODY, Call::Open { seen: 0 });
    server.serve(&mut pure);
    let mut tokens = Vec::new();
    for round in 0..3u64 {
        for name in 0..4u64 {
            let number = 1 + round * 4 + name;
            let attempt = Attempt { client: "c.1.0".into(), owner: number, number };
            let names = [format!("{number}").as_bytes().into()].into();
            let ttl = Duration::from_secs(10);
            pure.begin(number, Call::Lock { attempt, names, ttl, wait: true, nested: false });
        }
        tokens.extend(server.serve(&mut pure));
        server.counter = None;
    }
    assert_eq!(tokens.len(), 12);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn an_adoption_that_is_given_up_before_it_begins_is_cancelled() {
    let mut pure = Pure::new(LockKeys::new("n").unwrap(), true, Duration::from_secs(15), 0);
    let [from, by] = ["c.1.0", "c.2.0"].map(|client| Attempt { client: client.into(), owner: 1, number: 1 });
    let (names, ttl): (Names, _) = ([b"a".as_slice().into()].into(), Duration::from_secs(10));
    pure.begin(1, Call::Adopt { attempt: by.clone(), names: names.clone(), ttl, from: from.into() });
    pure.begin(2, Call::Unlock { attempt: by, names, tombstone: true, rest: None });
    let answers: Vec<_> = pure.take_answers().into_iter().collect();
    assert_eq!(answers, [(1, Ok(ScriptAnswer::Cancelled))]);
}
