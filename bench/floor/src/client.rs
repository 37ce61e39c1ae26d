//! The commands as Pinyon sends them. Their replies are read to the end.

use std::collections::HashMap;
use std::io::Write;

use crate::connection::{Connection, Reply};
use crate::ring::Ring;
use crate::rows::{Mode, Step};
use crate::{Failure, Outcome};

/// Keys on one classic `get` line.
const KEYS_PER_LINE: usize = 200;

/// Connections to all servers of a row.
pub struct Client {
    connections: Vec<Connection>,
    ring: Ring,
    opaque: u32,
    quiet: bool,
}

/// The answer to a step, for verification.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Value(Vec<u8>),
    Values(HashMap<Vec<u8>, Vec<u8>>),
    Done,
    Refused,
}

impl Client {
    /// Connects to every server.
    pub fn open(servers: &[String], quiet: bool) -> Outcome<Client> {
        let connections = servers.iter().map(|server| Connection::open(server)).collect::<Outcome<_>>()?;
        Ok(Client { connections, ring: Ring::new(servers), opaque: 0, quiet })
    }

    /// Does one step and reads its reply to the end. In a quiet client, stores and deletes are only gathered.
    pub fn run(&mut self, step: &Step) -> Outcome<()> {
        if let Step::MultiGet { keys } = step {
            return self.multi_get(keys, |_, _| ());
        }
        if let Step::MultiSet { stores } = step {
            return self.multi_set(stores);
        }
        let server = self.request(step)?;
        let connection = &mut self.connections[server];
        if self.quiet && is_quiet(step) {
            return connection.send_when_full();
        }
        connection.send()?;
        connection.reply()?;
        Ok(())
    }

    /// Does one step and returns its answer. A quiet step counts as done.
    pub fn ask(&mut self, step: &Step) -> Outcome<Answer> {
        if let Step::MultiGet { keys } = step {
            let mut found = HashMap::new();
            self.multi_get(keys, |key, value| {
                found.insert(key.to_vec(), value.to_vec());
            })?;
            return Ok(Answer::Values(found));
        }
        if let Step::MultiSet { .. } = step {
            self.run(step)?;
            return Ok(Answer::Done);
        }
        if self.quiet && is_quiet(step) {
            self.run(step)?;
            return Ok(Answer::Done);
        }
        let server = self.request(step)?;
        let connection = &mut self.connections[server];
        connection.send()?;
        answer(&connection.reply()?, self.opaque)
    }

    /// Sends all steps to the only server at once, then reads each reply to its end and calls `each`.
    pub fn run_together(&mut self, steps: &[Step], mut each: impl FnMut()) -> Outcome<()> {
        self.together(steps, |_, _| {
            each();
            Ok(())
        })
    }

    /// Sends all steps to the only server at once, then returns their answers in order.
    pub fn ask_together(&mut self, steps: &[Step]) -> Outcome<Vec<Answer>> {
        let mut answers = Vec::with_capacity(steps.len());
        self.together(steps, |opaque, reply| {
            answers.push(answer(&reply, opaque)?);
            Ok(())
        })?;
        Ok(answers)
    }

    fn together(&mut self, steps: &[Step], mut each: impl FnMut(u32, Reply<'_>) -> Outcome<()>) -> Outcome<()> {
        let mut opaque = self.opaque;
        for step in steps {
            self.request(step)?;
        }
        let connection = &mut self.connections[0];
        connection.send()?;
        for _ in steps {
            opaque = opaque.wrapping_add(1);
            each(opaque, connection.reply()?)?;
        }
        Ok(())
    }

    /// Ends a quiet batch: a no-op to every server, and its reply.
    pub fn finish(&mut self) -> Outcome<()> {
        if !self.quiet {
            return Ok(());
        }
        self.await_all()
    }

    fn await_all(&mut self) -> Outcome<()> {
        for connection in &mut self.connections {
            connection.unsent().extend_from_slice(b"mn\r\n");
            connection.send()?;
        }
        for connection in &mut self.connections {
            let reply = connection.reply()?;
            if reply.line != b"MN" {
                return Err(unexpected(reply.line));
            }
        }
        Ok(())
    }

    /// Appends a step's request to its server's unsent bytes. Returns the server's number.
    fn request(&mut self, step: &Step) -> Outcome<usize> {
        self.append(step, self.quiet)
    }

    fn append(&mut self, step: &Step, quiet: bool) -> Outcome<usize> {
        self.opaque = self.opaque.wrapping_add(1);
        let opaque = self.opaque;
        let server = self.server_of(key_of(step));
        let connection = &mut self.connections[server];
        let quiet = if quiet { " q" } else { "" };
        match step {
            Step::Get { key } => line(connection, b"mg ", key, format_args!(" f v O{opaque:x}\r\n"))?,
            Step::Delete { key } => line(connection, b"md ", key, format_args!(" O{opaque:x}{quiet}\r\n"))?,
            Step::Store { mode, key, value, flags } => {
                let mode = mode_flag(*mode);
                let size = value.len();
                match flags {
                    0 => line(connection, b"ms ", key, format_args!(" {size}{mode} O{opaque:x}{quiet}\r\n"))?,
                    _ => line(connection, b"ms ", key, format_args!(" {size} F{flags}{mode} O{opaque:x}{quiet}\r\n"))?,
                }
                connection.append_value(value)?;
            }
            Step::Count { key, delta, down, initial } => {
                let mode = if *down { " MD" } else { "" };
                match initial {
                    Some(initial) => {
                        let tail = format_args!(" v O{opaque:x} D{delta}{mode} N0 J{initial}\r\n");
                        line(connection, b"ma ", key, tail)?;
                    }
                    None => line(connection, b"ma ", key, format_args!(" v O{opaque:x} D{delta}{mode}\r\n"))?,
                }
            }
            Step::MultiGet { .. } | Step::MultiSet { .. } => {
                return Err(Failure::Cannot("many keys as one request".into()));
            }
        }
        Ok(server)
    }

    /// Sends each server its lines, then reads each server's replies.
    fn multi_get(&mut self, keys: &[Vec<u8>], mut found: impl FnMut(&[u8], &[u8])) -> Outcome<()> {
        let mut counts = vec![0; self.connections.len()];
        for key in keys {
            let server = self.server_of(key);
            let unsent = self.connections[server].unsent();
            if counts[server] % KEYS_PER_LINE == 0 {
                unsent.extend_from_slice(if counts[server] == 0 { b"get" } else { b"\r\nget" });
            }
            unsent.push(b' ');
            unsent.extend_from_slice(key);
            counts[server] += 1;
        }
        for (connection, _) in self.connections.iter_mut().zip(&counts).filter(|(_, &count)| count > 0) {
            connection.unsent().extend_from_slice(b"\r\n");
            connection.send()?;
        }
        for (connection, count) in self.connections.iter_mut().zip(&counts) {
            let mut lines = count.div_ceil(KEYS_PER_LINE);
            while lines > 0 {
                let reply = connection.reply()?;
                match reply.line.strip_prefix(b"VALUE ") {
                    Some(rest) => found(rest.split(|&byte| byte == b' ').next().unwrap_or_default(), reply.value),
                    None if reply.line == b"END" => lines -= 1,
                    None => return Err(unexpected(reply.line)),
                }
            }
        }
        Ok(())
    }

    /// Sends each server its stores, quietly, then waits until they are done.
    fn multi_set(&mut self, stores: &[Step]) -> Outcome<()> {
        for store in stores {
            self.append(store, true)?;
        }
        self.await_all()
    }

    fn server_of(&self, key: &[u8]) -> usize {
        if self.connections.len() == 1 {
            return 0;
        }
        self.ring.server_of(key)
    }
}

fn answer(reply: &Reply<'_>, opaque: u32) -> Outcome<Answer> {
    if !reply.line.ends_with(format!(" O{opaque:x}").as_bytes()) {
        return Err(unexpected(reply.line));
    }
    match &reply.line[..2] {
        b"VA" => Ok(Answer::Value(reply.value.to_vec())),
        b"HD" => Ok(Answer::Done),
        b"EN" | b"NF" | b"NS" => Ok(Answer::Refused),
        _ => Err(unexpected(reply.line)),
    }
}

fn line(connection: &mut Connection, verb: &[u8], key: &[u8], rest: std::fmt::Arguments<'_>) -> Outcome<()> {
    let unsent = connection.unsent();
    unsent.extend_from_slice(verb);
    unsent.extend_from_slice(key);
    Ok(unsent.write_fmt(rest)?)
}

fn mode_flag(mode: Mode) -> &'static str {
    match mode {
        Mode::Set => "",
        Mode::Add => " ME",
        Mode::Replace => " MR",
    }
}

fn is_quiet(step: &Step) -> bool {
    matches!(step, Step::Store { .. } | Step::Delete { .. })
}

fn key_of(step: &Step) -> &[u8] {
    match step {
        Step::Store { key, .. } | Step::Get { key } | Step::Delete { key } | Step::Count { key, .. } => key,
        Step::MultiGet { .. } | Step::MultiSet { .. } => &[],
    }
}

fn unexpected(line: &[u8]) -> Failure {
    Failure::Wrong(format!("an unexpected reply: {}", String::from_utf8_lossy(line)))
}
