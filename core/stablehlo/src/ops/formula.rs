//! Formulas of `f64` numbers: operators of Rust append the ops.

use crate::text::{Element, Order, Text, Value};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// A value of a formula, or a mask. All values of a formula have one shape.
#[derive(Clone)]
pub(super) struct Term<'f> {
    text: &'f RefCell<Text>,
    value: Value,
}

/// Appends a function of `f64` values of one shape, and rounds its result to the type of the first one.
pub(super) fn formula<const N: usize>(
    t: &mut Text,
    args: [&Value; N],
    f: impl for<'f> FnOnce([Term<'f>; N]) -> Term<'f>,
) -> Value {
    let narrow = args[0].element;
    let args = args.map(|x| t.convert(x, Element::F64));
    let text = RefCell::new(std::mem::replace(t, Text::new()));
    let y = f(args.map(|value| Term { text: &text, value })).value;
    *t = text.into_inner();
    t.convert(&y, narrow)
}

/// A term, or a number in place of one.
pub(super) trait Operand<'f> {
    /// Returns the value in a formula with `like`.
    fn value(&self, like: &Term<'f>) -> Value;
}

impl<'f> Operand<'f> for f64 {
    fn value(&self, like: &Term<'f>) -> Value {
        let shape = &like.value.shape;
        like.text.borrow_mut().full(*self, Element::F64, shape)
    }
}

impl<'f> Operand<'f> for Term<'f> {
    fn value(&self, _: &Term<'f>) -> Value {
        self.value.clone()
    }
}

impl<'f> Operand<'f> for &Term<'f> {
    fn value(&self, _: &Term<'f>) -> Value {
        self.value.clone()
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:literal,)*) => {$(
        impl<'f, Y: Operand<'f>> $trait<Y> for Term<'f> {
            type Output = Term<'f>;
            fn $method(self, y: Y) -> Term<'f> {
                self.binary($op, y)
            }
        }
        impl<'f, Y: Operand<'f>> $trait<Y> for &Term<'f> {
            type Output = Term<'f>;
            fn $method(self, y: Y) -> Term<'f> {
                self.binary($op, y)
            }
        }
        impl<'f> $trait<Term<'f>> for f64 {
            type Output = Term<'f>;
            fn $method(self, y: Term<'f>) -> Term<'f> {
                y.number(self).binary($op, y)
            }
        }
        impl<'f> $trait<&Term<'f>> for f64 {
            type Output = Term<'f>;
            fn $method(self, y: &Term<'f>) -> Term<'f> {
                y.number(self).binary($op, y)
            }
        }
    )*};
}

operators! {
    Add add "add",
    Sub sub "subtract",
    Mul mul "multiply",
    Div div "divide",
    BitAnd bitand "and",
    BitOr bitor "or",
}

impl<'f> Neg for &Term<'f> {
    type Output = Term<'f>;
    fn neg(self) -> Term<'f> {
        self.with(Text::neg)
    }
}

impl<'f> Neg for Term<'f> {
    type Output = Term<'f>;
    fn neg(self) -> Term<'f> {
        -&self
    }
}

impl<'f> Not for &Term<'f> {
    type Output = Term<'f>;
    fn not(self) -> Term<'f> {
        self.unary("not")
    }
}

impl<'f> Not for Term<'f> {
    type Output = Term<'f>;
    fn not(self) -> Term<'f> {
        !&self
    }
}

/// Comparisons, whose results are masks.
macro_rules! comparisons {
    ($($name:ident $order:ident,)*) => {
        impl<'f> Term<'f> {$(
            pub(super) fn $name(&self, y: impl Operand<'f>) -> Term<'f> {
                self.with_operand(y, |t, x, y| t.compare(Order::$order, x, y))
            }
        )*}
    };
}

comparisons! { eq Eq, lt Lt, le Le, gt Gt, ge Ge, }

impl<'f> Term<'f> {
    /// Appends a function of the value.
    pub(super) fn with(&self, f: impl FnOnce(&mut Text, &Value) -> Value) -> Term<'f> {
        let value = f(&mut self.text.borrow_mut(), &self.value);
        let text = self.text;
        Term { text, value }
    }

    /// Appends a function of two values.
    pub(super) fn with_operand(
        &self,
        y: impl Operand<'f>,
        f: impl FnOnce(&mut Text, &Value, &Value) -> Value,
    ) -> Term<'f> {
        let y = y.value(self);
        self.with(|t, x| f(t, x, &y))
    }

    /// Appends a number.
    pub(super) fn number(&self, x: f64) -> Term<'f> {
        let value = x.value(self);
        let text = self.text;
        Term { text, value }
    }

    fn unary(&self, op: &str) -> Term<'f> {
        self.with(|t, x| t.unary(op, x))
    }

    fn binary(&self, op: &str, y: impl Operand<'f>) -> Term<'f> {
        self.with_operand(y, |t, x, y| t.binary(op, x, y))
    }

    pub(super) fn abs(&self) -> Term<'f> {
        self.with(Text::abs)
    }

    pub(super) fn exp(&self) -> Term<'f> {
        self.with(Text::exp)
    }

    pub(super) fn expm1(&self) -> Term<'f> {
        self.unary("exponential_minus_one")
    }

    pub(super) fn log(&self) -> Term<'f> {
        self.with(Text::log)
    }

    pub(super) fn log1p(&self) -> Term<'f> {
        self.unary("log_plus_one")
    }

    pub(super) fn sqrt(&self) -> Term<'f> {
        self.with(Text::sqrt)
    }

    pub(super) fn floor(&self) -> Term<'f> {
        self.unary("floor")
    }

    /// Appends the nearest integer, which is even in a tie.
    pub(super) fn round(&self) -> Term<'f> {
        self.unary("round_nearest_even")
    }

    pub(super) fn pow(&self, y: impl Operand<'f>) -> Term<'f> {
        self.binary("power", y)
    }

    pub(super) fn min(&self, y: impl Operand<'f>) -> Term<'f> {
        self.binary("minimum", y)
    }

    pub(super) fn max(&self, y: impl Operand<'f>) -> Term<'f> {
        self.binary("maximum", y)
    }

    /// Appends a function of the library CHLO.
    pub(super) fn chlo(&self, name: &str) -> Term<'f> {
        self.with(|t, x| t.same(&format!("chlo.{name}"), &[x]))
    }

    /// Appends `x` where this mask is true, and `y` elsewhere.
    pub(super) fn pick(&self, x: impl Operand<'f>, y: impl Operand<'f>) -> Term<'f> {
        let [x, y] = [x.value(self), y.value(self)];
        self.with(|t, mask| t.select(mask, &x, &y))
    }

    /// Appends the value without the last 27 bits of its significand: products of such numbers are exact.
    pub(super) fn leading(&self) -> Term<'f> {
        self.with(|t, x| {
            let bits = t.bitcast(x, Element::I64);
            let mask = t.full_like(-1_i64 << 27, &bits);
            let bits = t.and(&bits, &mask);
            t.bitcast(&bits, Element::F64)
        })
    }
}

/// Appends a loop over `n = 1, 2, ..` up to `turns`. An element takes part as long as it is `going`.
///
/// `step` gets `n`, the constants and the states, and returns the next states and whether to go on. The results are the
/// last states, and which elements have not come to an end.
pub(super) fn repeat<'f, const C: usize, const S: usize>(
    turns: usize,
    going: &Term<'f>,
    consts: [&Term<'f>; C],
    states: [Term<'f>; S],
    step: impl Fn(&Term<'f>, &[Term<'f>; C], &[Term<'f>; S]) -> ([Term<'f>; S], Term<'f>),
) -> ([Term<'f>; S], Term<'f>) {
    let text = going.text;
    let shape = &going.value.shape;
    let axes: Vec<usize> = (0..shape.len()).collect();
    let term = |value: &Value| Term {
        text,
        value: value.clone(),
    };
    let all = consts.iter().copied().chain(&states);
    let all = all.map(|x| x.value.clone());
    // The text of a loop is that of its bodies, too.
    let mut t = text.replace(Text::new());
    let one = t.full(1, Element::F64, &[]);
    let init: Vec<Value> = [one, going.value.clone()].into_iter().chain(all).collect();
    let outs = t.while_loop::<()>(
        &init,
        |t, states| {
            let more = t.compare_to(Order::Le, &states[0], turns);
            let any = t.reduce("or", &states[1], 0, &axes);
            Ok(t.and(&more, &any))
        },
        |t, states| {
            let n = t.spread(&states[0], shape);
            std::mem::swap(t, &mut text.borrow_mut());
            let going = term(&states[1]);
            let consts = std::array::from_fn(|i| term(&states[2 + i]));
            let old = std::array::from_fn(|i| term(&states[2 + C + i]));
            let (new, goes_on) = step(&term(&n), &consts, &old);
            let new = new.iter().zip(&old);
            let new: Vec<Value> = new.map(|(new, old)| going.pick(new, old).value).collect();
            let goes_on = (going & goes_on).value;
            std::mem::swap(t, &mut text.borrow_mut());
            let next = t.plus(&states[0], 1);
            Ok([&[next, goes_on], &states[2..2 + C], &new].concat())
        },
    );
    text.replace(t);
    let outs = outs.unwrap_or_default();
    let states = std::array::from_fn(|i| term(&outs[2 + C + i]));
    (states, term(&outs[1]))
}
