//! Defaults of a thread: the dtype and the device of new tensors.
//!
//! Constructors of tensors take their dtype as an argument. [`dtype`] is an argument that the caller of a
//! function chooses, without passing it on:
//!
//! ```
//! use gradloom::{DType, Tensor, defaults};
//!
//! fn weights() -> Tensor {
//!     Tensor::zeros([2], defaults::dtype())
//! }
//!
//! assert_eq!(weights().dtype(), DType::F32);
//! let wide = defaults::set_dtype(DType::F64);
//! assert_eq!(weights().dtype(), DType::F64);
//! drop(wide);
//! assert_eq!(weights().dtype(), DType::F32);
//! ```
//!
//! A thread begins with `f32`, whatever the default of the thread that started it. A traced function that
//! reads a default is recorded at each call, because its result depends on more than its arguments.

use crate::DType;
use crate::graph::recording;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

/// Place of the elements of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The memory of this process.
    #[default]
    Cpu,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
        }
    }
}

thread_local! {
    /// Defaults that guards have set, the last one last.
    static SET: RefCell<Vec<Setting>> = const { RefCell::new(Vec::new()) };
}

/// Defaults that a guard has set.
#[derive(Clone, Copy)]
struct Setting {
    /// Number of the guard.
    guard: u64,
    dtype: Option<DType>,
    device: Option<Device>,
}

/// Returns what the last guard has set, of those that have set it.
fn last<T>(of: impl Fn(&Setting) -> Option<T>) -> Option<T> {
    let found = SET.try_with(|set| set.borrow().iter().rev().find_map(of));
    found.ok().flatten()
}

/// Returns the default dtype of this thread.
pub fn dtype() -> DType {
    recording::impure_call();
    last(|setting| setting.dtype).unwrap_or(DType::F32)
}

/// Returns the default device of this thread.
///
/// ```
/// assert_eq!(gradloom::defaults::device().to_string(), "cpu");
/// ```
pub fn device() -> Device {
    recording::impure_call();
    last(|setting| setting.device).unwrap_or(Device::Cpu)
}

/// Sets the default dtype of this thread until the guard is dropped, also by a panic.
pub fn set_dtype(dtype: DType) -> DefaultGuard {
    DefaultGuard::new(Some(dtype), None)
}

/// Sets the default device of this thread until the guard is dropped.
pub fn set_device(device: Device) -> DefaultGuard {
    DefaultGuard::new(None, Some(device))
}

/// Takes back the default that it has set. What the last of the other guards has set is the default then.
#[must_use = "the defaults are restored when the guard is dropped"]
#[derive(Debug)]
pub struct DefaultGuard {
    number: u64,
    /// A guard stays on its thread.
    thread: PhantomData<*const ()>,
}

impl DefaultGuard {
    fn new(dtype: Option<DType>, device: Option<Device>) -> DefaultGuard {
        let number = SET.with_borrow_mut(|set| {
            let guard = set.last().map_or(0, |last| last.guard + 1);
            set.push(Setting {
                guard,
                dtype,
                device,
            });
            guard
        });
        DefaultGuard {
            number,
            thread: PhantomData,
        }
    }
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        // Without the list, the thread has ended and so has the setting.
        let _ = SET.try_with(|set| {
            let mut set = set.borrow_mut();
            set.retain(|setting| setting.guard != self.number);
        });
    }
}
