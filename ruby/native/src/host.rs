//! Waiting in Ruby: other threads run during a wait, and signals, `Thread#raise` and `Timeout` end it.
//!
//! Ruby may interrupt a wait before it begins, so such a wait is refused.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr;
use std::time::Duration;

use magnus::rb_sys::protect;
use magnus::{Error, Ruby};
use pinyon_net::host::{Host, UNDISTURBED};

/// A Ruby thread that waits. Only the holder of the global VM lock makes one.
pub(crate) struct RubyHost;

impl Host for RubyHost {
    type Interrupt = Error;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Error> {
        Waiting { wait: Some(wait), outcome: None }.end(signal(), ptr::null_mut())
    }

    fn asleep<T: Send>(&self, wait: impl FnOnce(Duration) -> T + Send, wake: impl Fn() + Sync) -> Result<T, Error> {
        let mut waiting = Waiting { wait: Some(|| wait(UNDISTURBED)), outcome: None };
        waiting.end(Some(call(&wake)), ptr::from_ref(&wake).cast_mut().cast())
    }

    fn interrupted(&self) -> Result<(), Error> {
        check_interrupts()
    }
}

/// Runs a wait that system calls do not make, without the VM lock. `interrupt`: ends it from another thread.
pub(crate) fn unlocked_until<T: Send>(
    _ruby: &Ruby,
    wait: impl FnOnce() -> T + Send,
    interrupt: impl Fn() + Sync,
) -> Result<T, Error> {
    let outcome = Waiting { wait: Some(wait), outcome: None }
        .end(Some(call(&interrupt)), ptr::from_ref(&interrupt).cast_mut().cast())?;
    check_interrupts()?;
    Ok(outcome)
}

fn check_interrupts() -> Result<(), Error> {
    protect(|| {
        // SAFETY: the caller holds the VM lock, and `protect` stops what this raises before it reaches Rust's frames.
        unsafe { rb_sys::rb_thread_check_ints() };
        rb_sys::Qnil as rb_sys::VALUE
    })
    .map(drop)
}

struct Waiting<F, T> {
    wait: Option<F>,
    outcome: Option<Result<T, Box<dyn Any + Send>>>,
}

impl<F: FnOnce() -> T + Send, T: Send> Waiting<F, T> {
    fn end(&mut self, interrupt: rb_sys::rb_unblock_function_t, data: *mut c_void) -> Result<T, Error> {
        loop {
            // SAFETY: `Self::unlocked` receives the pointer back as it is, while `self` is borrowed here. The variant
            // with a 2 never raises, so it does not jump over Rust's frames.
            unsafe {
                let waiting = ptr::from_mut(self).cast();
                rb_sys::rb_thread_call_without_gvl2(Some(Self::unlocked), waiting, interrupt, data);
            }
            match self.outcome.take() {
                Some(Ok(outcome)) => return Ok(outcome),
                Some(Err(panic)) => resume_unwind(panic),
                // An interrupt was pending, so Ruby ran nothing.
                None => check_interrupts()?,
            }
        }
    }

    unsafe extern "C" fn unlocked(waiting: *mut c_void) -> *mut c_void {
        // SAFETY: it is the pointer that `end` passed.
        let waiting = unsafe { &mut *waiting.cast::<Self>() };
        if let Some(wait) = waiting.wait.take() {
            waiting.outcome = Some(catch_unwind(AssertUnwindSafe(wait)));
        }
        ptr::null_mut()
    }
}

/// Ruby's `RUBY_UBF_IO`: to interrupt the wait, Ruby signals the thread until it has left its system call.
fn signal() -> rb_sys::rb_unblock_function_t {
    // SAFETY: ruby/thread.h defines the macro as this number, cast to the type of the function.
    unsafe { std::mem::transmute::<isize, rb_sys::rb_unblock_function_t>(-1) }
}

/// The function that calls such an `interrupt`, whose address is its argument.
fn call<F: Fn() + Sync>(_interrupt: &F) -> unsafe extern "C" fn(*mut c_void) {
    unsafe extern "C" fn call<F: Fn()>(interrupt: *mut c_void) {
        // SAFETY: Ruby passes the pointer that came with this function, while the wait that borrows it goes on.
        let interrupt = unsafe { &*interrupt.cast::<F>() };
        interrupt();
    }
    call::<F>
}
