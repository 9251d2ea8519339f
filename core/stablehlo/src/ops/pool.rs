//! Pooling: sums and greatest elements of windows that slide along the last axes.

use crate::equation::Equation;
use crate::text::{Element, Margin, Number, Order, Text, Value};
use gradloom_ir::op::windows::{WindowAxis, pool_axes};

/// The windows of a pooling op, with an entry for each axis of the operand.
struct Windows {
    axes: Vec<WindowAxis>,
}

impl Windows {
    /// Returns the windows from shape `x` to shape `y`.
    fn new(of: &Equation<'_>, x: &[usize], y: &[usize]) -> Windows {
        let last = pool_axes(&of.statics, x, y);
        let leading = x[..x.len() - last.len()].iter().map(|len| WindowAxis {
            len: *len,
            count: *len,
            ..WindowAxis::UNIT
        });
        Windows {
            axes: leading.chain(last).collect(),
        }
    }

    /// Returns the length of an axis up to the end of its last window.
    fn extent(a: &WindowAxis) -> usize {
        match a.count {
            0 => 0,
            n => (n - 1) * a.stride + a.window,
        }
    }

    /// Returns `sign` times the padding, up to the ends of the last windows.
    fn margins(&self, sign: i64) -> Vec<Margin> {
        let margin = |a: &WindowAxis| Margin {
            low: sign * a.before,
            high: sign * (Windows::extent(a) as i64 - a.len as i64 - a.before),
            interior: 0,
        };
        self.axes.iter().map(margin).collect()
    }

    /// Appends `x` with its padding, up to the ends of the last windows.
    fn padded(&self, t: &mut Text, x: &Value, n: impl Into<Number>) -> Value {
        t.pad(x, n, &self.margins(1))
    }

    /// Appends the tensor from which [`padded`](Windows::padded) made `x`.
    fn cropped(&self, t: &mut Text, x: &Value) -> Value {
        t.pad(x, 0, &self.margins(-1))
    }

    fn lens(&self) -> [Vec<usize>; 2] {
        [
            self.axes.iter().map(|a| a.window).collect(),
            self.axes.iter().map(|a| a.stride).collect(),
        ]
    }

    /// Returns the indices of the elements of a window, in row-major order.
    fn taps(&self) -> Vec<Vec<usize>> {
        let lens: Vec<usize> = self.axes.iter().map(|a| a.window).collect();
        gradloom_ir::op::indices(&lens)
    }

    /// Appends the element `tap` of each window of a padded value.
    fn at(&self, t: &mut Text, x: &Value, tap: &[usize]) -> Value {
        let range =
            |(a, tap): (&WindowAxis, &usize)| [*tap, tap + (a.count - 1) * a.stride + 1, a.stride];
        let ranges: Vec<[usize; 3]> = self.axes.iter().zip(tap).map(range).collect();
        t.slice(x, &ranges)
    }

    /// Appends a value for each window at the place of its element `tap`, in a padded value of zeros.
    fn place(&self, t: &mut Text, y: &Value, tap: &[usize]) -> Value {
        let margin = |(a, tap): (&WindowAxis, &usize)| Margin {
            low: *tap as i64,
            high: a.window as i64 - 1 - *tap as i64,
            interior: a.stride as i64 - 1,
        };
        let margins: Vec<Margin> = self.axes.iter().zip(tap).map(margin).collect();
        t.pad(y, 0, &margins)
    }
}

/// Appends the sums over windows, divided by the number of elements of a window if they are means.
fn divided(t: &mut Text, of: &Equation<'_>, total: Value) -> Value {
    if !of.flag(3) {
        return total;
    }
    let n: i64 = of.ints(0).iter().product();
    let n = t.full_like(n, &total);
    t.div(&total, &n)
}

pub(super) fn sum_pool(t: &mut Text, of: &Equation<'_>) -> Value {
    if of.shape().contains(&0) {
        return t.full(0, of.out().element, of.shape());
    }
    let windows = Windows::new(of, &of.x().shape, of.shape());
    let x = windows.padded(t, of.x(), 0);
    let [window, strides] = windows.lens();
    let total = t.reduce_window(&x, 0, [&window, &strides], Text::add);
    divided(t, of, total)
}

/// Each element counts for all of its window: a sum over reversed windows of elements `stride` apart.
pub(super) fn sum_pool_t(t: &mut Text, of: &Equation<'_>) -> Value {
    let (y, x) = (of.x(), of.shape());
    if y.numel() == 0 || x.contains(&0) {
        return t.full(0, of.out().element, x);
    }
    let windows = Windows::new(of, x, &y.shape);
    let y = divided(t, of, y.clone());
    let margin = |a: &WindowAxis| Margin {
        low: a.window as i64 - 1,
        high: a.window as i64 - 1,
        interior: a.stride as i64 - 1,
    };
    let margins: Vec<Margin> = windows.axes.iter().map(margin).collect();
    let spread = t.pad(&y, 0, &margins);
    let [window, _] = windows.lens();
    let total = t.reduce_window(&spread, 0, [&window, &vec![1; x.len()]], Text::add);
    windows.cropped(t, &total)
}

pub(super) fn max_pool(t: &mut Text, of: &Equation<'_>) -> Value {
    let least = of.x().element.least();
    if of.shape().contains(&0) || of.x().numel() == 0 {
        return t.full(least, of.out().element, of.shape());
    }
    let windows = Windows::new(of, &of.x().shape, of.shape());
    let x = windows.padded(t, of.x(), least);
    let [window, strides] = windows.lens();
    t.reduce_window(&x, least, [&window, &strides], Text::max)
}

/// Appends the number of the element that each window takes of `x`: the first NaN or the first greatest one.
/// It is -1 if all elements are in the padding.
fn taken(t: &mut Text, windows: &Windows, x: &Value) -> Value {
    let inside = t.full(1, Element::I1, &x.shape);
    let inside = windows.padded(t, &inside, 0);
    let x = windows.padded(t, x, x.element.least());
    let mut found: Option<(Value, Value)> = None;
    for (i, tap) in windows.taps().iter().enumerate() {
        let element = windows.at(t, &x, tap);
        let is_inside = windows.at(t, &inside, tap);
        let number = t.full(i, Element::I32, &element.shape);
        let (number, element) = match found {
            None => {
                let none = t.full_like(-1, &number);
                (t.select(&is_inside, &number, &none), element)
            }
            Some((before, best)) => {
                let none = t.compare_to(Order::Lt, &before, 0);
                let greater = t.compare(Order::Gt, &element, &best);
                let mut wins = t.or(&none, &greater);
                if element.element.is_float() {
                    let is_nan = t.is_nan(&element);
                    let was_number = t.compare(Order::Eq, &best, &best);
                    let is_first = t.and(&is_nan, &was_number);
                    wins = t.or(&wins, &is_first);
                }
                let wins = t.and(&wins, &is_inside);
                (
                    t.select(&wins, &number, &before),
                    t.select(&wins, &element, &best),
                )
            }
        };
        found = Some((number, element));
    }
    found.expect("a window has an element").0
}

/// Operands: `v, x`.
pub(super) fn max_pool_jvp(t: &mut Text, of: &Equation<'_>) -> Value {
    let (v, x) = (of.x(), of.y());
    if of.shape().contains(&0) || x.numel() == 0 {
        return t.full(0, of.out().element, of.shape());
    }
    let windows = Windows::new(of, &x.shape, of.shape());
    let taken = taken(t, &windows, x);
    let v = windows.padded(t, v, 0);
    let mut y = t.full(0, v.element, of.shape());
    for (i, tap) in windows.taps().iter().enumerate() {
        let element = windows.at(t, &v, tap);
        let is_taken = t.compare_to(Order::Eq, &taken, i);
        y = t.select(&is_taken, &element, &y);
    }
    y
}

/// Operands: `v, x`.
pub(super) fn max_pool_vjp(t: &mut Text, of: &Equation<'_>) -> Value {
    let (v, x) = (of.x(), of.y());
    if v.numel() == 0 || x.numel() == 0 {
        return t.full(0, of.out().element, of.shape());
    }
    let windows = Windows::new(of, &x.shape, &v.shape);
    let taken = taken(t, &windows, x);
    let zero = t.full_like(0, v);
    let mut total: Option<Value> = None;
    for (i, tap) in windows.taps().iter().enumerate() {
        let is_taken = t.compare_to(Order::Eq, &taken, i);
        let element = t.select(&is_taken, v, &zero);
        let placed = windows.place(t, &element, tap);
        total = Some(match total {
            None => placed,
            Some(total) => t.add(&total, &placed),
        });
    }
    windows.cropped(t, &total.expect("a window has an element"))
}
