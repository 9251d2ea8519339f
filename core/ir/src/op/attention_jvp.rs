use super::active::{by_parts, numbers, placed, present, tangents, transposed};
use super::attention::Heads;
use super::jacobian::same;
use super::{Count, Diff, Eval, Kernel, Laws, Method, OpDef, Operands, Ops, shape};
use crate::{Attr, Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `attention_jvp[causal, active] q, k, v, o, l, dx..`: the Jacobian of `o = attention q, k, v`, applied to tangents of those
/// of queries, keys and values that `active` numbers, where `l = attention_lse q, k`:
///
/// ```text
/// p = exp(q k^T / sqrt(d) - l)    ds = (dq k^T + q dk^T) / sqrt(d)
/// do = (p ds) v - o sum(p ds) + p dv
/// ```
///
/// with elementwise products `p ds`, and the sum over the keys. `attention_vjp` is its transpose.
pub(super) static OP: AttentionJvp = AttentionJvp;

pub(super) struct AttentionJvp;

impl OpDef for AttentionJvp {
    fn name(&self) -> &'static str {
        "attention_jvp"
    }
    fn operands(&self) -> Operands {
        Operands::Many
    }
    fn statics(&self) -> &'static [&'static str] {
        &["causal", "active"]
    }
    fn shape(&self, statics: &[Static], args: &[&Aval], _: usize) -> Result<Vec<Shape>, Fault> {
        shape::switch(&statics[0], "causal")?;
        let active = tangents(&statics[1], 5, args.len())?;
        let out = checked(args)?;
        for (&i, dx) in active.iter().zip(&args[5..]) {
            same(&args[i as usize].shape, &dx.shape)?;
        }
        Ok(vec![out])
    }
    fn dtype(&self, _: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        shape::same_floats(args)
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let (causal, active) = (eqn.attrs[0], numbers(b, eqn.attrs[1]));
        if dx[..5].iter().all(Option::is_none) {
            let of = Attention::of(eqn);
            return vec![of.tangent(b, causal, placed(&active, &dx[5..]))];
        }
        by_parts(b, &eqn.args, dx, |b| {
            let Attention([q, k, v, o, l]) = Attention::of(eqn);
            let tangents: Vec<Option<Var>> = eqn.args[5..].iter().map(|v| Some(*v)).collect();
            let [dq, dk, dv] = placed(&active, &tangents);
            let p = weights(b, [q, k, l], causal);
            let from_q = dq.map(|dq| {
                let (dq, k) = (scaled(b, dq), swapped(b, k));
                matmul(b, dq, k)
            });
            let from_k = dk.map(|dk| {
                let (q, dk) = (scaled(b, q), swapped(b, dk));
                matmul(b, q, dk)
            });
            let from_scores = b.add_tangents(from_q, from_k).map(|ds| {
                let w = b.mul(p, ds);
                let mixed = matmul(b, w, v);
                let total = over_keys(b, w, true);
                let shift = b.mul(o, total);
                b.sub(mixed, shift)
            });
            let from_v = dv.map(|dv| matmul(b, p, dv));
            vec![b.add_tangents(from_scores, from_v).expect("one is active")]
        })
    }
    fn transpose(
        &self,
        b: &mut Builder,
        eqn: &Eqn,
        cts: &[Option<Var>],
        linear: &[bool],
    ) -> Vec<Option<Var>> {
        transposed(b, eqn, Op::AttentionVjp, 5, cts[0], linear)
    }
    fn eval(&self) -> Eval {
        Eval::Kernel(Kernel::AttentionJvp)
    }
    fn count(&self) -> Count {
        Count::Attention {
            products: [3, 2],
            pair: Ops::new(4, 1),
        }
    }
    fn laws(&self) -> Laws {
        Laws::new(
            (-1.0, 1.0),
            &[
                "(q: f64[2, 3], k: f64[4, 3], v: f64[4, 2], o: f64[2, 2], l: f64[2], dq: f64[2, 3], dk: f64[4, 3], dv: f64[4, 2]) { y = attention_jvp[causal=false, active=[0, 1, 2]] q, k, v, o, l, dq, dk, dv return y }",
                "(q: f64[2, 3, 2], k: f64[2, 2, 2], v: f64[2, 2, 1], o: f64[2, 3, 1], l: f64[2, 3], dq: f64[2, 3, 2], dv: f64[2, 2, 1]) { y = attention_jvp[causal=true, active=[0, 2]] q, k, v, o, l, dq, dv return y }",
                "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 1], o: f64[2, 1], l: f64[2], dk: f64[3, 2]) { y = attention_jvp[causal=true, active=[1]] q, k, v, o, l, dk return y }",
                "(q: f64[2, 2], k: f64[0, 2], v: f64[0, 1], o: f64[2, 1], l: f64[2], dv: f64[0, 1]) { y = attention_jvp[causal=false, active=[2]] q, k, v, o, l, dv return y }",
            ],
        )
    }
}

/// Queries, keys, values, the result of `attention` and that of `attention_lse`.
pub(super) struct Attention(pub(super) [Var; 5]);

impl Attention {
    /// The first operands of an equation.
    pub(super) fn of(eqn: &Eqn) -> Attention {
        Attention([0, 1, 2, 3, 4].map(|i| eqn.args[i]))
    }

    /// The tangent of the result from those of queries, keys and values.
    pub(super) fn tangent(
        &self,
        b: &mut Builder,
        causal: Attr,
        dx: [Option<Var>; 3],
    ) -> Option<Var> {
        let active = present(&dx)?;
        let active = b.attr(active);
        let args: Vec<Var> = self.0.into_iter().chain(dx.into_iter().flatten()).collect();
        Some(b.emit(Op::AttentionJvp, &[causal, active], &args))
    }
}

/// The shape of the result of `attention`, from the first five operands.
pub(super) fn checked(args: &[&Aval]) -> Result<Shape, Fault> {
    let (o, l) = (&args[3].shape, &args[4].shape);
    let Some(heads) = Heads::of(&args[..3])? else {
        return Ok(o.clone());
    };
    same(&heads.one_each(), l)?;
    same(&heads.mixed(), o)
}

/// The weights of the keys for each query, `exp(q k^T / sqrt(d) - l)`, of `q, k, l`.
pub(super) fn weights(b: &mut Builder, [q, k, l]: [Var; 3], causal: Attr) -> Var {
    let (q, k) = (scaled(b, q), swapped(b, k));
    let s = matmul(b, q, k);
    let last = b.attr(-1);
    let l = b.emit(Op::Unsqueeze, &[last], &[l]);
    let exponent = b.sub(s, l);
    if *b.static_of(causal) != Static::Bool(true) {
        return b.unary(Op::Exp, exponent);
    }
    // What is not seen may be anything, and its exponential infinite.
    let exponent = b.unary(Op::Tril, exponent);
    let p = b.unary(Op::Exp, exponent);
    b.unary(Op::Tril, p)
}

/// `x / sqrt(d)`, of which `d` is the last axis.
pub(super) fn scaled(b: &mut Builder, x: Var) -> Var {
    let [one, last, keep] = [b.attr(1.0), b.attr(-1), b.attr(true)];
    let ones = b.emit(Op::FullLike, &[one], &[x]);
    let count = b.sum(ones, x, last, keep);
    let scale = b.unary(Op::Rsqrt, count);
    b.mul(x, scale)
}

/// The transposes of the matrices of the last two axes.
pub(super) fn swapped(b: &mut Builder, x: Var) -> Var {
    let axes = [b.attr(-1), b.attr(-2)];
    b.emit(Op::SwapAxes, &axes, &[x])
}

/// The sum over the last axis.
pub(super) fn over_keys(b: &mut Builder, x: Var, keepdims: bool) -> Var {
    let (last, keepdims) = (b.attr(-1), b.attr(keepdims));
    b.sum(x, x, last, keepdims)
}

/// The matrix product.
pub(super) fn matmul(b: &mut Builder, x: Var, y: Var) -> Var {
    b.emit(Op::Matmul, &[], &[x, y, x, y])
}
