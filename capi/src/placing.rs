//! The destinations of values: memory of the host, or memory that the reply owns.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Deref;

use pinyon_cache::dialect::{Packing, ValueError};
use pinyon_cache::operations::{Head, Values};
use pinyon_cache::{Destination, Value};

use crate::structs::Place;

/// Takes the values of one request. `P` is a reference to the client's packing.
pub struct Placing<P> {
    pub packing: P,
    pub place: Option<Place>,
    pub context: *mut c_void,
    /// Whether values are returned as they are stored.
    pub is_raw: bool,
    /// Memory to use for a value that the host has no place for.
    pub room: Cell<Vec<u8>>,
}

// SAFETY: the host says that its pointer may be passed to `place` from the thread that drives the request.
unsafe impl<P: Send> Send for Placing<P> {}

/// A value.
#[derive(Debug)]
pub struct Placed {
    pub client_flags: u32,
    /// The bytes, unless the host has them.
    pub kept: Option<Vec<u8>>,
}

impl<P: Deref<Target = Packing>> Values for Placing<P> {
    type Value = Placed;
    type Error = ValueError;

    #[inline]
    fn read(&self, head: &Head, value: Value<'_>, _server: &str) -> Result<Placed, ValueError> {
        let client_flags = head.item.client_flags;
        if self.is_compressed(client_flags) {
            let bytes = self.packing.unpack(client_flags, value.bytes())?;
            let client_flags = self.packing.dialect().inside(client_flags);
            let kept = (!self.put(&bytes, client_flags)).then_some(bytes);
            return Ok(Placed { client_flags, kept });
        }
        let kept = match value {
            Value::Received(destination) => match destination.into_any().downcast::<Vec<u8>>() {
                Ok(bytes) => Some(*bytes),
                Err(_) => None,
            },
            other if self.put(other.bytes(), client_flags) => None,
            other => {
                let mut room = self.room.take();
                room.clear();
                room.extend_from_slice(other.bytes());
                Some(room)
            }
        };
        Ok(Placed { client_flags, kept })
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        if let Some(memory) = self.host_memory(head) {
            return memory;
        }
        let size = head.size.unwrap_or_default();
        let mut room = self.room.take();
        room.clear();
        room.resize(size, 0);
        Box::new(room)
    }
}

impl<P: Deref<Target = Packing>> Placing<P> {
    fn is_compressed(&self, client_flags: u32) -> bool {
        !self.is_raw && self.packing.dialect().is_compressed(client_flags)
    }

    /// The host's memory for a large value, if the host has a place for it.
    pub fn host_memory(&self, head: &Head) -> Option<Box<dyn Destination>> {
        let (size, client_flags) = (head.size.unwrap_or_default(), head.item.client_flags);
        if self.is_compressed(client_flags) {
            return None;
        }
        let start = self.ask_for(size, client_flags)?;
        Some(Box::new(HostMemory { start, size }))
    }

    /// Copies a value to the host's memory, if the host has a place for it.
    #[inline]
    fn put(&self, bytes: &[u8], client_flags: u32) -> bool {
        // SAFETY: the header asks hosts for a `place` that takes the context of a request, and gives memory of this size.
        self.place.is_some_and(|place| unsafe { put(place, self.context, bytes, client_flags) })
    }

    #[inline]
    fn ask_for(&self, size: usize, client_flags: u32) -> Option<*mut u8> {
        let place = self.place?;
        // SAFETY: the header asks hosts for a `place` that takes the context of a request.
        let memory: *mut u8 = unsafe { place(self.context, size, client_flags) }.cast();
        (!memory.is_null()).then_some(memory)
    }
}

/// Copies a value to the host's memory, if the host has a place for it. Returns whether it has.
///
/// # Safety
/// `place` may be called with this pointer, and gives memory of the size that it is asked for, which nobody else uses until it is
/// written to.
#[inline]
pub unsafe fn put(place: Place, context: *mut c_void, bytes: &[u8], client_flags: u32) -> bool {
    // SAFETY: the caller's `place` gives memory of this size, which nobody else uses until it is written to.
    unsafe {
        let memory: *mut u8 = place(context, bytes.len(), client_flags).cast();
        if !memory.is_null() {
            memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        !memory.is_null()
    }
}

/// Memory of the host's, into which a value is received.
#[derive(Debug)]
struct HostMemory {
    start: *mut u8,
    size: usize,
}

// SAFETY: the host gives it to this library until the reply is there. Only the thread that drives the connection uses it.
unsafe impl Send for HostMemory {}

impl Destination for HostMemory {
    fn bytes(&self) -> &[u8] {
        // SAFETY: it is so long, and was zeroed or written to.
        unsafe { std::slice::from_raw_parts(self.start, self.size) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: it is so long, and nobody else uses it.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.size) }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
