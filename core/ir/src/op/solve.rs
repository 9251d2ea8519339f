use super::attention_jvp::swapped;
use super::class::square;
use super::linalg::{Form, Matrix, matrices, product, solve, solved, transposed};
use super::nd_array::{Application, NdArray};
use super::{
    Axes, AxesOf, AxesRule, Axis, Count, Diff, Eval, Kernel, Laws, Method, OpDef, OpFacts,
    Operands, lanes, shape,
};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Shape, Static, StaticArg, StaticKind, Var};

methods! { solve {
    /// The solution `y` of `x y = b`, for each matrix of the last two axes of `x`.
    ///
    /// `b` has shape `[.., n, k]` for matrices of shape `[.., n, n]`, or `[n]` for a single matrix.
    /// The axes of `x` before the last two broadcast to those of `b`. The elements of the solution
    /// for a singular matrix are infinite or NaN. Takes floats.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[2.0f32, 0.0], [1.0, 4.0]]);
    /// assert_eq!(x.solve(Tensor::from([2.0f32, 9.0])).to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the matrices are not square, `b` does not have as many rows, the other axes do not
    /// broadcast to those of `b`, or the dtypes differ or are no floats.
    fn solve(x: Data, b: Data, form: Number(0), transposed: Switch(false));

    /// [`Tensor::solve`] for lower triangular matrices. The elements above the diagonal are not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[2.0f32, 7.0], [1.0, 4.0]]);
    /// assert_eq!(x.solve_lower(Tensor::from([2.0f32, 9.0])).to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::solve`].
    fn solve_lower(x: Data, b: Data, form: Number(1), transposed: Switch(false));

    /// [`Tensor::solve`] for upper triangular matrices. The elements below the diagonal are not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[2.0f32, 1.0], [7.0, 4.0]]);
    /// assert_eq!(x.solve_upper(Tensor::from([4.0f32, 8.0])).to_vec::<f32>(), [1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::solve`].
    fn solve_upper(x: Data, b: Data, form: Number(2), transposed: Switch(false));

    /// [`Tensor::solve_lower`] with 1 for each element of the diagonal, which is not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[5.0f32, 7.0], [3.0, 5.0]]);
    /// assert_eq!(x.solve_unit_lower(Tensor::from([2.0f32, 9.0])).to_vec::<f32>(), [2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::solve`].
    fn solve_unit_lower(x: Data, b: Data, form: Number(3), transposed: Switch(false));

    /// [`Tensor::solve_upper`] with 1 for each element of the diagonal, which is not read.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[5.0f32, 3.0], [7.0, 5.0]]);
    /// assert_eq!(x.solve_unit_upper(Tensor::from([9.0f32, 2.0])).to_vec::<f32>(), [3.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::solve`].
    fn solve_unit_upper(x: Data, b: Data, form: Number(4), transposed: Switch(false));
} }

/// `solve[form, transposed] a, b`: the solution `x` of `a x = b`, or of `a^T x = b`.
///
/// It is linear in `b`, which is never broadcast. The form is the number of a [`Form`].
pub(super) static OP: Solve = Solve;

pub(super) struct Solve;

impl OpDef for Solve {
    fn name(&self) -> &'static str {
        "solve"
    }
    fn operands(&self) -> Operands {
        Operands::Fixed(2, 0)
    }
    fn statics(&self) -> &'static [StaticArg] {
        const {
            &[
                StaticKind::KnownCount.named("form"),
                StaticKind::KnownFlag.named("transposed"),
            ]
        }
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        if statics[0].int().and_then(Form::from_number).is_none() {
            return Err(statics[0].refused("form"));
        }
        let a = shape::matrices(&args[0].shape)?;
        solution(&a, &args[1].shape).map(|x| vec![x])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::same_floats(args)
    }
    fn methods(&self) -> Vec<Method> {
        METHODS.to_vec()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        // dx = a^-1 (db - da x)
        let (a, x) = (eqn.args[0], eqn.out());
        let from_a = dx[0].map(|da| {
            let (form, transposed) = of_statics(b, eqn);
            let da = form.read(b, da);
            let (da, like) = match transposed {
                true => (swapped(b, da), swapped(b, a)),
                false => (da, a),
            };
            product(b, [da, x], [like, x])
        });
        let change = match (from_a, dx[1]) {
            (None, db) => db,
            (Some(change), Some(db)) => Some(b.sub(db, change)),
            (Some(change), None) => Some(b.neg(change)),
        };
        vec![change.map(|change| b.emit(eqn.op, &eqn.attrs, &[a, change]))]
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        let (form, transposed) = of_statics(b, eqn);
        let ct = cts[0].filter(|_| linear[1]);
        vec![
            None,
            ct.map(|ct| solve(b, form, !transposed, [eqn.args[0], ct])),
        ]
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::Solve)
    }
    fn count(&self) -> Count {
        Count::Factors
    }
    fn facts(&self) -> &OpFacts {
        const { &OpFacts::opaque(AXES) }
    }
    fn laws(&self) -> Laws {
        let samples = &[
            "(a: f64[3, 3], b: f64[3, 2]) { x = solve[form=0, transposed=false] a, b return x }",
            "(a: f64[2, 2], b: f64[2]) { x = solve[form=0, transposed=true] a, b return x }",
            "(a: f64[2, 2, 2], b: f64[2, 2, 1]) { x = solve[form=1, transposed=false] a, b return x }",
            "(a: f64[1, 2, 2], b: f64[2, 2, 2, 1]) { x = solve[form=2, transposed=false] a, b return x }",
            "(a: f64[3, 3], b: f64[2, 3, 2]) { x = solve[form=3, transposed=true] a, b return x }",
            "(a: f64[2, 2], b: f64[2, 2, 2]) { x = solve[form=4, transposed=false] a, b return x }",
            "(a: f64[0, 0], b: f64[0, 2]) { x = solve[form=0, transposed=false] a, b return x }",
            "(a: f64[2, 2], b: f64[2, 0]) { x = solve[form=1, transposed=false] a, b return x }",
        ];
        Laws::new((-1.0, 1.0), samples).dominant()
    }
}

/// Returns the form, and whether the matrix is transposed.
fn of_statics(b: &Builder, eqn: &Eqn) -> (Form, bool) {
    let form = b.static_of(eqn.attrs[0]).int().and_then(Form::from_number);
    let transposed = b.static_of(eqn.attrs[1]).bool();
    (
        form.expect("methods and rules set it"),
        transposed.expect("it is known"),
    )
}

/// Returns the shape of the solutions for matrices of shape `a` and right sides of shape `b`.
fn solution(a: &Shape, b: &Shape) -> Result<Shape, Fault> {
    let n = match a.dims() {
        Some([.., rows, columns]) => square(*rows, *columns)?,
        _ => Dim::Unknown,
    };
    let Some(right) = b.dims() else {
        return Ok(b.clone());
    };
    let rank = a.dims().map_or(2, <[Dim]>::len);
    if right.len() < rank && !(right.len() == 1 && rank == 2) {
        return Err(Fault::Rank {
            found: right.len(),
            expected: match rank {
                2 => "at least 1 on the right".into(),
                _ => format!("at least {rank} on the right, so that no right side is repeated"),
            },
        });
    }
    let rows = right[right.len().max(2) - 2];
    if rows.differs(n) {
        return Err(Fault::Length {
            what: "the number of rows on the right".into(),
            found: rows.to_string(),
            expected: format!("{n}, that of the matrices"),
        });
    }
    let batch = a.dims().map_or(&[][..], |dims| &dims[..rank - 2]);
    let skipped = right.len().max(2) - rank;
    for (axis, (len, to)) in batch
        .iter()
        .zip(&right[skipped.min(right.len())..])
        .enumerate()
    {
        if *len != Dim::Known(1) && len.differs(*to) {
            return Err(Fault::Length {
                what: format!("axis {axis} of the matrices"),
                found: len.to_string(),
                expected: format!("1 or {to}, that of the right sides"),
            });
        }
    }
    Ok(b.clone())
}

const AXES: AxesRule = AxesRule {
    signature,
    batch: lanes::solutions,
};

/// The batch axes correspond, and the columns of the right sides are independent.
fn signature(of: &AxesOf<'_>) -> Option<Axes> {
    let (a, b) = (of.data[0], of.data[1]);
    let (n_batch, columns) = (b.len().saturating_sub(2), b.len().max(2) - 1);
    let right: Vec<Axis> = (0..b.len())
        .map(|i| match i < n_batch || i == columns {
            true => Axis::Factor(i),
            false => Axis::Own,
        })
        .collect();
    let skipped = n_batch.checked_sub(a.len().checked_sub(2)?)?;
    let left = |(i, len): (usize, &Dim)| match b.get(i + skipped) {
        Some(to) if i + 2 < a.len() && len == to && *len != Dim::Unknown => {
            Axis::Factor(i + skipped)
        }
        _ => Axis::Own,
    };
    Some(Axes {
        operands: vec![a.iter().enumerate().map(left).collect(), right.clone()],
        likes: Vec::new(),
        results: vec![right],
    })
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let (a, b) = (matrices(of.x()), of.y());
    let (form, n) = (
        Form::from_number(of.int(0)).expect("the shape rule checks it"),
        of.x().shape[of.rank() - 1],
    );
    let is_read = |i: usize, j: usize| match form {
        Form::General => true,
        Form::Lower => j <= i,
        Form::Upper => j >= i,
        Form::UnitLower => j < i,
        Form::UnitUpper => j > i,
    };
    let is_unit = matches!(form, Form::UnitLower | Form::UnitUpper);
    let part = |m: &Matrix| -> Matrix {
        let element = |i: usize, j: usize| match (is_read(i, j), is_unit && i == j) {
            (true, _) => m[i][j],
            (false, true) => 1.0,
            (false, false) => 0.0,
        };
        let m: Matrix = (0..n)
            .map(|i| (0..n).map(|j| element(i, j)).collect())
            .collect();
        match of.flag(1) {
            true => transposed(&m, n),
            false => m,
        }
    };
    let columns = if b.shape.len() == 1 {
        1
    } else {
        b.shape[b.shape.len() - 1]
    };
    let batch = &b.shape[..b.shape.len().max(2) - 2];
    let own = &of.x().shape[..of.rank() - 2];
    let mut data = Vec::new();
    for (at, index) in super::indices(batch).into_iter().enumerate() {
        let row = |i: usize| b.data[(at * n + i) * columns..][..columns].to_vec();
        let at = super::nd_array::aligned(own, &index);
        let number = at
            .iter()
            .zip(own)
            .fold(0, |number, (i, len)| number * len + i);
        data.extend(solved(part(&a[number]), (0..n).map(row).collect()).concat());
    }
    NdArray {
        shape: of.out().to_vec(),
        data,
    }
}
