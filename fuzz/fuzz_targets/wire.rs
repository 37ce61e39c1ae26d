//! A connection in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::rc::Rc;

use pinyon_net::network::{Network, Stream};
use pinyon_net::Address;

#[derive(Clone, Default)]
pub struct Wire(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    sent: Vec<u8>,
    arriving: VecDeque<u8>,
    width: Option<usize>,
}

impl Wire {
    pub fn arrive(&self, bytes: &[u8]) {
        self.0.borrow_mut().arriving.extend(bytes);
    }

    /// The number of arrived bytes that were not received yet.
    #[allow(dead_code)] // not every target asks
    pub fn left(&self) -> usize {
        self.0.borrow().arriving.len()
    }

    pub fn take_sent(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().sent)
    }

    /// From now on, a call receives at most so many bytes.
    pub fn narrow(&self, width: usize) {
        self.0.borrow_mut().width = Some(width);
    }
}

impl Network for Wire {
    type Stream = Wire;

    fn open(&self, _: &Address) -> io::Result<Wire> {
        let mut state = self.0.borrow_mut();
        state.sent.clear();
        state.arriving.clear();
        state.width = None;
        Ok(self.clone())
    }
}

impl Stream for Wire {
    fn connected(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.0.borrow_mut();
        let before = state.sent.len();
        for piece in pieces {
            state.sent.extend_from_slice(piece);
        }
        Ok(state.sent.len() - before)
    }

    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut state = self.0.borrow_mut();
        if state.arriving.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut left = state.width.unwrap_or(usize::MAX).min(state.arriving.len());
        let mut count = 0;
        for buffer in buffers {
            let piece = buffer.len().min(left);
            buffer[..piece].copy_from_slice(&state.arriving.make_contiguous()[..piece]);
            state.arriving.drain(..piece);
            left -= piece;
            count += piece;
        }
        Ok(count)
    }
}
