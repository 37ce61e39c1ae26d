//! Bytes to send: encoded requests, and between them large values without a copy.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::network::Stream;

/// The caller's bytes, shared with the session until they are sent.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Memory to keep for the next requests when everything is sent.
const KEPT: usize = 64 * 1024;

/// The most pieces for one system call.
const PIECES: usize = 16;

#[derive(Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// How much of `bytes` is sent.
    start: usize,
    splices: VecDeque<Splice>,
    unsent: usize,
    /// All bytes ever appended.
    appended: u64,
}

struct Splice {
    /// Its position in `Outgoing::bytes`.
    at: usize,
    data: SharedBytes,
    sent: usize,
}

impl Outgoing {
    /// Appends what `write` writes, unless it fails.
    pub fn append<T, E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<T, E>) -> Result<T, E> {
        let before = self.bytes.len();
        let written = write(&mut self.bytes);
        match &written {
            Ok(_) => {
                self.unsent += self.bytes.len() - before;
                self.appended += (self.bytes.len() - before) as u64;
            }
            Err(_) => self.bytes.truncate(before),
        }
        written
    }

    pub fn append_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.unsent += bytes.len();
        self.appended += bytes.len() as u64;
    }

    pub fn append_shared(&mut self, data: SharedBytes) {
        let length = (*data).as_ref().len();
        self.unsent += length;
        self.appended += length as u64;
        self.splices.push_back(Splice { at: self.bytes.len(), data, sent: 0 });
    }

    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// The position in the stream after the last appended byte.
    pub fn end(&self) -> u64 {
        self.appended
    }

    /// The position in the stream of the next byte to send.
    pub fn position(&self) -> u64 {
        self.appended - self.unsent as u64
    }

    /// Sends until all is sent or the stream takes no more. Returns whether all is sent.
    pub fn send(&mut self, stream: &mut impl Stream) -> io::Result<bool> {
        while self.unsent > 0 {
            let sent = match self.splices.is_empty() {
                true => stream.send(&[IoSlice::new(&self.bytes[self.start..])]),
                false => {
                    let mut pieces = [IoSlice::new(&[]); PIECES];
                    let count = self.gather(&mut pieces);
                    stream.send(&pieces[..count])
                }
            };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn gather<'s>(&'s self, pieces: &mut [IoSlice<'s>; PIECES]) -> usize {
        let mut count = 0;
        let mut at = self.start;
        for splice in &self.splices {
            if count + 2 > PIECES {
                return count;
            }
            if splice.at > at {
                pieces[count] = IoSlice::new(&self.bytes[at..splice.at]);
                count += 1;
                at = splice.at;
            }
            pieces[count] = IoSlice::new(&(*splice.data).as_ref()[splice.sent..]);
            count += 1;
        }
        if count < PIECES && at < self.bytes.len() {
            pieces[count] = IoSlice::new(&self.bytes[at..]);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut sent: usize) {
        self.unsent -= sent;
        while let Some(splice) = self.splices.front_mut() {
            let before = (splice.at - self.start).min(sent);
            self.start += before;
            sent -= before;
            if self.start < splice.at {
                return;
            }
            let left = (*splice.data).as_ref().len() - splice.sent;
            if sent < left {
                splice.sent += sent;
                return;
            }
            sent -= left;
            self.splices.pop_front();
        }
        self.start += sent;
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::IoSliceMut;

    /// A stream that takes a few bytes at a time.
    struct Narrow {
        width: usize,
        taken: Vec<u8>,
    }

    impl Stream for Narrow {
        fn connected(&mut self) -> io::Result<bool> {
            Ok(true)
        }
        fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            let taken = all.len().min(self.width);
            self.taken.extend_from_slice(&all[..taken]);
            Ok(taken)
        }
        fn receive(&mut self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            unreachable!()
        }
    }

    proptest! {
        #[test]
        fn pieces_leave_in_order_however_they_are_cut(
            pieces in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..50)), 0..40),
            width in 1usize..100,
        ) {
            let mut outgoing = Outgoing::default();
            let mut stream = Narrow { width, taken: Vec::new() };
            for (shared, bytes) in &pieces {
                match shared {
                    true if !bytes.is_empty() => outgoing.append_shared(Arc::new(bytes.clone())),
                    _ => outgoing.append_bytes(bytes),
                }
            }
            let all: Vec<u8> = pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
            prop_assert_eq!(outgoing.unsent(), all.len());
            prop_assert!(outgoing.send(&mut stream).unwrap());
            prop_assert_eq!(stream.taken, all);
            prop_assert_eq!(outgoing.unsent(), 0);
            prop_assert_eq!(outgoing.position(), outgoing.end());
        }
    }
}
