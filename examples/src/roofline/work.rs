//! Work of a program: the bytes that it has to move and the operations that it has to do, and the time that the
//! limits of the machine allow for it.

use super::limits::{Limits, Machine, Place};
use gradloom::DType;
use gradloom_ir::cost::{bytes, of_eqn};
use gradloom_ir::op::Count;
use gradloom_ir::{Eqn, Op, Program, Var, pass};
use std::collections::BTreeMap;

/// Function that is not arithmetic, and the dtype of its elements.
pub(super) type Function = (Op, DType);

/// Work of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes of the arguments that have to be read, once.
    pub read: f64,
    /// Bytes of the results.
    pub written: f64,
    /// Operations of products and convolutions, two for each multiply-add.
    pub products: f64,
    /// Other additions, multiplications and comparisons.
    pub operations: f64,
    /// Number of elements of each function that is not arithmetic, in each dtype.
    pub(super) functions: BTreeMap<Function, f64>,
}

/// Limit that is reached last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The bandwidth of a place.
    Bytes(Place),
    /// The peak of multiply-adds.
    Products,
    /// Half of that peak, for operations that are not multiply-adds.
    Operations,
    /// The time of functions such as `exp`, measured on contiguous elements in the first cache.
    Functions,
}

impl Bound {
    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Bytes(Place::L1) => "bytes of l1",
            Bound::Bytes(Place::L2) => "bytes of l2",
            Bound::Bytes(Place::L3) => "bytes of l3",
            Bound::Bytes(Place::Memory) => "bytes of memory",
            Bound::Products => "products",
            Bound::Operations => "operations",
            Bound::Functions => "functions",
        }
    }
}

impl Work {
    /// Returns the work of a program after its simplification.
    ///
    /// The arguments at the positions `whole` are read as a whole, because the elements that are not read share lines
    /// with those that are.
    pub fn of(program: &Program, whole: &[usize]) -> Work {
        let whole: Vec<Var> = whole.iter().map(|i| program.params[*i]).collect();
        let program = pass::to_plan(program.clone());
        let mut work = Work::default();
        for eqn in &program.eqns {
            work.add(&program, eqn);
        }
        for param in &program.params {
            let size = size(&program, *param);
            let demand = demand(&program, *param);
            work.read += match whole.contains(param) && demand > 0.0 {
                true => size,
                false => demand,
            };
        }
        let is_computed = |y: &&Var| !program.params.contains(y);
        let outs = program.outs.iter().filter(is_computed);
        work.written = outs.map(|y| size(&program, *y)).sum();
        work
    }

    fn add(&mut self, program: &Program, eqn: &Eqn) {
        let cost = of_eqn(program, eqn);
        let number = |poly: Option<gradloom_ir::Poly>| {
            poly.and_then(|poly| poly.as_constant()).unwrap_or(0) as f64
        };
        let (flops, functions) = (number(cost.flops), number(cost.transcendentals));
        let def = eqn.op.def();
        let values = eqn.outs.iter().chain(eqn.data());
        let mut dtypes = values.filter_map(|x| program.aval(*x).dtype);
        let dtype = dtypes.find(|dtype| dtype.is_float()).unwrap_or(DType::F32);
        if functions > 0.0 && def.facts().elementwise {
            let elements = program.aval(eqn.out()).shape.elements();
            *self.functions.entry((eqn.op, dtype)).or_default() += number(elements);
            return;
        }
        if functions > 0.0 {
            *self.functions.entry((Op::Exp, dtype)).or_default() += functions;
        }
        match def.count() {
            Count::Product
            | Count::Convolution { .. }
            | Count::Attention { .. }
            | Count::Factors => self.products += flops,
            _ => self.operations += flops,
        }
    }

    /// Returns the bytes that are read and written.
    pub fn bytes(&self) -> f64 {
        self.read + self.written
    }

    /// Returns the least time in seconds, and the limit that gives it.
    ///
    /// `function` returns the seconds of a function for an element.
    pub(super) fn least_seconds(
        &self,
        (machine, limits): (&Machine, &Limits),
        dtype: DType,
        mut function: impl FnMut(Function) -> f64,
    ) -> (f64, Bound) {
        let place = machine.place_of(self.bytes() as usize, limits.threads);
        let moved = limits.bandwidth(place).seconds(self.read, self.written);
        let products = self.products / limits.peak(dtype);
        let operations = 2.0 * self.operations / limits.peak(dtype);
        let functions = self.functions.iter().map(|(of, n)| n * function(*of));
        let functions: f64 = functions.sum();
        let functions = functions / limits.threads as f64;
        let computed = products + operations + functions;
        let bound = match computed {
            _ if moved >= computed => Bound::Bytes(place),
            _ if functions >= products.max(operations) => Bound::Functions,
            _ if products >= operations => Bound::Products,
            _ => Bound::Operations,
        };
        (moved.max(computed), bound)
    }
}

/// Returns the size of a value in bytes.
fn size(program: &Program, var: Var) -> f64 {
    let size = bytes(program.aval(var)).and_then(|poly| poly.as_constant());
    size.expect("programs that are measured have known shapes") as f64
}

/// Returns how many bytes of a value are read: all, or those of its views.
fn demand(program: &Program, var: Var) -> f64 {
    let mut total = 0.0;
    for eqn in program.eqns.iter().filter(|eqn| eqn.data().contains(&var)) {
        total += match eqn.op.is_view() {
            true => eqn.outs.iter().map(|y| demand(program, *y)).sum(),
            false => size(program, var),
        };
    }
    if program.outs.contains(&var) && !program.params.contains(&var) {
        total += size(program, var);
    }
    total.min(size(program, var))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(text: &str) -> Work {
        Work::of(&text.parse().expect(text), &[])
    }

    #[test]
    fn arguments_are_read_once_and_only_where_a_view_reads_them() {
        let sum = work(
            "(x: f32[8, 4]) {
                y = slice[starts=[2], stops=[4], steps=[1]] x, like x
                z = sum[axes=[1], keepdims=false] y, like y
                return z
            }",
        );
        assert_eq!((sum.read, sum.written, sum.operations), (32.0, 8.0, 8.0));
        let square = work("(x: f32[8]) { y = mul x, x return y }");
        assert_eq!((square.read, square.written), (32.0, 32.0));
    }

    #[test]
    fn a_value_that_is_not_read_costs_nothing() {
        let work = work("(x: f32[8], y: f32[8]) { z = exp y w = mul x, x return w }");
        assert_eq!((work.read, work.written), (32.0, 32.0));
        assert!(work.functions.is_empty());
    }

    #[test]
    fn functions_count_by_op_and_products_twice() {
        let row = work("(x: f32[4, 8]) { y = softmax[axis=1] x z = tanh y return z }");
        assert_eq!(
            row.functions,
            BTreeMap::from([
                ((Op::Exp, DType::F32), 32.0),
                ((Op::Tanh, DType::F32), 32.0)
            ])
        );
        let product =
            work("(x: f32[4, 8], y: f32[8, 2]) { z = matmul x, y, like x, like y return z }");
        assert_eq!(product.products, 128.0);
    }
}
