//! TLS between a session and its stream.
//!
//! Two properties let hosts wait for a secured connection like for any other:
//!
//! - Received records are decrypted at once and handed over whole, because no more is received than there is room for.
//!   So a silent socket means that nothing is left to read.
//! - Bytes count as sent once their whole record is sent; the server cannot read part of one. So only a session with
//!   unsent bytes waits to write.
//!
//! A handshake ends by the deadline of connecting, and its last record leaves with the greeting. memcached waits for
//! its socket even while OpenSSL still holds the rest of a record for it. So the last byte of a message that takes
//! several records is a record of its own, which keeps the socket readable until memcached has read all before it.
//! Without TLS, an operation pays one branch.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, InvalidMessage};

use super::Incoming;
use crate::network::Stream;
use crate::tls::{explain, ServerTls};

/// The most plain bytes in a record.
const RECORD: usize = 16 * 1024;

/// The most other bytes of a record in TLS 1.2, and room for a key update.
const OVERHEAD: usize = 2048 + 5;

/// Two whole records, so that an incomplete one leaves room for more.
const RECEIVED: usize = 2 * (RECORD + OVERHEAD);

/// The most encrypted and unsent bytes.
const UNSENT: usize = 4 * RECORD;

/// A failure of TLS, with advice.
#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    /// Whether the same handshake may succeed later: the connection ended, and neither side refused the other.
    pub(super) passes: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    fn error(message: impl Into<String>) -> io::Error {
        io::Error::other(Failure { message: message.into(), passes: false })
    }

    /// The connection ended during the handshake.
    fn cut(message: impl Into<String>) -> io::Error {
        io::Error::other(Failure { message: message.into(), passes: true })
    }

    /// The TLS failure inside an error, if there is one.
    pub(super) fn of(error: &io::Error) -> Option<&Failure> {
        error.get_ref()?.downcast_ref()
    }
}

pub(crate) struct Secured {
    tls: UnbufferedClientConnection,
    incoming: Incoming,
    records: Records,
    /// Whether the server has announced the end of the connection.
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

    /// Continues the handshake as far as possible without waiting. Returns whether it is over. Its last record leaves
    /// together with the session's first bytes.
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
                    return Err(Failure::cut(
                        "the server closed the connection during the handshake of TLS: does it speak TLS on this port?",
                    ))
                }
                Ok(count) => self.incoming.filled(count),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    return Ok(false)
                }
                Err(error) => {
                    return Err(Failure::cut(format!(
                        "the connection broke during the handshake of TLS: {error}; does the server speak TLS on this \
                         port?"
                    )))
                }
            }
        }
    }

    /// Whether the handshake has something to send.
    pub(super) fn has_unsent(&self) -> bool {
        self.records.has_unsent()
    }

    /// Like [`Stream::send`]. The bytes that it reports were sent in whole records; offer the others again.
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

    /// Receives once, by `receive`, and decrypts into the buffers. `Interrupted` means that no whole record has arrived
    /// yet.
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

    /// Decrypts the records that are complete, and encrypts what is to be sent, as far as there is room.
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
                    data.done(); // the records contain it, and they leave in order
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

    /// Ends TLS after a failure, and tries to tell the server.
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

/// Appends bytes to the filled part of the buffers. There is room, since no more was received.
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

/// Encrypted, unsent records.
#[derive(Default)]
struct Records {
    /// Grows to the size that is needed.
    bytes: Vec<u8>,
    sent: usize,
    end: usize,
    queue: VecDeque<Record>,
    /// Whether the last call filled several records, and the next one may continue them.
    amid: bool,
}

struct Record {
    /// Its end in [`Records::bytes`].
    end: usize,
    /// How many of the session's bytes it contains.
    plain: usize,
}

impl Records {
    fn has_unsent(&self) -> bool {
        self.sent < self.end
    }

    /// Whether it contains bytes of the session's.
    fn has_taken(&self) -> bool {
        self.queue.iter().any(|record| record.plain > 0)
    }

    /// Encrypts the pieces, as far as there is room.
    ///
    /// While OpenSSL holds the rest of a decrypted record, memcached waits for its socket, and would wait forever. So
    /// if data takes several records, its last byte is a record of its own: until everything before it is read, the
    /// socket has something to read. Data in one record is read at once.
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

    /// Sends as much as the stream takes. Returns how many of the session's bytes have left in whole records.
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
                // The next call meets the error again. This call reports the bytes that have left.
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
