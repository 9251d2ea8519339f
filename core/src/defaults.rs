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
use std::cell::Cell;
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
    static DTYPE: Cell<DType> = const { Cell::new(DType::F32) };
    static DEVICE: Cell<Device> = const { Cell::new(Device::Cpu) };
}

/// Returns the default dtype of this thread.
pub fn dtype() -> DType {
    recording::impure_call();
    DTYPE.get()
}

/// Returns the default device of this thread.
///
/// ```
/// assert_eq!(gradloom::defaults::device().to_string(), "cpu");
/// ```
pub fn device() -> Device {
    recording::impure_call();
    DEVICE.get()
}

/// Sets the default dtype of this thread until the guard is dropped, also by a panic.
pub fn set_dtype(dtype: DType) -> DefaultGuard {
    DefaultGuard::new(dtype, device())
}

/// Sets the default device of this thread until the guard is dropped.
pub fn set_device(device: Device) -> DefaultGuard {
    DefaultGuard::new(dtype(), device)
}

/// Restores the defaults that were set before it was made.
///
/// Guards are dropped in the reverse order in which they were made.
#[must_use = "the defaults are restored when the guard is dropped"]
#[derive(Debug)]
pub struct DefaultGuard {
    dtype: DType,
    device: Device,
    /// A guard stays on its thread.
    thread: PhantomData<*const ()>,
}

impl DefaultGuard {
    fn new(dtype: DType, device: Device) -> DefaultGuard {
        DefaultGuard {
            dtype: DTYPE.replace(dtype),
            device: DEVICE.replace(device),
            thread: PhantomData,
        }
    }
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        DTYPE.set(self.dtype);
        DEVICE.set(self.device);
    }
}
