//! Takes the part of a scheduler in EventMachine's reactor, for `Pinyon::EventMachine`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use magnus::rb_sys::{AsRawValue, FromRawValue};
use magnus::value::{LazyId, Opaque, ReprValue};
use magnus::{Error, Module, RClass, RModule, Ruby, Value};
use pinyon_net::fork;

static ADAPTERS: OnceLock<Adapters> = OnceLock::new();

static CURRENT: LazyId = LazyId::new("current");

static IS_BLOCKING: LazyId = LazyId::new("blocking?");

const NONE: u64 = rb_sys::Qnil as u64;

/// Who is asked. To ask costs 2,000 instructions, so the answer is kept.
struct Adapters {
    module: Opaque<RModule>,
    fibers: Opaque<RClass>,
    /// The last adapter and the thread of its reactor, as Ruby's values, and the process that has them. Only the holder of
    /// the VM lock uses them. The garbage collector marks both and leaves them in place.
    adapter: AtomicU64,
    thread: AtomicU64,
    generation: AtomicU64,
}

/// From now on, `module` is asked for what is `current` in fibers without a scheduler. What it said before is forgotten.
pub(super) fn adapt(ruby: &Ruby, module: RModule) -> Result<(), Error> {
    if let Some(adapters) = ADAPTERS.get() {
        adapters.keep(NONE, NONE);
        return Ok(());
    }
    let fibers: RClass = ruby.class_object().const_get("Fiber")?;
    ruby.gc_register_mark_object(module);
    ruby.gc_register_mark_object(fibers);
    let adapters = ADAPTERS.get_or_init(|| Adapters {
        module: module.into(),
        fibers: fibers.into(),
        adapter: NONE.into(),
        thread: NONE.into(),
        generation: 0.into(),
    });
    for kept in [&adapters.adapter, &adapters.thread] {
        // SAFETY: the address is that of a static, and always holds a value of Ruby's.
        unsafe { rb_sys::rb_gc_register_address(kept.as_ptr().cast()) };
    }
    Ok(())
}

/// The adapter, if this fiber is one of a reactor that does not block it.
#[inline]
pub(super) fn current(ruby: &Ruby) -> Result<Option<Value>, Error> {
    match ADAPTERS.get() {
        Some(adapters) => adapters.current(ruby),
        None => Ok(None),
    }
}

impl Adapters {
    #[inline(never)]
    fn current(&self, ruby: &Ruby) -> Result<Option<Value>, Error> {
        let thread = ruby.thread_current().as_raw();
        let is_of_thread = self.thread.load(Ordering::Relaxed) == thread;
        if is_of_thread && self.generation.load(Ordering::Relaxed) == fork::generation() {
            let fibers = ruby.get_inner(self.fibers);
            let is_blocking: Value = fibers.funcall(LazyId::get_inner_with(&IS_BLOCKING, ruby), ())?;
            // SAFETY: an adapter that is kept is marked.
            let adapter = unsafe { Value::from_raw(self.adapter.load(Ordering::Relaxed)) };
            return Ok((!is_blocking.to_bool()).then_some(adapter));
        }
        let module = ruby.get_inner(self.module);
        let adapter: Value = module.funcall(LazyId::get_inner_with(&CURRENT, ruby), ())?;
        if adapter.is_nil() {
            return Ok(None);
        }
        self.keep(adapter.as_raw(), thread);
        Ok(Some(adapter))
    }

    fn keep(&self, adapter: u64, thread: u64) {
        self.adapter.store(adapter, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Relaxed);
        self.generation.store(fork::generation(), Ordering::Relaxed);
    }
}
