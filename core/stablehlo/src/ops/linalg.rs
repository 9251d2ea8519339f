//! Linear algebra, as loops over the columns of all matrices of a batch at once.

use super::movement::diagonal_mask;
use super::order::sorted;
use super::reduce::first_best;
use crate::equation::Equation;
use crate::text::{Contraction, Element, Order, Text, Triangle, Value};
use gradloom_ir::op::Form;

/// Appends `x` as `[matrices, rows, columns]`.
fn batched(t: &mut Text, x: &Value) -> Value {
    let (lead, matrix) = x.shape.split_at(x.rank() - 2);
    let shape = [&[lead.iter().product()], matrix].concat();
    t.reshape(x, &shape)
}

/// Appends the matrix product of each pair of matrices over axis `a` of the first and `b` of the second.
fn product(t: &mut Text, x: &Value, y: &Value, a: usize, b: usize) -> Value {
    let of = Contraction {
        batch: [&[0], &[0]],
        contracted: [&[a], &[b]],
    };
    t.dot(x, y, &of)
}

/// Appends column `k` of each matrix.
fn column(t: &mut Text, x: &Value, k: &Value) -> Value {
    let zero = t.full(0, Element::I64, &[]);
    let lens = [x.shape[0], x.shape[1], 1];
    let part = t.dynamic_slice(x, &[zero.clone(), zero, k.clone()], &lens);
    t.reshape(&part, &lens[..2])
}

/// Appends row `k` of each matrix.
fn row(t: &mut Text, x: &Value, k: &Value) -> Value {
    let zero = t.full(0, Element::I64, &[]);
    let lens = [x.shape[0], 1, x.shape[2]];
    let part = t.dynamic_slice(x, &[zero.clone(), k.clone(), zero], &lens);
    t.reshape(&part, &[lens[0], lens[2]])
}

/// Appends identity matrices.
fn identities(t: &mut Text, element: Element, shape: &[usize]) -> Value {
    let mask = diagonal_mask(t, Order::Eq, 0, shape);
    t.convert(&mask, element)
}

/// Appends the diagonals of square matrices.
fn diagonals(t: &mut Text, x: &Value) -> Value {
    let mask = diagonal_mask(t, Order::Eq, 0, &x.shape);
    let zero = t.full_like(0, x);
    let only = t.select(&mask, x, &zero);
    t.reduce("add", &only, 0, &[2])
}

/// Appends `x` with elements that a mask does not have as 0.
fn only(t: &mut Text, mask: &Value, x: &Value) -> Value {
    let zero = t.full_like(0, x);
    t.select(mask, x, &zero)
}

/// The result of elimination with pivots.
struct Eliminated {
    /// Upper triangular matrices. The elements below the diagonal are not read.
    upper: Value,
    right: Value,
    /// The sign of the permutation of each matrix.
    sign: Value,
}

/// Appends the elimination below the diagonals of `a`, which also changes `b`.
fn eliminate(t: &mut Text, a: &Value, b: &Value) -> Eliminated {
    let (matrices, n) = (a.shape[0], a.shape[1]);
    let sign = t.full(1, a.element, &[matrices]);
    let init = [a.clone(), b.clone(), sign];
    let outs = t.turns::<()>(n, &init, |t, k, states| {
        let [a, b, sign] = [0, 1, 2].map(|i| &states[i]);
        let rows = t.iota(1, Element::I64, &[matrices, n]);
        let at = t.broadcast(k, &[], &[matrices, n]);
        let pivots = column(t, a, k);
        let magnitude = t.abs(&pivots);
        let done = t.compare(Order::Lt, &rows, &at);
        let magnitude = t.replace(&done, -1, &magnitude);
        let best = first_best(t, &magnitude, true);
        let is_best = t.broadcast(&best, &[0], &[matrices, n]);
        let is_best = t.compare(Order::Eq, &rows, &is_best);
        let is_here = t.compare(Order::Eq, &rows, &at);
        let is_below = t.compare(Order::Gt, &rows, &at);
        let swapped = |t: &mut Text, x: &Value| {
            let here = row(t, x, k);
            let mask = t.broadcast(&is_best, &[0, 1], &x.shape);
            let found = only(t, &mask, x);
            let found = t.reduce("add", &found, 0, &[1]);
            let here_all = t.broadcast(&here, &[0, 2], &x.shape);
            let found_all = t.broadcast(&found, &[0, 2], &x.shape);
            let y = t.select(&mask, &here_all, x);
            let mask = t.broadcast(&is_here, &[0, 1], &x.shape);
            let y = t.select(&mask, &found_all, &y);
            (y, found_all)
        };
        let (a, pivot_row) = swapped(t, a);
        let (b, right_row) = swapped(t, b);
        let pivots = column(t, &a, k);
        let pivot = only(t, &is_here, &pivots);
        let pivot = t.reduce("add", &pivot, 0, &[1]);
        let pivot = t.broadcast(&pivot, &[0], &[matrices, n]);
        let factors = t.div(&pivots, &pivot);
        let reduced = |t: &mut Text, x: &Value, of_row: &Value| {
            let factors = t.broadcast(&factors, &[0, 1], &x.shape);
            let change = t.mul(&factors, of_row);
            let y = t.sub(x, &change);
            let mask = t.broadcast(&is_below, &[0, 1], &x.shape);
            t.select(&mask, &y, x)
        };
        let a = reduced(t, &a, &pivot_row);
        let b = reduced(t, &b, &right_row);
        let k = t.broadcast(k, &[], &[matrices]);
        let moved = t.compare(Order::Ne, &best, &k);
        let negated = t.neg(sign);
        let sign = t.select(&moved, &negated, sign);
        Ok(vec![a, b, sign])
    });
    let mut outs = outs.into_iter().flatten();
    let mut next = || outs.next().expect("the loop has three states");
    Eliminated {
        upper: next(),
        right: next(),
        sign: next(),
    }
}

/// Appends the elimination of matrices alone.
fn triangular(t: &mut Text, x: &Value) -> Eliminated {
    let none = t.full(0, x.element, &[x.shape[0], x.shape[1], 1]);
    eliminate(t, x, &none)
}

const UPPER: Triangle = Triangle {
    lower: false,
    unit: false,
    transposed: false,
};

/// Appends the solution `y` of `a y = b`.
fn solved(t: &mut Text, a: &Value, b: &Value) -> Value {
    let of = eliminate(t, a, b);
    t.triangular_solve(&of.upper, &of.right, UPPER)
}

/// Appends zeros if a shape has no elements.
fn nothing(t: &mut Text, of: &Equation<'_>) -> Option<Vec<Value>> {
    let is_empty = of.x().numel() == 0 && of.outs.iter().all(|out| out.shape.contains(&0));
    let zeros = |out: &crate::equation::Type| t.full(0, out.element, &out.shape);
    is_empty.then(|| of.outs.iter().map(zeros).collect())
}

/// Operands: `a, b`.
pub(super) fn solve(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    let (a, b) = (of.x(), of.y());
    if of.shape().contains(&0) {
        return vec![t.full(0, of.out().element, of.shape())];
    }
    let n = a.shape[a.rank() - 1];
    let columns = if b.rank() == 1 {
        1
    } else {
        b.shape[b.rank() - 1]
    };
    let batch = &b.shape[..b.rank().max(2) - 2];
    let whole = [batch, &[n, n]].concat();
    let a = t.spread(a, &whole);
    let a = batched(t, &a);
    let matrices = a.shape[0];
    let b = t.reshape(b, &[matrices, n, columns]);
    let transposed = of.flag(1);
    let triangle = |lower: bool, unit: bool| Triangle {
        lower,
        unit,
        transposed,
    };
    let form = Form::from_number(of.int(0)).expect("the rules of the op accept its operands");
    let y = match form {
        Form::General => {
            let a = match transposed {
                true => t.transpose(&a, &[0, 2, 1]),
                false => a,
            };
            solved(t, &a, &b)
        }
        Form::Lower => t.triangular_solve(&a, &b, triangle(true, false)),
        Form::Upper => t.triangular_solve(&a, &b, triangle(false, false)),
        Form::UnitLower => t.triangular_solve(&a, &b, triangle(true, true)),
        Form::UnitUpper => t.triangular_solve(&a, &b, triangle(false, true)),
    };
    vec![t.reshape(&y, of.shape())]
}

pub(super) fn inv(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let x = batched(t, of.x());
    let right = identities(t, x.element, &x.shape);
    let y = solved(t, &x, &right);
    vec![t.reshape(&y, of.shape())]
}

/// Appends the determinants of square matrices.
fn determinants(t: &mut Text, x: &Value) -> Value {
    if x.numel() == 0 {
        return t.full(1, x.element, &x.shape[..1]);
    }
    let of = triangular(t, x);
    let pivots = diagonals(t, &of.upper);
    let product = t.reduce("multiply", &pivots, 1, &[1]);
    t.mul(&product, &of.sign)
}

pub(super) fn det(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = batched(t, of.x());
    let y = determinants(t, &x);
    t.reshape(&y, of.shape())
}

pub(super) fn slogdet(t: &mut Text, of: &Equation<'_>) -> [Value; 2] {
    let x = batched(t, of.x());
    let shape = &of.outs[0].shape;
    if x.numel() == 0 {
        return [1, 0].map(|n| t.full(n, x.element, shape));
    }
    let of_x = triangular(t, &x);
    let pivots = diagonals(t, &of_x.upper);
    let magnitudes = t.abs(&pivots);
    let logs = t.log(&magnitudes);
    let log = t.reduce("add", &logs, 0, &[1]);
    let negative = t.compare_to(Order::Lt, &pivots, 0);
    let ones = t.full_like(1, &pivots);
    let signs = t.replace(&negative, -1, &ones);
    let sign = t.reduce("multiply", &signs, 1, &[1]);
    let sign = t.mul(&sign, &of_x.sign);
    [sign, log].map(|x| t.reshape(&x, shape))
}

/// The determinant of each matrix without a row and a column, with the sign of the element.
pub(super) fn cofactors(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let x = batched(t, of.x());
    let (matrices, n) = (x.shape[0], x.shape[1]);
    // Position `[i, k]` holds the `k`-th index that is not `i`.
    let skipped = t.iota(0, Element::I64, &[n, n - 1]);
    let index = t.iota(1, Element::I64, &[n, n - 1]);
    let above = t.compare(Order::Ge, &index, &skipped);
    let next = t.plus(&index, 1);
    let others = t.select(&above, &next, &index);
    let minors = match n {
        1 => t.full(0, x.element, &[matrices, 1, 0, 1, 0]),
        _ => {
            let rows = t.gather(&x, &others, 1);
            t.gather(&rows, &others, 3)
        }
    };
    let minors = t.transpose(&minors, &[0, 1, 3, 2, 4]);
    let minors = t.reshape(&minors, &[matrices * n * n, n - 1, n - 1]);
    let minors = determinants(t, &minors);
    let minors = t.reshape(&minors, &x.shape);
    let [i, j] = [1, 2].map(|axis| t.iota(axis, Element::I64, &x.shape));
    let sum = t.add(&i, &j);
    let one = t.full_like(1, &sum);
    let odd = t.and(&sum, &one);
    let odd = t.compare_to(Order::Eq, &odd, 1);
    let negated = t.neg(&minors);
    let y = t.select(&odd, &negated, &minors);
    vec![t.reshape(&y, of.shape())]
}

/// The factor of the mean of each matrix and its transpose.
pub(super) fn cholesky(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let x = batched(t, of.x());
    let x = symmetric(t, &x);
    let y = t.cholesky(&x);
    let lower = diagonal_mask(t, Order::Le, 0, &y.shape);
    let y = only(t, &lower, &y);
    vec![t.reshape(&y, of.shape())]
}

/// Appends the mean of each matrix and its transpose.
fn symmetric(t: &mut Text, x: &Value) -> Value {
    let transposed = t.transpose(x, &[0, 2, 1]);
    let sum = t.add(x, &transposed);
    t.times(&sum, 0.5)
}

/// Householder reflections, one for each column.
pub(super) fn qr(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    let x = batched(t, of.x());
    let [matrices, m, n] = [x.shape[0], x.shape[1], x.shape[2]];
    let kept = m.min(n);
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let q = identities(t, x.element, &[matrices, m, m]);
    let outs = reflected(t, &x, q);
    let q = t.part(&outs[1], 2, 0, kept);
    let r = t.part(&outs[0], 1, 0, kept);
    let upper = diagonal_mask(t, Order::Ge, 0, &r.shape);
    let r = only(t, &upper, &r);
    vec![
        t.reshape(&q, &of.outs[0].shape),
        t.reshape(&r, &of.outs[1].shape),
    ]
}

/// Appends `r` and `q` after the reflections of `x`.
fn reflected(t: &mut Text, x: &Value, q: Value) -> Vec<Value> {
    let [matrices, m, n] = [x.shape[0], x.shape[1], x.shape[2]];
    let turns = n.min(m - 1);
    let outs = t.turns::<()>(turns, &[x.clone(), q], |t, k, states| {
        let (r, q) = (&states[0], &states[1]);
        let rows = t.iota(1, Element::I64, &[matrices, m]);
        let at = t.broadcast(k, &[], &[matrices, m]);
        let is_here = t.compare(Order::Eq, &rows, &at);
        let is_below = t.compare(Order::Gt, &rows, &at);
        let is_read = t.or(&is_here, &is_below);
        let elements = column(t, r, k);
        let v = only(t, &is_read, &elements);
        let square = t.mul(&v, &v);
        let norm = t.reduce("add", &square, 0, &[1]);
        let norm = t.sqrt(&norm);
        let norm = t.broadcast(&norm, &[0], &[matrices, m]);
        let negative = t.compare_to(Order::Lt, &v, 0);
        let negated = t.neg(&norm);
        let norm = t.select(&negative, &negated, &norm);
        let longer = t.add(&v, &norm);
        let v = t.select(&is_here, &longer, &v);
        let square = t.mul(&v, &v);
        let length = t.reduce("add", &square, 0, &[1]);
        // A column that is zero below the diagonal stays as it is.
        let not_0 = t.compare_to(Order::Ne, &elements, 0);
        let below = t.and(&is_below, &not_0);
        let changes = t.reduce("or", &below, 0, &[1]);
        let weight = t.over(2, &length);
        let zero = t.full_like(0, &weight);
        let weight = t.select(&changes, &weight, &zero);
        let zeros = t.full_like(0, &v);
        let all = t.broadcast(&changes, &[0], &v.shape);
        let v = t.select(&all, &v, &zeros);
        let weight = t.broadcast(&weight, &[0], &[matrices, m]);
        let scaled = t.mul(&v, &weight);

        let along_r = product(t, &v, r, 1, 1);
        let change = outer(t, &scaled, &along_r);
        let r = t.sub(r, &change);
        let along_q = product(t, q, &v, 2, 1);
        let change = outer(t, &along_q, &scaled);
        let q = t.sub(q, &change);
        Ok(vec![r, q])
    });
    outs.unwrap_or_default()
}

/// Appends the products of the elements of two vectors of each matrix.
fn outer(t: &mut Text, x: &Value, y: &Value) -> Value {
    let shape = [x.shape[0], x.shape[1], y.shape[1]];
    let x = t.broadcast(x, &[0, 1], &shape);
    let y = t.broadcast(y, &[0, 2], &shape);
    t.mul(&x, &y)
}

/// Largest number of sweeps of Jacobi's method over all pairs of columns.
const SWEEPS: usize = 60;

/// Appends states after rotations of all pairs `p < q` of columns, in sweeps until `goes_on` is false.
fn rotations(
    t: &mut Text,
    n: usize,
    init: &[Value],
    goes_on: impl Fn(&mut Text, &[Value]) -> Value,
    rotate: impl Fn(&mut Text, &Value, &Value, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let zero = t.full(0, Element::I64, &[]);
    let init = [&[zero], init].concat();
    let outs = t.while_loop::<()>(
        &init,
        |t, states| {
            let more = t.compare_to(Order::Lt, &states[0], SWEEPS);
            let goes_on = goes_on(t, &states[1..]);
            Ok(t.and(&more, &goes_on))
        },
        |t, states| {
            let zero = t.full(0, Element::I64, &[]);
            let one = t.full(1, Element::I64, &[]);
            let init = [&[zero, one], &states[1..]].concat();
            let pairs = t.turns::<()>(n * (n - 1) / 2, &init, |t, _, states| {
                let (p, q) = (&states[0], &states[1]);
                let next = rotate(t, p, q, &states[2..]);
                // The next pair: another `q`, or the next `p` if there is none.
                let q = t.plus(q, 1);
                let ends = t.compare_to(Order::Ge, &q, n);
                let next_p = t.plus(p, 1);
                let p = t.select(&ends, &next_p, p);
                let after_p = t.plus(&p, 1);
                let q = t.select(&ends, &after_p, &q);
                Ok([&[p, q], &next[..]].concat())
            })?;
            let sweep = t.plus(&states[0], 1);
            Ok([&[sweep], &pairs[2..]].concat())
        },
    );
    outs.unwrap_or_default().split_off(1)
}

/// A rotation of each matrix.
struct Rotation {
    cos: Value,
    sin: Value,
}

/// Appends the rotation that makes an element `c` between `a` and `b` zero, or none where it is 0.
fn rotation(t: &mut Text, a: &Value, b: &Value, c: &Value) -> Rotation {
    // t = sign(h) / (|h| + sqrt(h^2 + 1)), with h = (b - a) / (2 c)
    let gap = t.sub(b, a);
    let doubled = t.add(c, c);
    let half = t.div(&gap, &doubled);
    let magnitude = t.abs(&half);
    let square = t.mul(&half, &half);
    let root = t.plus(&square, 1);
    let root = t.sqrt(&root);
    let divisor = t.add(&magnitude, &root);
    let tan = t.over(1, &divisor);
    let negative = t.compare_to(Order::Lt, &half, 0);
    let negated = t.neg(&tan);
    let tan = t.select(&negative, &negated, &tan);
    let is_0 = t.compare_to(Order::Eq, c, 0);
    let tan = t.replace(&is_0, 0, &tan);
    let square = t.mul(&tan, &tan);
    let root = t.plus(&square, 1);
    let cos = t.unary("rsqrt", &root);
    let sin = t.mul(&tan, &cos);
    Rotation { cos, sin }
}

/// Appends matrices with columns `p` and `q` rotated.
fn rotated(t: &mut Text, x: &Value, p: &Value, q: &Value, by: &Rotation) -> Value {
    let [of_p, of_q] = [p, q].map(|k| column(t, x, k));
    let shape = of_p.shape.clone();
    let [cos, sin] = [&by.cos, &by.sin].map(|x| t.broadcast(x, &[0], &shape));
    let (pc, qs) = (t.mul(&cos, &of_p), t.mul(&sin, &of_q));
    let new_p = t.sub(&pc, &qs);
    let (ps, qc) = (t.mul(&sin, &of_p), t.mul(&cos, &of_q));
    let new_q = t.add(&ps, &qc);
    let mut x = x.clone();
    for (k, new) in [(p, new_p), (q, new_q)] {
        let zero = t.full(0, Element::I64, &[]);
        let part = t.reshape(&new, &[shape[0], shape[1], 1]);
        x = t.dynamic_update(&x, &part, &[zero.clone(), zero, k.clone()]);
    }
    x
}

/// Appends an element of each matrix.
fn element(t: &mut Text, x: &Value, i: &Value, j: &Value) -> Value {
    let zero = t.full(0, Element::I64, &[]);
    let part = t.dynamic_slice(x, &[zero, i.clone(), j.clone()], &[x.shape[0], 1, 1]);
    t.reshape(&part, &x.shape[..1])
}

/// Appends whether any square in `rest` is not negligible beside that in `all`.
fn not_negligible(t: &mut Text, rest: &Value, all: &Value) -> Value {
    let epsilon = match all.element {
        Element::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    };
    let bound = t.times(all, epsilon.powi(2));
    let above = t.compare(Order::Gt, rest, &bound);
    let axes: Vec<usize> = (0..above.rank()).collect();
    t.reduce("or", &above, 0, &axes)
}

/// Appends the sum of the squares of each matrix.
fn squares(t: &mut Text, x: &Value) -> Value {
    let square = t.mul(x, x);
    t.reduce("add", &square, 0, &[1, 2])
}

/// Appends the columns of `x`, whose keys are sorted, in that order.
fn in_order(t: &mut Text, x: &Value, order: &Value) -> Value {
    // One-hot columns: the element `[i, j]` is 1 if column `j` of the result is column `i`.
    let n = order.shape[1];
    let shape = [x.shape[0], n, n];
    let from = t.broadcast(order, &[0, 2], &shape);
    let index = t.iota(1, Element::I64, &shape);
    let hit = t.compare(Order::Eq, &from, &index);
    let hit = t.convert(&hit, x.element);
    product(t, x, &hit, 2, 1)
}

/// Appends 1 or -1 for each column: its first element of at least half the largest magnitude becomes positive.
fn signs(t: &mut Text, v: &Value) -> Value {
    let magnitude = t.abs(v);
    let largest = t.reduce("maximum", &magnitude, 0, &[1]);
    let half = t.times(&largest, 0.5);
    let half = t.broadcast(&half, &[0, 2], &v.shape);
    let is_large = t.compare(Order::Ge, &magnitude, &half);
    let rows = t.iota(1, Element::I64, &v.shape);
    let beyond = t.full_like(v.shape[1], &rows);
    let place = t.select(&is_large, &rows, &beyond);
    let first = t.reduce("minimum", &place, Element::I64.greatest(), &[1]);
    let first = t.broadcast(&first, &[0, 2], &v.shape);
    let is_first = t.compare(Order::Eq, &rows, &first);
    let found = only(t, &is_first, v);
    let found = t.reduce("add", &found, 0, &[1]);
    let negative = t.compare_to(Order::Lt, &found, 0);
    let ones = t.full_like(1, &found);
    t.replace(&negative, -1, &ones)
}

/// Jacobi's method.
pub(super) fn eigh(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let x = batched(t, of.x());
    let x = symmetric(t, &x);
    let n = x.shape[1];
    let v = identities(t, x.element, &x.shape);
    let total = squares(t, &x);
    let outs = rotations(
        t,
        n,
        &[x, v, total],
        |t, states| {
            let mask = diagonal_mask(t, Order::Ne, 0, &states[0].shape);
            let rest = only(t, &mask, &states[0]);
            let rest = squares(t, &rest);
            not_negligible(t, &rest, &states[2])
        },
        |t, p, q, states| {
            let (a, v) = (&states[0], &states[1]);
            let pp = element(t, a, p, p);
            let qq = element(t, a, q, q);
            let pq = element(t, a, p, q);
            let by = rotation(t, &pp, &qq, &pq);
            let a = rotated(t, a, p, q, &by);
            let a = t.transpose(&a, &[0, 2, 1]);
            let a = rotated(t, &a, p, q, &by);
            let v = rotated(t, v, p, q, &by);
            vec![a, v, states[2].clone()]
        },
    );
    let w = diagonals(t, &outs[0]);
    let [w, order] = sorted(t, &w, 1, false);
    let v = in_order(t, &outs[1], &order);
    let signs = signs(t, &v);
    let signs = t.broadcast(&signs, &[0, 2], &v.shape);
    let v = t.mul(&v, &signs);
    vec![
        t.reshape(&w, &of.outs[0].shape),
        t.reshape(&v, &of.outs[1].shape),
    ]
}

/// Singular values in descending order, between vectors in columns.
struct Singular {
    u: Value,
    s: Value,
    v: Value,
}

/// Appends the singular values of matrices with at least as many rows as columns, by rotations of columns.
fn singular(t: &mut Text, x: &Value) -> Singular {
    let [matrices, _, n] = [x.shape[0], x.shape[1], x.shape[2]];
    let v = identities(t, x.element, &[matrices, n, n]);
    let outs = rotations(
        t,
        n,
        &[x.clone(), v],
        |t, states| {
            // The columns are orthogonal if the products of different ones are negligible.
            let products = product(t, &states[0], &states[0], 1, 1);
            let lengths = diagonals(t, &products);
            let bound = outer(t, &lengths, &lengths);
            let square = t.mul(&products, &products);
            let mask = diagonal_mask(t, Order::Ne, 0, &square.shape);
            let square = only(t, &mask, &square);
            not_negligible(t, &square, &bound)
        },
        |t, p, q, states| {
            let (a, v) = (&states[0], &states[1]);
            let [of_p, of_q] = [p, q].map(|k| column(t, a, k));
            let [pp, qq, pq] = [(&of_p, &of_p), (&of_q, &of_q), (&of_p, &of_q)].map(|(x, y)| {
                let product = t.mul(x, y);
                t.reduce("add", &product, 0, &[1])
            });
            let by = rotation(t, &pp, &qq, &pq);
            vec![rotated(t, a, p, q, &by), rotated(t, v, p, q, &by)]
        },
    );
    let square = t.mul(&outs[0], &outs[0]);
    let s = t.reduce("add", &square, 0, &[1]);
    let s = t.sqrt(&s);
    let [s, order] = sorted(t, &s, 1, true);
    let u = in_order(t, &outs[0], &order);
    let v = in_order(t, &outs[1], &order);
    let lengths = t.broadcast(&s, &[0, 2], &u.shape);
    let u = t.div(&u, &lengths);
    Singular { u, s, v }
}

/// Appends the singular values of matrices of any shape. The signs are those of the vectors in `v`.
fn singular_values(t: &mut Text, x: &Value) -> Singular {
    let is_wide = x.shape[1] < x.shape[2];
    let mut of = match is_wide {
        true => {
            let transposed = t.transpose(x, &[0, 2, 1]);
            let of = singular(t, &transposed);
            Singular {
                u: of.v,
                s: of.s,
                v: of.u,
            }
        }
        false => singular(t, x),
    };
    let signs = signs(t, &of.v);
    for x in [&mut of.u, &mut of.v] {
        let signs = t.broadcast(&signs, &[0, 2], &x.shape);
        *x = t.mul(x, &signs);
    }
    of
}

pub(super) fn svd(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let x = batched(t, of.x());
    let found = singular_values(t, &x);
    let vt = t.transpose(&found.v, &[0, 2, 1]);
    let outs = [found.u, found.s, vt].into_iter().zip(&of.outs);
    outs.map(|(x, out)| t.reshape(&x, &out.shape)).collect()
}

/// `v (u / s)^T`, without singular values that are small beside the largest.
pub(super) fn pinv(t: &mut Text, of: &Equation<'_>) -> Vec<Value> {
    if let Some(zeros) = nothing(t, of) {
        return zeros;
    }
    let x = batched(t, of.x());
    let found = singular_values(t, &x);
    let largest = t.part(&found.s, 1, 0, 1);
    let bound = t.times(&largest, of.statics[0].float().unwrap_or_default());
    let bound = t.broadcast(&bound, &[0, 1], &found.s.shape);
    let counts = t.compare(Order::Gt, &found.s, &bound);
    let inverse = t.over(1, &found.s);
    let inverse = only(t, &counts, &inverse);
    let inverse = t.broadcast(&inverse, &[0, 2], &found.u.shape);
    let all = t.broadcast(&counts, &[0, 2], &found.u.shape);
    let u = only(t, &all, &found.u);
    let scaled = t.mul(&u, &inverse);
    let y = product(t, &found.v, &scaled, 2, 2);
    vec![t.reshape(&y, of.shape())]
}
