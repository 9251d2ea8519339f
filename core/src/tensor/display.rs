//! `Display` for tensors.

use super::Tensor;
use gradloom_kernels::memory::Buffer;
use std::fmt::{self, Write};

/// Number of elements above which long axes are abbreviated.
const MANY: usize = 1000;

/// Number of indices shown at each end of an abbreviated axis.
const EDGE: usize = 3;

/// Prints the aval and the elements: `f32[2, 2] [[1, 2], [3, 4]]`.
///
/// A batch prefix stands before a bar: `f32[2 | 2] [[1, 2], [3, 4]]`.
///
/// Long axes of large tensors are abbreviated with `...`. The alternate form `{:#}` prints all
/// elements, and a precision applies to each float.
///
/// Printing computes a promise. If that fails, the error is printed in place of the elements.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.aval())?;
        match self.buffer() {
            Err(error) => write!(f, "<{error}>"),
            Ok(buffer) => {
                let cut = buffer.len() > MANY && !f.alternate();
                write_axis(f, &buffer, self.physical_shape(), 0, cut)
            }
        }
    }
}

/// Prints the elements of `shape` from offset `start` on. The depth of the recursion is the rank.
fn write_axis(
    f: &mut fmt::Formatter<'_>,
    buffer: &Buffer,
    shape: &[usize],
    start: usize,
    cut: bool,
) -> fmt::Result {
    let Some((&len, rest)) = shape.split_first() else {
        return write_element(f, buffer, start);
    };
    let stride: usize = rest.iter().product();
    f.write_char('[')?;
    let mut i = 0;
    while i < len {
        if i > 0 {
            f.write_str(", ")?;
        }
        if cut && len > 2 * EDGE && i == EDGE {
            f.write_str("...")?;
            i = len - EDGE;
            continue;
        }
        write_axis(f, buffer, rest, start + i * stride, cut)?;
        i += 1;
    }
    f.write_char(']')
}

fn write_element(f: &mut fmt::Formatter<'_>, buffer: &Buffer, i: usize) -> fmt::Result {
    let precision = f.precision();
    match (buffer, precision) {
        (Buffer::F32(xs), Some(p)) => write!(f, "{:.p$}", xs[i]),
        (Buffer::F64(xs), Some(p)) => write!(f, "{:.p$}", xs[i]),
        (Buffer::F32(xs), None) => write!(f, "{}", xs[i]),
        (Buffer::F64(xs), None) => write!(f, "{}", xs[i]),
        (Buffer::BF16(xs), Some(p)) => write!(f, "{:.p$}", xs[i]),
        (Buffer::F16(xs), Some(p)) => write!(f, "{:.p$}", xs[i]),
        (Buffer::BF16(xs), None) => write!(f, "{}", xs[i]),
        (Buffer::F16(xs), None) => write!(f, "{}", xs[i]),
        (Buffer::I32(xs), _) => write!(f, "{}", xs[i]),
        (Buffer::I64(xs), _) => write!(f, "{}", xs[i]),
        (Buffer::I8(xs), _) => write!(f, "{}", xs[i]),
        (Buffer::U8(xs), _) => write!(f, "{}", xs[i]),
        (Buffer::Bool(xs), _) => write!(f, "{}", xs[i]),
    }
}
