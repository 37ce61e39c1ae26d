//! The path of a session's bytes: the stream, with TLS if it is enabled.

use std::io::{self, IoSlice, IoSliceMut};

use super::{Outgoing, Secured};
use crate::network::Stream;

pub struct Wire<'c, S> {
    pub(super) stream: &'c mut S,
    pub(super) secured: Option<&'c mut Secured>,
}

impl<S: Stream> Wire<'_, S> {
    /// Whether a receive needs all the room in the buffers, rather than just room for what is awaited.
    #[inline]
    pub fn is_secured(&self) -> bool {
        self.secured.is_some()
    }

    /// Sends until all is sent or the stream takes no more. Returns whether all is sent.
    #[inline]
    pub(super) fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<bool> {
        match &mut self.secured {
            None => outgoing.send(self.stream),
            Some(secured) => outgoing.send(&mut Encrypting { stream: self.stream, secured }),
        }
    }

    /// Receives once, by `receive`, which may wait if the host can.
    #[inline(always)]
    pub fn receive(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        receive: impl FnOnce(&mut S, &mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match &mut self.secured {
            None => receive(self.stream, buffers),
            Some(secured) => secured.receive(self.stream, buffers, receive),
        }
    }
}

/// A stream whose output is encrypted.
struct Encrypting<'c, S> {
    stream: &'c mut S,
    secured: &'c mut Secured,
}

impl<S: Stream> Stream for Encrypting<'_, S> {
    fn connected(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.secured.send(self.stream, pieces)
    }

    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.secured.receive(self.stream, buffers, S::receive)
    }
}
