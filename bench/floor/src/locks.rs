//! The cheapest possible locks: two scripts that take and release n names, sent from one blocking socket, one after the
//! other or both in one write.

use std::io::Write;
use std::time::Instant;

use serde_json::Value;

use crate::connection::Connection;
use crate::rows::{list, number, string, text, wrong};
use crate::timing::{Start, Timing};
use crate::{Failure, Outcome};

/// Takes all names or none.
const LOCK: &str = "if redis.call('EXISTS', unpack(KEYS)) > 0 then return 0 end \
    for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2]) end return 1";
/// Releases the names if all are this owner's.
const UNLOCK: &str = "for _, value in ipairs(redis.call('MGET', unpack(KEYS))) do \
    if value ~= ARGV[1] then return 0 end end return redis.call('DEL', unpack(KEYS))";
const OWNER: &[u8] = b"5c0f1a2b3d4e5f60.1.0:1:1";
const TAKEN: &[u8] = b":1";
const REFUSED: &[u8] = b":0";

/// The work of one cell.
pub struct Locks {
    server: String,
    workload: Workload,
    names: Vec<Vec<u8>>,
    milliseconds: u64,
    warmup: u64,
    count: u64,
}

/// The measured work.
pub struct Done {
    pub timing: Timing,
    pub cycles: u64,
    pub seconds: Vec<f64>,
}

#[derive(PartialEq)]
enum Workload {
    Ping,
    Pair,
    Pipelined,
}

/// Whether a row is about locks.
pub fn is_locks(row: &Value) -> bool {
    row["workload"].is_string()
}

impl Locks {
    /// Reads a row. The error names what is missing.
    pub fn parse(row: &Value) -> Outcome<Locks> {
        let workload = match text(row, "workload")? {
            "ping" => Workload::Ping,
            "pair" => Workload::Pair,
            "pipelined" => Workload::Pipelined,
            other => return Err(Failure::Cannot(format!("no workload {other}"))),
        };
        let names: Vec<Vec<u8>> =
            list(row, "names")?.iter().map(|name| Ok(string(name)?.into_bytes())).collect::<Outcome<_>>()?;
        if names.is_empty() != (workload == Workload::Ping) {
            return Err(wrong("names"));
        }
        Ok(Locks {
            server: text(row, "server")?.to_owned(),
            workload,
            names,
            milliseconds: number(row, "ttl")? * 1000,
            warmup: number(row, "warmup")?,
            count: number(row, "count")?,
        })
    }

    /// Does every cycle once and compares each reply. The server must refuse a second lock and a second release.
    pub fn verify(&self) -> Outcome<Done> {
        let Client { mut connection, ping, lock, unlock, .. } = Client::open(self)?;
        let released = format!(":{}", self.names.len());
        let start = Start::now();
        for _ in 0..self.count {
            if self.workload == Workload::Ping {
                expect(&mut connection, &ping, b"+PONG")?;
                continue;
            }
            expect(&mut connection, &lock, TAKEN)?;
            expect(&mut connection, &lock, REFUSED)?;
            expect(&mut connection, &unlock, released.as_bytes())?;
            expect(&mut connection, &unlock, REFUSED)?;
        }
        Ok(Done { timing: start.elapsed(), cycles: self.count, seconds: Vec::new() })
    }

    /// Times the cycles on a warm connection.
    pub fn measure(&self) -> Outcome<Done> {
        let mut client = Client::open(self)?;
        let mut seconds = Vec::new();
        for _ in 0..self.warmup {
            self.cycle(&mut client, &mut seconds)?;
        }
        seconds.clear();
        seconds.reserve(self.count as usize);
        let start = Start::now();
        for _ in 0..self.count {
            self.cycle(&mut client, &mut seconds)?;
        }
        Ok(Done { timing: start.elapsed(), cycles: self.count, seconds })
    }

    fn cycle(&self, client: &mut Client, seconds: &mut Vec<f64>) -> Outcome<()> {
        let Client { connection, ping, lock, unlock, both } = client;
        match self.workload {
            Workload::Ping => {
                let sent = Instant::now();
                ask(connection, ping)?;
                seconds.push(sent.elapsed().as_secs_f64());
            }
            Workload::Pair => {
                let sent = Instant::now();
                ask(connection, lock)?;
                seconds.push(sent.elapsed().as_secs_f64());
                ask(connection, unlock)?;
            }
            Workload::Pipelined => {
                ask(connection, both)?;
                connection.reply()?;
            }
        }
        Ok(())
    }
}

/// A connection, and its requests, which never change.
struct Client {
    connection: Connection,
    ping: Vec<u8>,
    lock: Vec<u8>,
    unlock: Vec<u8>,
    both: Vec<u8>,
}

impl Client {
    fn open(row: &Locks) -> Outcome<Client> {
        let mut connection = Connection::open(&row.server)?;
        let lock = script(&mut connection, LOCK)?;
        let unlock = script(&mut connection, UNLOCK)?;
        let milliseconds = row.milliseconds.to_string();
        let lock = call(&lock, &row.names, &[OWNER, milliseconds.as_bytes()])?;
        let unlock = call(&unlock, &row.names, &[OWNER])?;
        let both = [&lock[..], &unlock[..]].concat();
        Ok(Client { connection, ping: request(&[b"PING"])?, lock, unlock, both })
    }
}

/// Sends a request and reads one reply to its end. Returns its line.
fn ask<'a>(connection: &'a mut Connection, request: &[u8]) -> Outcome<&'a [u8]> {
    connection.unsent().extend_from_slice(request);
    connection.send()?;
    Ok(connection.reply()?.line)
}

/// The same, but fails if the reply differs from the expected one.
fn expect(connection: &mut Connection, request: &[u8], wanted: &[u8]) -> Outcome<()> {
    let line = ask(connection, request)?;
    if line == wanted {
        return Ok(());
    }
    let (got, wanted) = (String::from_utf8_lossy(line), String::from_utf8_lossy(wanted));
    Err(Failure::Wrong(format!("a request was answered {got} instead of {wanted}")))
}

/// Loads a script. Returns the digest that calls it.
fn script(connection: &mut Connection, source: &str) -> Outcome<Vec<u8>> {
    connection.unsent().extend_from_slice(&request(&[b"SCRIPT", b"LOAD", source.as_bytes()])?);
    connection.send()?;
    let head = connection.reply()?.line.to_vec();
    if head != b"$40" {
        return Err(Failure::Wrong(format!("a script was answered {}", String::from_utf8_lossy(&head))));
    }
    Ok(connection.reply()?.line.to_vec())
}

fn call(digest: &[u8], names: &[Vec<u8>], arguments: &[&[u8]]) -> Outcome<Vec<u8>> {
    let count = names.len().to_string();
    let mut parts: Vec<&[u8]> = vec![b"EVALSHA", digest, count.as_bytes()];
    parts.extend(names.iter().map(Vec::as_slice));
    parts.extend(arguments);
    request(&parts)
}

fn request(parts: &[&[u8]]) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    write!(bytes, "*{}\r\n", parts.len())?;
    for part in parts {
        write!(bytes, "${}\r\n", part.len())?;
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    Ok(bytes)
}
