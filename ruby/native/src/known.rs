//! Objects of the extension's own types, found without calling Ruby.
//!
//! Magnus asks Ruby for the type, inside `protect`: that takes 200 instructions for each receiver.

use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering};

use magnus::rb_sys::AsRawValue;
use magnus::{Error, TryConvert, TypedData, Value};
use rb_sys::{ruby_value_type, RB_TYPE_P, RTYPEDDATA_GET_DATA, RTYPEDDATA_P, RTYPEDDATA_TYPE};

/// Ruby's description of a type, once it is known.
pub(crate) type KnownType = AtomicPtr<rb_sys::rb_data_type_t>;

/// A type whose objects are looked up often.
pub(crate) trait Frequent: TypedData {
    fn known_type() -> &'static KnownType;
}

/// An object as an argument or a receiver. As with any reference that magnus makes of an object, the caller's stack keeps
/// the object alive.
pub(crate) struct This<T: 'static>(&'static T);

impl<T> Deref for This<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: Frequent> TryConvert for This<T> {
    #[inline]
    fn try_convert(value: Value) -> Result<Self, Error> {
        let object = value.as_raw();
        // SAFETY: the type of any value may be asked for. The other questions are asked of an object of typed data only.
        // Magnus has checked that an object with this description of its type holds a `T`.
        unsafe {
            let is_typed = RB_TYPE_P(object, ruby_value_type::RUBY_T_DATA) && RTYPEDDATA_P(object);
            if is_typed && RTYPEDDATA_TYPE(object) == T::known_type().load(Ordering::Relaxed) {
                return Ok(Self(&*RTYPEDDATA_GET_DATA(object).cast::<T>()));
            }
        }
        first(value).map(Self)
    }
}

/// Has magnus check the object, and remembers its type.
#[cold]
fn first<T: Frequent>(value: Value) -> Result<&'static T, Error> {
    let object = <&T>::try_convert(value)?;
    // SAFETY: magnus has checked that it is an object of typed data.
    let known = unsafe { RTYPEDDATA_TYPE(value.as_raw()) };
    T::known_type().store(known.cast_mut(), Ordering::Relaxed);
    Ok(object)
}
