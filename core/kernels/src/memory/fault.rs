//! Errors of kernels.

/// Run-time error of a kernel, caused by the values of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelFault {
    /// A label that is not a class index.
    Label {
        /// Value of the label.
        label: i64,
        /// Number of classes.
        classes: usize,
        /// Position among the labels, in row-major order.
        row: usize,
    },
    /// An index that an axis does not have.
    Index {
        /// Value of the index.
        index: i64,
        /// Length of the axis.
        len: usize,
        /// Position among the indices, in row-major order.
        position: usize,
    },
    /// Integer division by 0.
    DivisionByZero {
        /// Index of the element in the result, in row-major order.
        element: usize,
    },
    /// A kernel that another one runs failed.
    Within {
        /// Op that the user called.
        op: &'static str,
        /// Error of its kernel.
        fault: Box<KernelFault>,
    },
    /// A kernel failed on a simulated device.
    Device {
        /// Number of the device in its mesh.
        device: usize,
        /// Error of the kernel.
        fault: Box<KernelFault>,
    },
    /// A kernel of the user failed.
    Host {
        /// Name of the kernel.
        kernel: String,
        /// Its message.
        message: String,
    },
    /// A result cannot be allocated.
    OutOfMemory {
        /// Size of the result.
        bytes: usize,
    },
}
