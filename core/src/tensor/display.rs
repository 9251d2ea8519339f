//! How tensors print.

use super::Tensor;
use crate::buffer::Buffer;
use std::fmt::{self, Write};

/// More elements than this are cut.
const MANY: usize = 1000;

/// How many indices stand at each end of an axis that is cut.
const EDGE: usize = 3;

/// Prints the aval and the elements: `f32[2, 2] [[1, 2], [3, 4]]`. Long axes of large tensors are cut with `...`;
/// `{:#}` cuts nothing, and a precision applies to each float.
///
/// What has not been computed yet is computed now; where that fails, the error stands for the elements.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.aval())?;
        match self.buffer() {
            Err(error) => write!(f, "<{error}>"),
            Ok(buffer) => {
                let cut = self.numel() > MANY && !f.alternate();
                write_axis(f, &buffer, self.shape(), 0, cut)
            }
        }
    }
}

/// Prints the elements from `start` on that `shape` says. The depth of the recursion is the rank.
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
        (Buffer::I32(xs), _) => write!(f, "{}", xs[i]),
        (Buffer::I64(xs), _) => write!(f, "{}", xs[i]),
        (Buffer::Bool(xs), _) => write!(f, "{}", xs[i]),
    }
}
