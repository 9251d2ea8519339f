//! Handles to values, and the free list of values.

use super::value::{self, Shared, Value, ValueSource};
use crate::recycle::{FreeList, recycle_up_to, take};
use crate::{Aval, DType};
use std::cell::RefCell;
use std::ops::Deref;
use triomphe::UniqueArc;

/// Largest length of the free list of values, which must hold a graph that is recorded repeatedly.
const MAX_VALUES: usize = 4096;

/// Handle to a value. The value goes to a free list when its last handle is dropped.
pub(crate) struct Handle(Option<Shared>);

thread_local! {
    static VALUES: FreeList<UniqueArc<Value>> = const { RefCell::new(Vec::new()) };
}

impl Handle {
    /// Returns the only handle to a new value.
    pub(crate) fn new(aval: &Aval, source: ValueSource) -> Handle {
        let mut value = value(aval, aval.dtype());
        value.init(source);
        value.into()
    }

    /// Returns the inner handle.
    #[inline]
    pub(crate) fn into_shared(mut self) -> Shared {
        self.0.take().expect(THERE)
    }
}

const THERE: &str = "a handle has its value until it is dropped";

/// Returns an uninitialised value with the shape of `like`.
// Each recorded op runs it. A call would cost more than the body.
#[inline(always)]
pub(crate) fn value(like: &Aval, dtype: DType) -> UniqueArc<Value> {
    let mut value = take(&VALUES).unwrap_or_else(|| UniqueArc::new(Value::empty()));
    value.aval.become_like(like, dtype);
    value
}

/// Adds an empty value to the free list.
#[inline]
pub(crate) fn recycle_value(value: UniqueArc<Value>) {
    recycle_up_to(MAX_VALUES, &VALUES, value);
}

impl From<UniqueArc<Value>> for Handle {
    #[inline]
    fn from(value: UniqueArc<Value>) -> Handle {
        Handle(Some(value.shareable()))
    }
}

impl From<Shared> for Handle {
    fn from(value: Shared) -> Handle {
        Handle(Some(value))
    }
}

impl Deref for Handle {
    type Target = Shared;
    #[inline]
    fn deref(&self) -> &Shared {
        self.0.as_ref().expect(THERE)
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            value::drop_handle(value);
        }
    }
}
