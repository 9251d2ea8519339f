use super::attention_jvp::swapped;
use super::linalg::{Form, for_each_matrix, product, solve};
use super::nd_array::{Application, NdArray, truth};
use super::{Factorization, Kernel, Method, Param};
use crate::{Builder, DType, Dim, Op, Static, Var};

/// `q, r = qr x`: `x = q r` with orthonormal columns `q` and an upper triangular `r`.
///
/// The signs are those of Householder's reflections.
pub(super) static OP: Factorization = Factorization {
    name: "qr",
    methods: &[Method::on_tensor("qr", &[Param::Data]).with_results(2)],
    statics: &[],
    results: |rows, columns| {
        let k = match (rows.known(), columns.known()) {
            (Some(m), Some(n)) => Dim::Known(m.min(n)),
            _ if rows == columns => rows,
            _ => Dim::Unknown,
        };
        Ok(vec![vec![rows, k], vec![k, columns]])
    },
    // Of a wide matrix, q depends on the first columns only: x = [a b] and r = [s q^T b] with a = q s.
    // Of any other one, a = x and s = r. With c = q^T da s^-1, and w its lower triangle without the
    // diagonal, minus the transpose of that: dq = q (w - c) + da s^-1 and dr = q^T dx - w r.
    tangents: |b, eqn, dx| {
        let (x, q, r) = (eqn.args[0], eqn.outs[0], eqn.outs[1]);
        let qt = swapped(b, q);
        let dims = b.aval(x).shape.dims();
        let lens =
            dims.and_then(|dims| Some((dims[dims.len() - 2].known()?, dims.last()?.known()?)));
        let is_tall = lens.is_some_and(|(m, n)| m >= n);
        let (da, s) = match is_tall {
            true => (dx, r),
            false => {
                let first = FirstColumns::new(b, x, q);
                let (a, da) = (first.of(b, x), first.of(b, dx));
                (da, product(b, [qt, a], [qt, q]))
            }
        };
        let dat = swapped(b, da);
        let right = solve(b, Form::Upper, true, [s, dat]);
        let right = swapped(b, right);
        let c = product(b, [qt, right], [qt, q]);
        let below = b.attr(-1);
        let lower = b.emit(Op::Tril, &[below], &[c]);
        let upper = swapped(b, lower);
        let w = b.sub(lower, upper);
        let rest = b.sub(c, w);
        let inside = product(b, [q, rest], [q, s]);
        let dq = b.sub(right, inside);
        let dr = match is_tall {
            true => product(b, [rest, r], [r, r]),
            false => {
                let (change, turned) = (product(b, [qt, dx], [qt, x]), product(b, [w, r], [s, r]));
                b.sub(change, turned)
            }
        };
        vec![Some(dq), Some(dr)]
    },
    kernel: Kernel::Qr,
    samples: &[
        "(x: f64[3, 3]) { q, r = qr x return q, r }",
        "(x: f64[2, 3, 2]) { q, r = qr x return q, r }",
        "(x: f64[2, 4]) { q, r = qr x return q, r }",
        "(x: f64[2, 2, 3]) { q, r = qr x return q, r }",
        "(x: f64[0, 3]) { q, r = qr x return r }",
        "(x: f64[3, 1]) { q, r = qr x return r }",
        "(x: f64[2, 0]) { q, r = qr x return q, r }",
        "(x: f64[0, 2, 2]) { q, r = qr x return q }",
    ],
};

/// The first columns of the operand, as many as `q` has.
struct FirstColumns {
    /// Columns of the operand and of `q`, as rows.
    likes: [Var; 2],
}

impl FirstColumns {
    fn new(b: &mut Builder, x: Var, q: Var) -> FirstColumns {
        let likes = [x, q].map(|like| moved(b, like, [-1, 0]));
        FirstColumns { likes }
    }

    /// Emits these columns of `x`.
    fn of(&self, b: &mut Builder, x: Var) -> Var {
        let rows = moved(b, x, [-1, 0]);
        let zero = [
            b.attr(Static::Ints(Vec::new())),
            b.attr(0),
            b.attr(DType::I64),
        ];
        let start = b.emit(Op::Full, &zero, &[]);
        let [whole, part] = self.likes;
        let rows = b.emit(Op::DynamicSliceLike, &[], &[rows, start, whole, part]);
        moved(b, rows, [0, -1])
    }
}

/// Emits `x` with an axis moved to another place.
fn moved(b: &mut Builder, x: Var, [from, to]: [i64; 2]) -> Var {
    let attrs = [b.attr(from), b.attr(to)];
    b.emit(Op::Moveaxis, &attrs, &[x])
}

/// Adds a multiple of a vector to another.
fn add_scaled(to: &mut [f64], scale: f64, v: &[f64]) {
    for (to, v) in to.iter_mut().zip(v) {
        *to += scale * v;
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> [NdArray; 2] {
    let n = of.x().shape[of.rank() - 1];
    for_each_matrix(of, |x| {
        let m = x.len();
        let mut r = x;
        let row = |i| (0..m).map(|j| truth(i == j)).collect();
        let mut q: Vec<Vec<f64>> = (0..m).map(row).collect();
        for k in 0..n.min(m.saturating_sub(1)) {
            // A column that is zero below the diagonal stays as it is.
            if (k + 1..m).all(|i| r[i][k] == 0.0) {
                continue;
            }
            let norm = (k..m).map(|i| r[i][k] * r[i][k]).sum::<f64>().sqrt();
            let mut v: Vec<f64> = (0..m).map(|i| if i < k { 0.0 } else { r[i][k] }).collect();
            v[k] += norm.copysign(v[k]);
            let length: f64 = v.iter().map(|x| x * x).sum();
            // r -= 2 v (v^T r) / v^T v, and q -= 2 (q v) v^T / v^T v.
            let mut along = vec![0.0; n];
            for (v, row) in v.iter().zip(&r) {
                add_scaled(&mut along, *v, row);
            }
            for (v, row) in v.iter().zip(&mut r) {
                add_scaled(row, -2.0 * v / length, &along);
            }
            for row in &mut q {
                let along: f64 = row.iter().zip(&v).map(|(q, v)| q * v).sum();
                add_scaled(row, -2.0 * along / length, &v);
            }
        }
        let upper = |i: usize| {
            let r = &r;
            (0..n).map(move |j| if i <= j { r[i][j] } else { 0.0 })
        };
        [
            q.iter().flat_map(|row| row[..n.min(m)].to_vec()).collect(),
            (0..n.min(m)).flat_map(upper).collect(),
        ]
    })
}
