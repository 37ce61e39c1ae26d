//! What the methods of `pinyon.aio` are, and return: callables that pass for coroutine functions, and futures that
//! pass for coroutines. Neither costs those who call and await anything.
//!
//! Code that looks for coroutines recognises them by their methods. So a reply is a subclass of asyncio's future that
//! has these methods (`pinyon/_aio_replies.py`). Tasks wait for asyncio's own class by a much shorter path. So a reply
//! turns into a plain future when a coroutine awaits it, unless a task was made of it. The methods themselves are
//! objects of a native class, which takes the marks of coroutine functions and costs as much to call as a method.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering};
use std::{iter, ptr};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::futures::is_done;

extern "C" {
    /// Python's own bound method.
    fn PyMethod_New(function: *mut ffi::PyObject, instance: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// Returns a class of futures that turn into plain ones when a coroutine awaits them and no task was made of them.
///
/// asyncio's tasks wait for futures of exactly its own class by a much shorter path. `reply` is a subclass of that
/// class, without attributes of its own.
#[pyfunction]
pub(crate) fn turning_plain<'py>(reply: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let py = reply.py();
    // Since 3.14 a coroutine's own reference is not counted if it awaits a variable.
    KNOWN_TO_NONE.store(if py.version_info() < (3, 14) { 2 } else { 1 }, Ordering::Relaxed);
    let mut slots = [
        ffi::PyType_Slot { slot: ffi::Py_am_await, pfunc: turn_plain as *mut c_void },
        ffi::PyType_Slot { slot: 0, pfunc: ptr::null_mut() },
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"pinyon.aio.Reply".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    let bases = PyTuple::new(py, [reply])?;
    // SAFETY: Python copies the specification; the name is static. Sizes are inherited.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&mut spec, bases.as_ptr())) }
}

/// How many references a future has while a coroutine awaits it that only its operation refers to otherwise.
static KNOWN_TO_NONE: AtomicIsize = AtomicIsize::new(0);

/// `__await__` of such a class.
///
/// # Safety
/// Python calls it with an instance of that class.
unsafe extern "C" fn turn_plain(future: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the class has no subclasses, and its base's base is asyncio's class. All three have the same layout, so
    // this is what assigning to `__class__` does, which Python refuses only because asyncio's class is not made in
    // Python. The instance owns its class, as every instance of a class made at run time does.
    unsafe {
        let class = ffi::Py_TYPE(future);
        let plain = (*(*class).tp_base).tp_base;
        if !may_be_of_a_task(future) {
            if ffi::PyType_HasFeature(plain, ffi::Py_TPFLAGS_HEAPTYPE) != 0 {
                ffi::Py_INCREF(plain.cast());
            }
            // Without a GIL, another thread may read it meanwhile, as Python does: at once.
            AtomicPtr::from_ptr(&raw mut (*future).ob_type).store(plain, Ordering::Release);
            ffi::Py_DECREF(class.cast());
        }
        let awaits = (*(*plain).tp_as_async).am_await;
        awaits.map_or(ptr::null_mut(), |awaits| awaits(future))
    }
}

/// Whether a task may be about to call the future's methods as a coroutine. Who keeps the future in a variable has one
/// more reference; the operation has none any more when the future is done.
///
/// # Safety
/// The future is alive, and the caller holds the GIL.
#[inline]
unsafe fn may_be_of_a_task(future: *mut ffi::PyObject) -> bool {
    // SAFETY: the caller keeps the future alive and holds the GIL, so its count and its state may be read.
    unsafe {
        match ffi::Py_REFCNT(future) - KNOWN_TO_NONE.load(Ordering::Relaxed) {
            ..=0 => false,
            1 => is_done(&Borrowed::from_ptr(Python::assume_attached(), future)).unwrap_or(true),
            _ => true,
        }
    }
}

/// A method that passes for a coroutine function: it takes attributes, as Python's functions do and native ones do not.
///
/// Without a running event loop it returns a coroutine, which calls the method when it is awaited.
#[pyclass(frozen, dict, module = "pinyon._native")]
pub(crate) struct AwaitedMethod {
    vectorcall: ffi::vectorcallfunc,
    calls_native: ffi::vectorcallfunc,
    direct: Option<Direct>,
    /// `None` until it is made: before that, Python makes its dict, which may collect garbage and so visit what is not
    /// there yet. The memory is zero then.
    objects: Option<Objects>,
}

struct Objects {
    native: Py<PyAny>,
    /// The exception of a call without a running loop, and what to call instead, with the method and its arguments.
    no_loop: Py<PyAny>,
    later: Py<PyAny>,
}

/// The function of a native method, and the class whose instances it takes.
#[derive(Clone, Copy)]
struct Direct {
    class: *mut ffi::PyTypeObject,
    function: ffi::PyCFunctionFastWithKeywords,
}

// SAFETY: the class belongs to the method, which is kept. Nothing changes either.
unsafe impl Send for Direct {}
// SAFETY: threads only read what it points to, which never changes.
unsafe impl Sync for Direct {}

impl Direct {
    fn of(native: &Bound<'_, PyAny>) -> Option<Self> {
        // SAFETY: the object is a native method if its class is that of native methods. The function's type is what its
        // flags say.
        unsafe {
            if ffi::Py_TYPE(native.as_ptr()) != &raw mut ffi::PyMethodDescr_Type {
                return None;
            }
            let method = native.as_ptr().cast::<ffi::PyMethodDescrObject>();
            let definition = &*(*method).d_method;
            let takes_both = definition.ml_flags == ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
            let function = definition.ml_meth.PyCFunctionFastWithKeywords;
            takes_both.then_some(Self { class: (*method).d_common.d_type, function })
        }
    }

    /// Whether it takes this instance: its class is a base of the instance's, which decides the layout.
    ///
    /// # Safety
    /// The instance is alive, and the caller holds the GIL.
    #[inline]
    unsafe fn takes(&self, instance: *mut ffi::PyObject) -> bool {
        // SAFETY: the instance is alive, and so is its class; classes refer to their bases. The class is compared only.
        unsafe {
            let mut class = ffi::Py_TYPE(instance);
            while !class.is_null() && class != self.class {
                class = (*class).tp_base;
            }
            !class.is_null()
        }
    }
}

#[pymethods]
impl AwaitedMethod {
    #[new]
    fn new(native: Bound<'_, PyAny>, no_loop: Py<PyAny>, later: Py<PyAny>) -> PyResult<Self> {
        // SAFETY: the object is alive.
        let calls_native = unsafe { ffi::PyVectorcall_Function(native.as_ptr()) };
        let calls_native = calls_native.ok_or_else(|| PyTypeError::new_err("this is no native method"))?;
        let (direct, objects) = (Direct::of(&native), Objects { native: native.unbind(), no_loop, later });
        Ok(Self { vectorcall, calls_native, direct, objects: Some(objects) })
    }

    fn __get__<'py>(
        this: &Bound<'py, Self>,
        instance: Option<&Bound<'py, PyAny>>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(instance) = instance else { return Ok(this.clone().into_any()) };
        // SAFETY: both are alive, and the result is a new reference or null with an exception.
        unsafe { Bound::from_owned_ptr_or_err(this.py(), PyMethod_New(this.as_ptr(), instance.as_ptr())) }
    }

    #[pyo3(signature = (*arguments, **keywords))]
    fn __call__<'py>(
        &self,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.objects().native.bind(arguments.py()).call(arguments, keywords)
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<method {}>", this.getattr("__qualname__")?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(Objects { native, no_loop, later }) = &self.objects else { return Ok(()) };
        [native, no_loop, later].into_iter().try_for_each(|object| visit.call(object))
    }
}

impl AwaitedMethod {
    /// Lets Python call methods of this class without making tuples, and without making bound methods.
    pub(crate) fn prepare(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        let class = py.get_type::<Self>();
        let any = py.get_type::<PyDict>().getattr("get")?;
        let sample = Bound::new(py, Self::new(any, py.None(), py.None())?)?;
        let offset = ptr::from_ref(&sample.get().vectorcall) as usize - sample.as_ptr() as usize;
        // SAFETY: the class is this module's, is not in use yet and has no subclasses. The function's pointer is at the
        // same offset in all its instances.
        unsafe {
            let class = class.as_type_ptr();
            (*class).tp_vectorcall_offset = offset as ffi::Py_ssize_t;
            // PyO3 has a number here, and an atomic one for a Python without a GIL. C's long is as large as a pointer.
            let flags = AtomicUsize::from_ptr((&raw mut (*class).tp_flags).cast());
            let added = ffi::Py_TPFLAGS_HAVE_VECTORCALL | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR;
            flags.fetch_or(added as usize, Ordering::Relaxed);
            ffi::PyType_Modified(class);
        }
        Ok(())
    }

    fn objects(&self) -> &Objects {
        self.objects.as_ref().expect("a method that is called has been made")
    }

    /// What a call returns that failed.
    #[cold]
    fn call_later<'py>(
        &self,
        py: Python<'py>,
        arguments: &[Bound<'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let error = PyErr::take(py).unwrap_or_else(|| PyTypeError::new_err("the method failed without an exception"));
        let Objects { native, no_loop, later } = self.objects();
        if !error.matches(py, no_loop)? {
            return Err(error);
        }
        let (positional, named) = arguments.split_at(arguments.len() - names.map_or(0, |names| names.len()));
        let keywords = PyDict::new(py);
        for (name, value) in names.into_iter().flatten().zip(named) {
            keywords.set_item(name, value)?;
        }
        let called: Vec<_> = iter::once(native.bind(py)).chain(positional).collect();
        later.bind(py).call(PyTuple::new(py, called)?, Some(&keywords))
    }
}

/// Calls a method.
///
/// # Safety
/// Python calls it with an [`AwaitedMethod`] and arguments as its protocol `vectorcall` says.
unsafe extern "C" fn vectorcall(
    method: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the caller holds the GIL, and references to the method and its arguments.
    unsafe {
        let py = Python::assume_attached();
        let this = Borrowed::from_ptr(py, method).cast_unchecked::<AwaitedMethod>();
        let this = this.get();
        let given = ffi::PyVectorcall_NARGS(count);
        let result = match this.direct {
            Some(direct) if given > 0 && direct.takes(*arguments) => {
                (direct.function)(*arguments, arguments.add(1), given - 1, names)
            }
            _ => (this.calls_native)(this.objects().native.as_ptr(), arguments, count, names),
        };
        if !result.is_null() {
            return result;
        }
        let names = Bound::from_borrowed_ptr_or_opt(py, names).map(|names| names.cast_into_unchecked::<PyTuple>());
        let all = given as usize + names.as_ref().map_or(0, |names| names.len());
        let given: Vec<_> = (0..all).map(|at| Bound::from_borrowed_ptr(py, *arguments.add(at))).collect();
        match this.call_later(py, &given, names.as_ref()) {
            Ok(later) => later.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}
