//! TLS between a session and its stream: records out, records in.
//!
//! Two things make a secured connection one to be waited for like any other:
//!
//! - What is received is decrypted at once and handed over whole, for no more is received than there is room for. So
//!   nothing is held back here that a silent socket would not tell of.
//! - What is taken counts as sent once its whole record is sent; a part the server cannot read. So whoever has unsent
//!   bytes waits to write, and nobody else has to.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, InvalidMessage};

use super::Incoming;
use crate::network::Stream;
use crate::tls::{explain, ServerTls};

/// The plain bytes of a record, at most.
const RECORD: usize = 16 * 1024;

/// What a record has besides, at most, by TLS 1.2; and room for what is said of keys in between.
const OVERHEAD: usize = 2048 + 5;

/// Two whole records: one that has come in part leaves room for more.
const RECEIVED: usize = 2 * (RECORD + OVERHEAD);

/// Encrypted and not yet sent, at most.
const UNSENT: usize = 4 * RECORD;

/// TLS has failed; why, and what to do about it.
#[derive(Debug)]
pub(super) struct Failure(String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    fn error(message: impl Into<String>) -> io::Error {
        io::Error::other(Failure(message.into()))
    }

    /// The failure of TLS that an error is, if it is one.
    pub(super) fn of(error: &io::Error) -> Option<&Failure> {
        error.get_ref()?.downcast_ref()
    }
}

pub(crate) struct Secured {
    tls: UnbufferedClientConnection,
    incoming: Incoming,
    records: Records,
    /// The server has said that nothing more will come.
    closed: bool,
}

#[derive(PartialEq)]
enum Standing {
    Shaking,
    Open,
    Closed,
}

impl Secured {
    pub(super) fn new(tls: &ServerTls) -> io::Result<Self> {
        let tls = tls.begin().map_err(|error| Failure::error(explain(&error)))?;
        Ok(Self { tls, incoming: Incoming::new(RECEIVED), records: Records::default(), closed: false })
    }

    /// Goes on with the handshake as far as it can without waiting. Returns whether it is over; its last record leaves
    /// with what is sent first.
    pub(super) fn shake(&mut self, stream: &mut impl Stream) -> io::Result<bool> {
        loop {
            let mut early = Vec::new();
            let standing = self.process(&[], |bytes| early.extend_from_slice(bytes));
            let standing = standing.map_err(|error| self.failed(stream, &error))?;
            if !early.is_empty() {
                early.truncate(80);
                let said = early.escape_ascii();
                return Err(Failure::error(format!("the server said \"{said}\" before it was asked for anything")));
            }
            if standing == Standing::Open {
                return Ok(true);
            }
            self.records.flush(stream)?;
            let room = self.incoming.room();
            if room.is_empty() {
                return Err(Failure::error("the server's handshake is too long: does it show needless certificates?"));
            }
            match stream.receive(&mut [IoSliceMut::new(room)]) {
                Ok(0) => {
                    return Err(Failure::error(
                        "the server closed the connection during the handshake of TLS: does it speak TLS on this port?",
                    ))
                }
                Ok(count) => self.incoming.filled(count),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(false)
                }
                Err(error) => {
                    return Err(Failure::error(format!(
                        "the connection broke during the handshake of TLS: {error}; does the server speak TLS on this \
                         port?"
                    )))
                }
            }
        }
    }

    /// Whether something is to be sent for the handshake.
    pub(super) fn has_unsent(&self) -> bool {
        self.records.has_unsent()
    }

    /// As [`Stream::send`]: what is taken has been sent in whole records. What is not is to be offered again.
    pub(super) fn send(&mut self, stream: &mut impl Stream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.records.has_taken() {
            let mut unasked = false;
            let standing = self.process(pieces, |_| unasked = true);
            match standing.map_err(|error| self.failed(stream, &error))? {
                Standing::Open if !unasked => {}
                Standing::Closed => return Err(io::ErrorKind::BrokenPipe.into()),
                _ => return Err(Failure::error("the server sent a reply that no request asked for")),
            }
        }
        match self.records.flush(stream)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            sent => Ok(sent),
        }
    }

    /// Receives once, by `receive`, and decrypts into the buffers. `Interrupted` says that no whole record has come yet.
    pub(super) fn receive<S: Stream>(
        &mut self,
        stream: &mut S,
        buffers: &mut [IoSliceMut<'_>],
        receive: impl FnOnce(&mut S, &mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.closed {
            return Ok(0);
        }
        let space: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let most = space.saturating_sub(self.incoming.bytes().len());
        let room = self.incoming.room();
        let most = most.min(room.len());
        if most == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = receive(stream, &mut [IoSliceMut::new(&mut room[..most])])?;
        if count == 0 {
            return Ok(0);
        }
        self.incoming.filled(count);
        let mut filled = 0;
        let standing = self.process(&[], |bytes| filled += put(buffers, filled, bytes));
        let standing = standing.map_err(|error| self.failed(stream, &error))?;
        match filled {
            0 if standing == Standing::Closed => Ok(0),
            0 => Err(io::ErrorKind::Interrupted.into()),
            filled => Ok(filled),
        }
    }

    /// Takes what has come, as far as it is whole, and encrypts what is to be sent, as far as there is room.
    fn process(&mut self, pieces: &[IoSlice<'_>], mut take: impl FnMut(&[u8])) -> Result<Standing, Error> {
        loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(self.incoming.bytes_mut());
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    self.incoming.consume(discard);
                    return Err(error);
                }
            };
            let standing = match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        take(record.payload);
                    }
                    None
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    self.records.push(0, |room| data.encode(room).map_err(Oversized::from))?;
                    None
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done(); // it is in the records, which leave in order
                    None
                }
                ConnectionState::WriteTraffic(mut traffic) => {
                    self.records.encrypt(&mut traffic, pieces)?;
                    Some(Standing::Open)
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.closed = true;
                    Some(Standing::Closed)
                }
                _ => Some(Standing::Shaking),
            };
            self.incoming.consume(discard);
            if let Some(standing) = standing {
                return Ok(standing);
            }
        }
    }

    /// TLS is over for this connection: the server is told, if it still listens.
    #[cold]
    fn failed(&mut self, stream: &mut impl Stream, error: &Error) -> io::Error {
        let bytes = self.incoming.bytes();
        let is_plain = bytes.first().is_some_and(|kind| !(0x14..=0x17).contains(kind));
        if is_plain && matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType)) {
            let said = bytes[..bytes.len().min(80)].escape_ascii();
            return Failure::error(format!(
                "the server answered in plain text (\"{said}\"), so it does not speak TLS on this port: correct the \
                 port, or leave TLS out"
            ));
        }
        let alert = self.tls.process_tls_records(self.incoming.bytes_mut());
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = alert.state {
            let _ = self.records.push(0, |room| data.encode(room).map_err(Oversized::from));
            let _ = self.records.flush(stream);
        }
        Failure::error(explain(error))
    }
}

/// Copies bytes to where the buffers are filled up to; there is room, as no more was received.
fn put(buffers: &mut [IoSliceMut<'_>], mut filled: usize, mut bytes: &[u8]) -> usize {
    let count = bytes.len();
    for buffer in buffers {
        if filled >= buffer.len() {
            filled -= buffer.len();
            continue;
        }
        let part = bytes.len().min(buffer.len() - filled);
        buffer[filled..filled + part].copy_from_slice(&bytes[..part]);
        bytes = &bytes[part..];
        filled = 0;
    }
    debug_assert!(bytes.is_empty());
    count
}

/// Records that are encrypted and not yet sent.
#[derive(Default)]
struct Records {
    /// Grown to what is used at most.
    bytes: Vec<u8>,
    sent: usize,
    end: usize,
    queue: VecDeque<Record>,
    /// What was given last took several records; what is given next may go on with it.
    amid: bool,
}

struct Record {
    /// Where in [`Records::bytes`] it ends.
    end: usize,
    /// How many bytes of the session's are in it.
    plain: usize,
}

impl Records {
    fn has_unsent(&self) -> bool {
        self.sent < self.end
    }

    /// Whether it has bytes of the session's.
    fn has_taken(&self) -> bool {
        self.queue.iter().any(|record| record.plain > 0)
    }

    /// Encrypts the pieces, as far as there is room.
    ///
    /// memcached waits for its socket while OpenSSL still keeps the rest of a record for it, and would wait for ever. So
    /// the last byte of what takes several records is a record of its own: until all before it is read, the socket has
    /// something. What one record takes is read at once.
    fn encrypt<D>(&mut self, traffic: &mut WriteTraffic<'_, D>, pieces: &[IoSlice<'_>]) -> Result<(), Error> {
        let [before @ .., last] = pieces else { return Ok(()) };
        let is_one = before.is_empty() && last.len() <= RECORD;
        let whole = !std::mem::replace(&mut self.amid, !is_one) && is_one;
        let (last, end) = last.split_at(last.len() - usize::from(!whole));
        let all = before.iter().map(|piece| &**piece).chain([last, end]);
        for bytes in all.flat_map(|piece| piece.chunks(RECORD)) {
            if self.end >= UNSENT {
                break;
            }
            self.push(bytes.len(), |room| traffic.encrypt(bytes, room).map_err(Oversized::from))?;
        }
        Ok(())
    }

    /// Appends a record that `write` writes.
    fn push(
        &mut self,
        plain: usize,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, Oversized>,
    ) -> Result<(), Error> {
        let written = match write(&mut self.bytes[self.end..]) {
            Err(Oversized::Needs(size)) => {
                self.bytes.resize(self.end + size, 0);
                write(&mut self.bytes[self.end..])
            }
            written => written,
        };
        self.end += written.map_err(|_| Error::EncryptError)?;
        self.queue.push_back(Record { end: self.end, plain });
        Ok(())
    }

    /// Sends as far as the stream takes it. Returns how many bytes of the session's have left in whole records.
    fn flush(&mut self, stream: &mut impl Stream) -> io::Result<usize> {
        let mut left = 0;
        while self.has_unsent() {
            match stream.send(&[IoSlice::new(&self.bytes[self.sent..self.end])]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.sent += sent;
                    while self.queue.front().is_some_and(|record| record.end <= self.sent) {
                        left += self.queue.pop_front().map_or(0, |record| record.plain);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It comes again with the next call, and what has left is told of now.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || left > 0 => return Ok(left),
                Err(error) => return Err(error),
            }
        }
        (self.sent, self.end) = (0, 0);
        Ok(left)
    }
}

/// Why a record was not written.
enum Oversized {
    Needs(usize),
    Never,
}

impl From<EncodeError> for Oversized {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => Oversized::Needs(size.required_size),
            EncodeError::AlreadyEncoded => Oversized::Never,
        }
    }
}

impl From<EncryptError> for Oversized {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => Oversized::Needs(size.required_size),
            EncryptError::EncryptExhausted => Oversized::Never,
        }
    }
}
