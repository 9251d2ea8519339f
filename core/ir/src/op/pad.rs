use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Poly, Shape, Static, StaticKind};

methods! { pad {
    /// The elements with `value` around them and between them.
    ///
    /// `low[i]` elements are added before axis `i`, `high[i]` after it, and `interior[i]` between
    /// each two elements. One number stands for all axes. A negative `low` or `high` removes elements.
    /// Takes every dtype.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.pad(1, 0, 0, 9.0).to_vec::<f32>(), [9.0, 1.0, 2.0]);
    /// assert_eq!(x.pad([-1], [2], [0], 0.0).to_vec::<f32>(), [2.0, 0.0, 0.0]);
    /// assert_eq!(x.pad(0, 0, 1, 0.0).to_vec::<f32>(), [1.0, 0.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If a list has not one number for each axis, more elements are removed than there are,
    /// `interior` is negative, or the dtype cannot hold the value.
    fn pad(x: Data, low: Static, high: Static, interior: Static, value: Static);
} }

/// `pad[low, high, interior, value] x`: `x` with `value` around its elements and between them.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "pad",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Margins.named("low"),
        StaticKind::Margins.named("high"),
        StaticKind::Margins.named("interior"),
        StaticKind::Fill.named("value"),
    ],
    shape: |statics, args| padded(&args[0].shape, statics),
    dtype: |statics, args| shape::holds(&statics[3], args[0].dtype),
    methods: METHODS,
    // The value is constant, so the tangent is padded with zeros.
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        Some(b.emit(Op::PadZeros, &eqn.attrs[..3], &[dx[0]?, eqn.args[0]]))
    }),
    kernel: Kernel::Pad,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::PADDED).moves(),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = pad[low=[1, 0], high=[0, 2], interior=[0, 1], value=0.5] x return y }",
            "(x: f64[4, 2]) { y = pad[low=[-1, -3], high=[1, 4], interior=[1, 2], value=0.0] x return y }",
            "(x: f64[3]) { y = pad[low=-1, high=-2, interior=0, value=1.0] x return y }",
            "(x: f64[0, 2]) { y = pad[low=1, high=1, interior=1, value=2.0] x return y }",
            "(x: f64[]) { y = pad[low=[], high=[], interior=[], value=2.0] x return y }",
            "(x: i64[3]) { y = pad[low=2, high=[0], interior=0, value=7] x return y }",
            "(x: bool[3]) { y = pad[low=2, high=[0], interior=0, value=true] x return y }",
        ],
    ),
};

/// Returns the numbers of a static argument for each of `rank` axes, or `None` if it is unknown.
pub(super) fn for_axes(
    value: &Static,
    name: &'static str,
    rank: usize,
) -> Result<Option<Vec<i64>>, Fault> {
    match value {
        Static::Int(n) => Ok(Some(vec![*n; rank])),
        Static::Ints(ns) if ns.len() != rank => Err(Fault::Length {
            what: format!("the number of `{name}`"),
            found: ns.len().to_string(),
            expected: format!("{rank}, the number of axes"),
        }),
        Static::Ints(ns) => Ok(Some(ns.clone())),
        _ => Ok(None),
    }
}

/// Returns the shape of a value of shape `x` with padding.
pub(super) fn padded(x: &Shape, statics: &[Static]) -> Result<Shape, Fault> {
    if let Some(n) = statics[2].ints().and_then(|ns| ns.iter().find(|n| **n < 0)) {
        return Err(Static::Int(*n).refused("interior"));
    }
    let Some(dims) = x.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    let rank = dims.len();
    let low = for_axes(&statics[0], "low", rank)?;
    let high = for_axes(&statics[1], "high", rank)?;
    let interior = for_axes(&statics[2], "interior", rank)?;
    let (Some(low), Some(high), Some(interior)) = (low, high, interior) else {
        return Ok(Shape::from(vec![Dim::Unknown; rank]));
    };
    let axis = |(axis, dim): (usize, &Dim)| {
        let around = i128::from(low[axis]) + i128::from(high[axis]);
        let between = i128::from(interior[axis]);
        let len = match dim.known() {
            Some(n) => {
                let n = n as i128;
                Some(Poly::constant(n + around + between * (n - 1).max(0)))
            }
            None if between == 0 => dim.poly().and_then(|n| n.plus(&Poly::constant(around))),
            None => None,
        };
        match len {
            Some(len) if len.is_negative() => Err(Fault::Length {
                what: format!("the length of axis {axis} with its padding"),
                found: len.to_string(),
                expected: "at least 0".into(),
            }),
            // More elements cannot be addressed.
            Some(len) if len.as_constant().is_some_and(|n| n > i128::from(i64::MAX)) => {
                Err(Fault::Overflow {
                    shape: len.to_string(),
                })
            }
            Some(len) => Ok(Dim::from(len)),
            None => Ok(Dim::Unknown),
        }
    };
    let dims: Result<Vec<Dim>, Fault> = dims.iter().enumerate().map(axis).collect();
    Ok(Shape::from(dims?))
}

/// Returns the index of the element at `i` of a padded value, if it is one of the operand's.
pub(super) fn source(of: &Application<'_>, i: &[usize]) -> Option<Vec<usize>> {
    let (low, interior) = (numbers(of, 0), numbers(of, 2));
    let axis = |(axis, i): (usize, &usize)| {
        let (from_first, step) = (*i as i64 - low[axis], interior[axis] + 1);
        let at = usize::try_from(from_first / step).ok()?;
        (from_first >= 0 && from_first % step == 0 && at < of.x().shape[axis]).then_some(at)
    };
    i.iter().enumerate().map(axis).collect()
}

/// Returns the numbers of static argument `at` for each axis.
pub(super) fn numbers(of: &Application<'_>, at: usize) -> Vec<i64> {
    let numbers = for_axes(&of.statics[at], "padding", of.rank()).ok();
    numbers.flatten().expect("the shape rule checks it")
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| source(of, &i).map_or(of.number(3), |i| of.x().get(&i)))
}
