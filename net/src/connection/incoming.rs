//! Bytes that have arrived and are unread.

/// A buffer of fixed size for lines and small values. Large values go elsewhere.
pub struct Incoming {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Incoming {
    pub fn new(capacity: usize) -> Self {
        Self { buffer: vec![0; capacity].into(), start: 0, end: 0 }
    }

    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The unread bytes, to be decrypted in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..self.end]
    }

    /// The position of [`Self::bytes`], for [`Self::at`].
    pub fn position(&self) -> usize {
        self.start
    }

    /// Bytes by position, read or unread, until the next call of [`Self::room`].
    #[inline(always)]
    pub fn at(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Memory for the next bytes. Moves the unread bytes to the front if the end is near.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        } else if self.end > self.buffer.len() / 2 && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.buffer[self.end..]
    }

    /// Notes that `count` bytes were received into [`Self::room`].
    pub fn filled(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.buffer.len());
    }
}
