use super::axes::{Axes, AxesOf, Axis};
use super::lanes::Lane;
use super::nd_array::{Application, NdArray};
use super::{
    AxesRule, Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, lanes, shape,
};
use crate::{Builder, DType, Eqn, Fault, Op, Shape, Var};

methods! { searchsorted {
    /// For each of `values`, the first index at which it keeps an ascending vector sorted, as `i64`.
    ///
    /// It is the number of elements that are less. If the elements are not in ascending order, it is any index
    /// or the length of the vector. NaN is the greatest. `x` can also be vectors along its last axis: then its other axes are
    /// the first ones of `values`. It has no derivative.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 4.0]);
    /// let places = x.searchsorted(&Tensor::from([2.0f32, 9.0]));
    /// assert_eq!(places.to_vec::<i64>(), [1, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `x` has rank 0, if its axes but the last are not the first ones of `values`, if the dtypes differ, or if they are
    /// `bool`.
    fn searchsorted(x: Data, values: Data);
} }

const AXES: AxesRule = AxesRule {
    signature,
    batch: |b, of| match (of.args[0].is_each(), of.rank(of.eqn.args[0])?) {
        // All lanes search one vector.
        (false, 1) => {
            let (x, values) = (of.args[0].var(), of.each(b, 1)?);
            Some(vec![Lane::Each(b.emit(
                Op::Searchsorted,
                &[],
                &[x, values],
            ))])
        }
        _ => lanes::leading(b, of),
    },
};

/// The axes of the values are those of the result. The vectors share the first ones.
fn signature(of: &AxesOf<'_>) -> Option<Axes> {
    let [x, values] = of.data[..] else {
        return None;
    };
    let factors = |n: usize| (0..n).map(Axis::Factor);
    let vectors = factors(x.len() - 1).chain([Axis::Own]).collect();
    let values: Vec<Axis> = factors(values.len()).collect();
    Some(Axes {
        operands: vec![vectors, values.clone()],
        likes: Vec::new(),
        results: vec![values],
    })
}

/// `searchsorted x, values`: the number of elements of the vector that are less than each value, as `i64`.
///
/// The vectors are in ascending order along the last axis of `x`. Its other axes are the first ones of the values.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "searchsorted",
    operands: Operands::Fixed(2, 0),
    statics: &[],
    shape: |_, args| searched(&args[0].shape, &args[1].shape),
    dtype: |_, args| {
        shape::number(shape::same_dtypes(args)?, true)?;
        Ok(Some(DType::I64))
    },
    methods: METHODS,
    rule: NonlinearRule::Zero("an index has no derivative"),
    kernel: Kernel::Searchsorted,
    count: Count::each(10, 0),
    facts: OpFacts::composite(AXES, decompose),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[3], v: f64[4]) { y = searchsorted x, v return y }",
            "(x: f64[0], v: f64[4]) { y = searchsorted x, v return y }",
            "(x: f64[3], v: f64[]) { y = searchsorted x, v return y }",
            "(x: f64[3], v: f64[2, 0]) { y = searchsorted x, v return y }",
            "(x: f64[2, 3], v: f64[2]) { y = searchsorted x, v return y }",
            "(x: i64[2, 5], v: i64[2, 3, 2]) { y = searchsorted x, v return y }",
        ],
    ),
};

/// Returns the shape of the values, whose first axes must be those of the vectors.
fn searched(x: &Shape, values: &Shape) -> Result<Shape, Fault> {
    let Some(x) = x.dims() else {
        return Ok(values.clone());
    };
    let Some((_, outer)) = x.split_last() else {
        return Err(Fault::Rank {
            found: 0,
            expected: "at least 1".into(),
        });
    };
    let Some(dims) = values.dims() else {
        return Ok(values.clone());
    };
    if dims.len() < outer.len() {
        return Err(Fault::Rank {
            found: x.len(),
            expected: format!(
                "at most {}, one more than that of the values",
                dims.len() + 1
            ),
        });
    }
    let met = shape::first_axes(outer, dims, "the values")?;
    let rest = dims[outer.len()..].iter().copied();
    Ok(Shape(Some(met.chain(rest).collect())))
}

/// Compares each value with each element.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let (x, values) = (eqn.args[0], eqn.args[1]);
    let rank = |b: &Builder, var: Var| Some(b.aval(var).shape.dims()?.len() as i64);
    let (vectors, all) = (rank(b, x)?, rank(b, values)?);
    let middle: Vec<i64> = (vectors - 1..all).collect();
    let (middle, last, no) = (b.attr(middle), b.attr(-1), b.attr(false));
    let (end, index) = (b.attr(vec![all]), b.attr(DType::I64));
    let x = b.emit(Op::Unsqueeze, &[middle], &[x]);
    let values = b.emit(Op::Unsqueeze, &[end], &[values]);
    let less = b.emit(Op::Lt, &[], &[x, values]);
    // NaN is the last of the sorted elements, and differs from itself.
    let number = b.emit(Op::Eq, &[], &[x, x]);
    let nan = b.emit(Op::Ne, &[], &[values, values]);
    let before_nan = b.emit(Op::BitAnd, &[], &[number, nan]);
    let less = b.emit(Op::BitOr, &[], &[less, before_nan]);
    let less = b.emit(Op::Cast, &[index], &[less, less]);
    Some(vec![b.sum(less, less, last, no)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let (x, outer) = (of.x(), of.x().shape.len() - 1);
    of.build(|i| {
        let value = of.y().get(&i);
        let first = [&i[..outer], &[0]].concat();
        let is_less = |x: &&f64| !x.is_nan() && (**x < value || value.is_nan());
        x.row(&[outer], &first).iter().filter(is_less).count() as f64
    })
}
