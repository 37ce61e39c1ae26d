//! Answers of many servers, or about several names, one row for each.

use std::ffi::CString;

use pinyon_cache::operations::{statistics, version, FoundTags, ServerCommand, ServerLines};
use pinyon_locks::{Inspected, Known, RedisValue};
use pinyon_net::Error as CoreError;

use crate::errors::{c_string, Error};
use crate::exported::exported;
use crate::guard::free;
use crate::structs::{to_fill, Answer, Bytes};

/// Rows that a caller takes one by one. They stay until it frees them.
#[derive(Debug, Default)]
pub struct Answers {
    rows: Vec<Row>,
    next: usize,
    /// The answer to a command of the server that keeps locks.
    pub value: Option<RedisValue>,
    /// The tags that a request for a lease found, for the steps of a maker.
    pub tags: Option<FoundTags>,
}

#[derive(Debug, Default)]
pub struct Row {
    pub server: CString,
    pub name: Vec<u8>,
    pub value: Vec<u8>,
    pub error: Option<Error>,
    pub token: u64,
    pub left: Option<f64>,
    pub age: Option<f64>,
    pub waits: bool,
    pub reads: bool,
    pub pid: u32,
    pub host: Vec<u8>,
    pub label: Vec<u8>,
    pub note: Vec<u8>,
}

impl Row {
    pub fn of_server(name: &str) -> Self {
        Self { server: c_string(name), ..Self::default() }
    }

    /// One that has a lock or waits for it.
    fn of_owner(known: &Known<'_>) -> Self {
        let bytes = |text: Option<&str>| text.unwrap_or_default().as_bytes().to_vec();
        let who = known.who.as_ref();
        Self {
            value: known.attempt.to_string().into_bytes(),
            pid: who.map_or(0, |who| who.pid),
            host: bytes(who.and_then(|who| who.host.as_deref())),
            label: bytes(who.and_then(|who| who.label.as_deref())),
            note: bytes(known.note),
            ..Self::default()
        }
    }

    /// For C. It points to the same texts.
    fn answer(&self, size: usize) -> Answer {
        Answer {
            size,
            server: self.server.as_ptr(),
            name: Bytes::of(&self.name),
            value: Bytes::of(&self.value),
            error: self.error.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            token: self.token,
            left: self.left.unwrap_or(-1.0),
            age: self.age.unwrap_or(-1.0),
            waits: self.waits.into(),
            reads: self.reads.into(),
            pid: self.pid,
            host: Bytes::of(&self.host),
            label: Bytes::of(&self.label),
            note: Bytes::of(&self.note),
        }
    }
}

impl Answers {
    pub fn of(rows: Vec<Row>) -> Self {
        Self { rows, ..Self::default() }
    }

    pub fn of_value(value: RedisValue) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    pub fn of_tags(tags: FoundTags) -> Self {
        Self { tags: Some(tags), ..Self::default() }
    }

    /// What servers answered, and the failures of the others.
    pub fn of_servers(command: &ServerCommand, lines: &ServerLines, failures: &[CoreError]) -> Self {
        let mut rows = Vec::new();
        for (server, lines) in lines {
            let row = || Row::of_server(server);
            match command {
                ServerCommand::Version => rows.push(Row { value: version(lines).into(), ..row() }),
                ServerCommand::FlushAll { .. } | ServerCommand::ClearNamespace => rows.push(row()),
                ServerCommand::Stats(_) => {
                    rows.extend(statistics(lines).map(|(name, value)| Row {
                        name: name.into(),
                        value: value.into(),
                        ..row()
                    }));
                }
            }
        }
        let failed = failures.iter().map(|error| Row { error: Some(error.into()), ..Row::of_server(&error.server) });
        rows.extend(failed);
        Self::of(rows)
    }

    /// The state of names of locks: a row for the holder, or for nobody, and one for each that reads or waits.
    pub fn of_names<'n>(names: impl Iterator<Item = (&'n [u8], Inspected)>) -> Self {
        let mut rows = Vec::new();
        for (name, inspected) in names {
            let of = |attempt| Row { name: name.to_vec(), ..Row::of_owner(&inspected.known_of(attempt)) };
            let holder = inspected.holder.as_ref();
            let row =
                holder.map_or_else(|| Row { name: name.to_vec(), ..Row::default() }, |holder| of(&holder.attempt));
            rows.push(Row {
                token: holder.and_then(|holder| holder.token).unwrap_or_default(),
                left: inspected.pttl.map(|left| left.as_secs_f64()),
                age: inspected.age.map(|age| age.as_secs_f64()),
                ..row
            });
            rows.extend(inspected.sharing.iter().map(|one| Row { reads: true, ..of(one) }));
            rows.extend(inspected.waiting.iter().map(|one| Row { waits: true, ..of(one) }));
        }
        Self::of(rows)
    }

    /// Takes the rows of others, to follow these.
    pub fn append(&mut self, others: &mut Self) {
        self.rows.append(&mut others.rows);
    }

    fn next(&mut self) -> Option<&Row> {
        let row = self.rows.get(self.next)?;
        self.next += 1;
        Some(row)
    }
}

exported! {
    fn pinyon_next_answer(answers: *mut Answers, answer: *mut Answer) -> bool {
        let (Some(answers), Ok(answer)) = (answers.as_mut(), to_fill(answer)) else { return false };
        let Some(row) = answers.next() else { return false };
        *answer = row.answer(answer.size);
        true
    }

    fn pinyon_answers_free(answers: *mut Answers) { free(answers) }
}
