//! Parts of a tensor at indices that a kernel reads: windows.

use crate::memory::data::Base;
use crate::memory::element::Element;
use crate::memory::words::Word;
use crate::memory::{Data, Layout};
use crate::movement::copy::Scatter;
use crate::movement::gather::Gather;
use crate::movement::write::{Write, on_write};
use crate::movement::write_parts;
use crate::simd::number::Number;
use crate::task::Prepared;
use gradloom_ir::DType;

/// Shapes of a tensor and of a window in it.
struct Window {
    /// Length, stride, and length of the window, of each axis of the tensor.
    axes: Vec<(usize, usize, usize)>,
    /// The window at the start of the tensor.
    layout: Layout,
}

impl Window {
    fn new(whole: &[usize], part: &[usize]) -> Window {
        let mut layout = Layout::contiguous(whole);
        let strides = layout.strides.clone();
        for (axis, &len) in part.iter().enumerate() {
            layout = layout.narrow(axis, 0, len, 1);
        }
        let axes = whole.iter().zip(strides).zip(part);
        Window {
            axes: axes.map(|((n, stride), len)| (*n, stride, *len)).collect(),
            layout,
        }
    }

    /// Returns the position of the first element of a window that is not empty.
    ///
    /// Starts count from the end if they are negative, and are moved so that the window fits.
    fn offset(&self, starts: Data<'_>) -> usize {
        let at = |i: usize| match starts {
            Data::I32(starts) => i64::from(starts[i]),
            starts => i64::slice(starts)[i],
        };
        let axes = self.axes.iter().take(starts.len()).enumerate();
        axes.map(|(i, &(n, stride, len))| {
            let start = at(i);
            let start = if start < 0 { start + n as i64 } else { start };
            start.clamp(0, (n - len) as i64) as usize * stride
        })
        .sum()
    }
}

/// Copies a window. The operands are the tensor and the starts of the leading axes.
pub fn read_window(dtype: DType, whole: &[usize], part: &[usize]) -> Prepared {
    fn typed<T: Word>(window: Window) -> Prepared {
        let gather = Gather::new(&window.layout);
        Box::new(move |args, outs| {
            let dtype = outs[0].dtype();
            let out = T::slice_mut(&mut outs[0]);
            if !out.is_empty() {
                let xs = &T::slice(args[0], dtype)[window.offset(args[1])..];
                write_parts(out, 1, |at, out| gather.read(xs, at, out));
            }
            Ok(())
        })
    }
    on_word!(dtype, typed(Window::new(whole, part)))
}

/// Writes a window: among zeros, or onto an operand as `onto` says. It may compute in place.
///
/// The operands are the tensor, if there is one, the starts of the leading axes and the window.
///
/// # Panics
///
/// If bools are combined other than by [`Write::Set`].
pub fn write_window(
    dtype: DType,
    whole: &[usize],
    part: &[usize],
    onto: Option<Write>,
) -> Prepared {
    fn typed<T: Element>(
        window: Window,
        onto: bool,
        by: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
    ) -> Prepared {
        let scatter = Scatter::new(&window.layout);
        Box::new(move |args, outs| {
            let out = T::slice_mut(&mut outs[0]);
            let (base, rest) = match onto {
                true => (Base::of(args[0]), &args[1..]),
                false => (Base::Zeros, args),
            };
            write_parts(out, 1, |at, out| base.start(at, out));
            let ys = T::slice(rest[1]);
            if !ys.is_empty() {
                scatter.combine(ys, &mut out[window.offset(rest[0])..], by);
            }
            Ok(())
        })
    }
    let (window, by) = (Window::new(whole, part), onto.unwrap_or(Write::Set));
    on_write!(dtype, by, typed(window, onto.is_some()))
}

/// Writes the second operand to the elements that `to` selects of the first. It may compute in place.
///
/// # Panics
///
/// If bools are combined other than by [`Write::Set`].
pub fn write_slice(dtype: DType, to: &Layout, by: Write) -> Prepared {
    fn typed<T: Element>(
        scatter: Scatter,
        by: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
    ) -> Prepared {
        Box::new(move |args, outs| {
            let out = T::slice_mut(&mut outs[0]);
            let base = Base::of(args[0]);
            write_parts(out, 1, |at, out| base.start(at, out));
            scatter.combine(T::slice(args[1]), out, by);
            Ok(())
        })
    }
    on_write!(dtype, by, typed(Scatter::new(to)))
}
