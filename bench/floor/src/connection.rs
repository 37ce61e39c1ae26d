//! One blocking connection: a send buffer, a receive buffer, and where a reply ends.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use crate::{Failure, Outcome};

const RECEIVE_SIZE: usize = 1 << 18;
/// Larger values are sent from where they are, instead of being copied after their header.
const COPY_LIMIT: usize = 1 << 14;
/// Quiet commands are sent once so many bytes have gathered.
const GATHER_LIMIT: usize = 1 << 16;

/// A connection to one server.
pub struct Connection {
    stream: TcpStream,
    unsent: Vec<u8>,
    received: Box<[u8]>,
    start: usize,
    end: usize,
}

/// A reply whose lines are in the receive buffer: the first line, and the value's bytes if it has one.
pub struct Reply<'a> {
    pub line: &'a [u8],
    pub value: &'a [u8],
}

impl Connection {
    /// Connects with TCP_NODELAY.
    pub fn open(server: &str) -> Outcome<Connection> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        let received = vec![0; RECEIVE_SIZE].into_boxed_slice();
        Ok(Connection { stream, unsent: Vec::with_capacity(GATHER_LIMIT), received, start: 0, end: 0 })
    }

    /// The bytes of the next send; append to it.
    pub fn unsent(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Appends a value and its line end. A large value is sent at once, without a copy.
    pub fn append_value(&mut self, value: &[u8]) -> Outcome<()> {
        if value.len() <= COPY_LIMIT {
            self.unsent.extend_from_slice(value);
            self.unsent.extend_from_slice(b"\r\n");
            return Ok(());
        }
        write_all_vectored(&mut self.stream, &[&self.unsent, value, b"\r\n"])?;
        self.unsent.clear();
        Ok(())
    }

    /// Sends the gathered bytes.
    pub fn send(&mut self) -> Outcome<()> {
        if !self.unsent.is_empty() {
            self.stream.write_all(&self.unsent)?;
            self.unsent.clear();
        }
        Ok(())
    }

    /// Sends the gathered bytes if there are many.
    pub fn send_when_full(&mut self) -> Outcome<()> {
        if self.unsent.len() >= GATHER_LIMIT {
            self.send()?;
        }
        Ok(())
    }

    /// Reads one line, and the value after it if the line is `VA <size> ...` or `VALUE <key> <flags> <size>`.
    pub fn reply(&mut self) -> Outcome<Reply<'_>> {
        let line = self.line_length()?;
        let size = value_size(&self.received[self.start..self.start + line])?;
        let total = line + 2 + size.map_or(0, |size| size + 2);
        self.make_available(total)?;
        let start = self.start;
        self.start += total;
        let head = &self.received[start..start + line];
        let value = size.map_or(&[][..], |size| &self.received[start + line + 2..start + line + 2 + size]);
        Ok(Reply { line: head, value })
    }

    fn line_length(&mut self) -> Outcome<usize> {
        let mut scanned = 0;
        loop {
            let pending = &self.received[self.start..self.end];
            if let Some(at) = pending[scanned..].iter().position(|&byte| byte == b'\n') {
                return (scanned + at).checked_sub(1).ok_or_else(|| Failure::Wrong("an empty line".into()));
            }
            scanned = pending.len();
            self.receive()?;
        }
    }

    fn make_available(&mut self, total: usize) -> Outcome<()> {
        if total > self.received.len() {
            return Err(Failure::Cannot(format!("a reply of {total} bytes")));
        }
        while self.end - self.start < total {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Outcome<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > self.received.len() / 2 || self.end == self.received.len() {
            self.received.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.stream.read(&mut self.received[self.end..])? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }
}

fn value_size(line: &[u8]) -> Outcome<Option<usize>> {
    let word = if line.starts_with(b"VA ") {
        line[3..].split(|&byte| byte == b' ').next()
    } else if line.starts_with(b"VALUE ") {
        line.rsplit(|&byte| byte == b' ').next()
    } else {
        return Ok(None);
    };
    let digits = word.unwrap_or_default();
    let size = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    size.map(Some).ok_or_else(|| Failure::Wrong(format!("a reply without a size: {}", String::from_utf8_lossy(line))))
}

fn write_all_vectored(stream: &mut TcpStream, parts: &[&[u8]; 3]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let sent = stream.write_vectored(rest)?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, sent);
    }
    Ok(())
}
