//! Arrays of `f64`, in which each op file writes down what the op computes.
//!
//! The function `reference` of an op file is the definition that tests compare kernels with. It is
//! as simple as possible: one index at a time, without regard to speed or rounding. Programs of
//! users do not contain it, see [`Application::evaluate`].

use super::{Op, shape};
use crate::{Aval, DType, Eqn, Program, SecondaryMap, Static, Var};

/// An array in row-major order. Bools are 0 and 1, and integers are exact up to 2^53.
#[derive(Clone, Debug, PartialEq)]
pub struct NdArray {
    /// The lengths of the axes.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: Vec<f64>,
}

/// An op with the operands that it is applied to.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// The op.
    pub op: Op,
    /// The static arguments.
    pub statics: &'a [Static],
    /// The data operands.
    pub args: &'a [NdArray],
    /// The shapes of the like operands.
    pub likes: &'a [Vec<usize>],
    /// The shapes of the results.
    pub outs: &'a [Vec<usize>],
    /// True if the first operand is of bools.
    pub bools: bool,
}

const CHECKED: &str = "the rules of the op accept its operands";

impl<'a> Application<'a> {
    /// Returns the first operand.
    pub(super) fn x(self) -> &'a NdArray {
        &self.args[0]
    }

    /// Returns the second operand.
    pub(super) fn y(self) -> &'a NdArray {
        &self.args[1]
    }

    /// Returns the number of axes of the first operand.
    pub(super) fn rank(self) -> usize {
        self.x().shape.len()
    }

    /// Returns the shape of the first result.
    pub(super) fn out(self) -> &'a [usize] {
        &self.outs[0]
    }

    /// Returns the first result, from the element at each index.
    pub(super) fn build(self, element: impl FnMut(Vec<usize>) -> f64) -> NdArray {
        NdArray::build(self.out(), element)
    }

    /// Returns the first result, with the elements of the first operand in the same order.
    pub(super) fn same_order(self) -> NdArray {
        NdArray {
            shape: self.out().to_vec(),
            data: self.x().data.clone(),
        }
    }

    /// Returns the first result, a sum of products of an element of each of the two operands.
    ///
    /// Each term has three indices. `roles` says which of them are for the operands and the result.
    pub(super) fn sum_of_products(self, terms: Vec<[Vec<usize>; 3]>, roles: [usize; 3]) -> NdArray {
        let mut total = NdArray::zeros(self.out());
        for term in terms {
            let [x, y, z] = roles.map(|role| &term[role]);
            total.add(z, self.x().get(x) * self.y().get(y));
        }
        total
    }

    /// Reduces the first operand over axes, from each row of elements to one number.
    pub(super) fn reduce(self, axes: &[usize], row: impl Fn(&[f64]) -> f64) -> NdArray {
        let x = self.x();
        let data = NdArray::build(&kept(&x.shape, axes), |i| row(&x.row(axes, &i))).data;
        NdArray {
            shape: self.out().to_vec(),
            data,
        }
    }

    /// Returns static argument `i`, an axis of a value of this rank.
    pub(super) fn axis(self, i: usize, rank: usize) -> usize {
        shape::axis(self.int(i), rank).expect(CHECKED)
    }

    /// Returns static argument `i`, axes of a value of this rank, in ascending order.
    pub(super) fn axes(self, i: usize, rank: usize) -> Vec<usize> {
        let axes = shape::axes(&self.statics[i], rank).expect(CHECKED);
        axes.expect(CHECKED)
    }

    /// Returns static argument `i`, a list of axes of a value of this rank, in its order.
    pub(super) fn axes_in_order(self, i: usize, rank: usize) -> Vec<usize> {
        let axes = self.ints(i).iter();
        axes.map(|axis| shape::axis(*axis, rank).expect(CHECKED))
            .collect()
    }

    /// Returns static argument `i`, an integer.
    pub(super) fn int(self, i: usize) -> i64 {
        self.statics[i].int().expect(CHECKED)
    }

    /// Returns static argument `i`, a list of integers.
    pub(super) fn ints(self, i: usize) -> &'a [i64] {
        self.statics[i].ints().expect(CHECKED)
    }

    /// Returns static argument `i`, a truth value.
    pub(super) fn flag(self, i: usize) -> bool {
        self.statics[i].bool().expect(CHECKED)
    }

    /// Returns static argument `i`, a number or a truth value.
    pub(super) fn number(self, i: usize) -> f64 {
        match self.statics[i] {
            Static::Bool(value) => truth(value),
            ref value => value.float().expect(CHECKED),
        }
    }

    /// Applies a function of one number to each element.
    ///
    /// Of an integer that stands for a bool, the lowest bit counts.
    pub(super) fn map<T: Into<f64>>(self, f: impl Fn(f64) -> T) -> Vec<NdArray> {
        let element = |i: Vec<usize>| f(self.x().spread(&i)).into();
        vec![match self.bools {
            true => self.build(|i| truth(element(i) as i64 & 1 == 1)),
            false => self.build(element),
        }]
    }

    /// Applies a function of two numbers to each pair of elements, with broadcasting.
    pub(super) fn zip(self, f: impl Fn(f64, f64) -> f64) -> Vec<NdArray> {
        let [x, y] = [self.x(), self.y()];
        vec![self.build(|i| f(x.spread(&i), y.spread(&i)))]
    }
}

impl NdArray {
    /// Returns an array of this shape, from the element at each index.
    pub fn build(shape: &[usize], element: impl FnMut(Vec<usize>) -> f64) -> NdArray {
        NdArray {
            shape: shape.to_vec(),
            data: indices(shape).into_iter().map(element).collect(),
        }
    }

    /// Returns the shape, with an unknown dtype.
    fn aval(&self) -> Aval {
        Aval {
            dtype: None,
            shape: self.shape.as_slice().into(),
        }
    }

    pub(super) fn zeros(shape: &[usize]) -> NdArray {
        NdArray::build(shape, |_| 0.0)
    }

    fn position(&self, index: &[usize]) -> usize {
        assert_eq!(index.len(), self.shape.len(), "an index has all axes");
        let axes = index.iter().zip(&self.shape);
        axes.fold(0, |at, (i, len)| at * len + i)
    }

    pub(super) fn get(&self, index: &[usize]) -> f64 {
        self.data[self.position(index)]
    }

    pub(super) fn set(&mut self, index: &[usize], x: f64) {
        let at = self.position(index);
        self.data[at] = x;
    }

    pub(super) fn add(&mut self, index: &[usize], x: f64) {
        let at = self.position(index);
        self.data[at] += x;
    }

    /// Returns the element that broadcasting reads for `index` of a larger shape.
    pub fn spread(&self, index: &[usize]) -> f64 {
        self.get(&aligned(&self.shape, index))
    }

    /// Returns the slice at an index of axis 0.
    pub(super) fn slice(&self, i: usize) -> NdArray {
        let shape = self.shape[1..].to_vec();
        let len: usize = shape.iter().product();
        let data = self.data[i * len..][..len].to_vec();
        NdArray { shape, data }
    }

    /// Replaces the slice at an index of axis 0.
    pub(super) fn set_slice(&mut self, i: usize, slice: &NdArray) {
        let len = slice.data.len();
        self.data[i * len..][..len].copy_from_slice(&slice.data);
    }

    /// Returns the elements along `axes` at `index`, whose entries for `axes` are not read.
    pub(super) fn row(&self, axes: &[usize], index: &[usize]) -> Vec<f64> {
        let lens: Vec<usize> = axes.iter().map(|&a| self.shape[a]).collect();
        let mut index = index.to_vec();
        let element = |along: Vec<usize>| {
            for (&axis, i) in axes.iter().zip(along) {
                index[axis] = i;
            }
            self.get(&index)
        };
        indices(&lens).into_iter().map(element).collect()
    }
}

impl From<NdArray> for Vec<NdArray> {
    fn from(array: NdArray) -> Vec<NdArray> {
        vec![array]
    }
}

/// Returns the results of a program, by the definitions of its ops.
///
/// # Panics
///
/// If the rules of an op refuse its operands, or if the program has a call.
pub fn evaluate(program: &Program, args: &[NdArray]) -> Vec<NdArray> {
    evaluate_with(program, args, |_, _| {})
}

/// As [`evaluate`], and applies `change` to each value as soon as it is computed.
///
/// # Panics
///
/// As [`evaluate`].
pub fn evaluate_with(
    program: &Program,
    args: &[NdArray],
    mut change: impl FnMut(Var, &mut NdArray),
) -> Vec<NdArray> {
    let mut values: SecondaryMap<Var, NdArray> = SecondaryMap::new();
    for (&param, mut arg) in program.params.iter().zip(args.iter().cloned()) {
        change(param, &mut arg);
        values.insert(param, arg);
    }
    let value = |values: &SecondaryMap<Var, NdArray>, v: Var| {
        values
            .get(v)
            .expect("a variable is bound before it is read")
            .clone()
    };
    for eqn in &program.eqns {
        let args = eqn.args.iter().map(|v| value(&values, *v)).collect();
        for (&var, mut out) in eqn.outs.iter().zip(eqn_results(program, eqn, args)) {
            change(var, &mut out);
            values.insert(var, out);
        }
    }
    program
        .outs
        .iter()
        .map(|out| value(&values, *out))
        .collect()
}

/// Returns the results of an equation, by the definition of its op. `args` are all operands.
///
/// # Panics
///
/// As [`evaluate`].
pub(super) fn eqn_results(program: &Program, eqn: &Eqn, mut args: Vec<NdArray>) -> Vec<NdArray> {
    let likes = args.split_off(eqn.data().len());
    let attrs = eqn.attrs.iter().map(|attr| program.attr(*attr).clone());
    let statics: Vec<Static> = attrs.collect();
    let avals: Vec<Aval> = args.iter().chain(&likes).map(NdArray::aval).collect();
    let avals: Vec<&Aval> = avals.iter().collect();
    let shapes = eqn.op.def().shape(&statics, &avals, eqn.outs.len());
    let lens = shapes
        .expect(CHECKED)
        .into_iter()
        .map(|shape| shape.known());
    let application = Application {
        op: eqn.op,
        statics: &statics,
        args: &args,
        likes: &likes.into_iter().map(|like| like.shape).collect::<Vec<_>>(),
        outs: &lens
            .collect::<Option<Vec<_>>>()
            .expect("operands have known shapes"),
        bools: eqn
            .args
            .first()
            .is_some_and(|x| program.aval(*x).dtype == Some(DType::Bool)),
    };
    let mut found = application.evaluate();
    for (&var, out) in eqn.outs.iter().zip(&mut found) {
        // Bools are 0 and 1. Quotients and powers of integers lose their fractions, and a zero its
        // sign.
        match program.aval(var).dtype {
            Some(DType::Bool) => out.data.iter_mut().for_each(|x| *x = truth(*x != 0.0)),
            Some(dtype) if dtype.is_integer() => {
                let wrapped = |x: f64| match dtype {
                    DType::I8 => f64::from(x as i64 as i8),
                    DType::U8 => f64::from(x as i64 as u8),
                    _ => x,
                };
                out.data
                    .iter_mut()
                    .for_each(|x| *x = wrapped(x.trunc()) + 0.0);
            }
            _ => {}
        }
    }
    found
}

/// Returns every index of a shape, in row-major order.
pub fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &len in shape {
        all = all
            .iter()
            .flat_map(|head| (0..len).map(move |i| [head.as_slice(), &[i]].concat()))
            .collect();
    }
    all
}

/// Returns the index into `shape` that broadcasting reads for `index` of a larger shape.
pub(super) fn aligned(shape: &[usize], index: &[usize]) -> Vec<usize> {
    let index = index[index.len() - shape.len()..].iter().zip(shape);
    index
        .map(|(&i, &len)| if len == 1 { 0 } else { i })
        .collect()
}

/// Returns a shape with `axes` of length 1.
pub(super) fn kept(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let axis = |(a, &len): (usize, &usize)| if axes.contains(&a) { 1 } else { len };
    shape.iter().enumerate().map(axis).collect()
}

pub(super) fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

pub(super) fn mean(row: &[f64]) -> f64 {
    row.iter().sum::<f64>() / row.len() as f64
}

pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
