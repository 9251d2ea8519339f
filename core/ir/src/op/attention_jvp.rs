use super::active::{by_parts, numbers, placed, present, tangents, transposed};
use super::attention::{Heads, floats};
use super::shape::same;
use super::{Count, Diff, Eval, Kernel, Laws, Method, OpDef, Operands, Ops, shape};
use crate::{Attr, Aval, Builder, DType, Eqn, Fault, Op, Shape, Static, Var};

/// `attention_jvp[causal, active] q, k, v, o, l, mask, dx..`: the Jacobian of `o = attention q, k, v, mask`, applied to tangents
/// of those of queries, keys and values that `active` numbers, where `l = attention_lse q, k, mask`:
///
/// ```text
/// p = exp(q k^T / sqrt(d) - l)    ds = (dq k^T + q dk^T) / sqrt(d)
/// do = (p ds) v - o sum(p ds) + p dv
/// ```
///
/// with elementwise products `p ds`, and the sum over the keys; what is not seen has no weight. `attention_vjp` is its transpose.
/// There is a mask if `attention` has one.
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
        shape::known_switch(&statics[0], "causal")?;
        let (n_given, active) = tangents(&statics[1], GIVEN..=GIVEN + 1, args.len())?;
        // A tangent has the shape of its primal: what is known of one is known of the other.
        let mut given: Vec<Aval> = args[..n_given].iter().map(|aval| (*aval).clone()).collect();
        for (&i, dx) in active.iter().zip(&args[n_given..]) {
            let primal = &mut given[i as usize].shape;
            *primal = same(primal, &dx.shape)?;
        }
        Ok(vec![checked(&given.iter().collect::<Vec<_>>())?])
    }
    fn dtype(&self, statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
        let (n_given, active) = tangents(&statics[1], GIVEN..=GIVEN + 1, args.len())?;
        let known = &args[..n_given + active.len()];
        floats(known, (n_given > GIVEN).then_some(GIVEN))
    }
    fn methods(&self) -> Vec<Method> {
        Vec::new()
    }
    fn diff(&self) -> Diff {
        Diff::Linear
    }
    fn jvp(&self, b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Vec<Option<Var>> {
        let active = numbers(b, eqn.attrs[1]);
        let n_given = eqn.args.len() - active.len();
        let Attention { of, sees } = Attention::of(eqn, n_given);
        if dx[..n_given].iter().all(Option::is_none) {
            let of = Attention { of, sees };
            return vec![of.tangent(b, placed(&active, &dx[n_given..]))];
        }
        by_parts(b, &eqn.args, dx, |b| {
            let [q, k, v, o, l] = of;
            let tangents: Vec<Option<Var>> = eqn.args[n_given..].iter().map(|v| Some(*v)).collect();
            let [dq, dk, dv] = placed(&active, &tangents);
            let p = weights(b, [q, k, l], sees);
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
        let n_given = eqn.args.len() - numbers(b, eqn.attrs[1]).len();
        transposed(b, eqn, Op::AttentionVjp, n_given, cts[0], linear)
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
                "(q: f64[2, 2], k: f64[3, 2], v: f64[3, 1], o: f64[2, 1], l: f64[2], mask: bool[2, 3], dq: f64[2, 2], dk: f64[3, 2], dv: f64[3, 1]) { y = attention_jvp[causal=false, active=[0, 1, 2]] q, k, v, o, l, mask, dq, dk, dv return y }",
                "(q: f64[2, 3, 2], k: f64[2, 2, 2], v: f64[2, 2, 1], o: f64[2, 3, 1], l: f64[2, 3], mask: bool[2, 1, 2], dk: f64[2, 2, 2]) { y = attention_jvp[causal=true, active=[1]] q, k, v, o, l, mask, dk return y }",
            ],
        )
    }
}

/// What is given of an attention besides a mask.
pub(super) const GIVEN: usize = 5;

/// Queries, keys, values, the result of `attention` and that of `attention_lse`, and which keys are seen.
pub(super) struct Attention {
    pub(super) of: [Var; GIVEN],
    pub(super) sees: Sees,
}

/// Which keys a query sees: not those after it if it is causal, and of those the ones where a mask is true.
#[derive(Clone, Copy)]
pub(super) struct Sees {
    pub(super) causal: Attr,
    pub(super) mask: Option<Var>,
}

impl Attention {
    /// The first `n_given` operands of an equation.
    pub(super) fn of(eqn: &Eqn, n_given: usize) -> Attention {
        Attention {
            of: [0, 1, 2, 3, 4].map(|i| eqn.args[i]),
            sees: Sees {
                causal: eqn.attrs[0],
                mask: eqn.args[GIVEN..n_given].first().copied(),
            },
        }
    }

    /// The tangent of the result from those of queries, keys and values.
    pub(super) fn tangent(&self, b: &mut Builder, dx: [Option<Var>; 3]) -> Option<Var> {
        let active = present(&dx)?;
        let active = b.attr(active);
        let given = self.of.into_iter().chain(self.sees.mask);
        let args: Vec<Var> = given.chain(dx.into_iter().flatten()).collect();
        Some(b.emit(Op::AttentionJvp, &[self.sees.causal, active], &args))
    }
}

/// The shape of the result of `attention`, from what is given of it.
pub(super) fn checked(args: &[&Aval]) -> Result<Shape, Fault> {
    let (o, l) = (&args[3].shape, &args[4].shape);
    let Some(heads) = Heads::of(&args[..3], args.get(GIVEN).copied())? else {
        return Ok(o.clone());
    };
    let out = same(&heads.mixed(), o)?;
    let queries = out.dims().and_then(<[_]>::split_last);
    let queries = Shape(queries.map(|(_, queries)| queries.to_vec()));
    same(&same(&heads.one_each(), l)?, &queries)?;
    Ok(out)
}

/// The weights of the keys for each query, `exp(q k^T / sqrt(d) - l)`, of `q, k, l`.
pub(super) fn weights(b: &mut Builder, [q, k, l]: [Var; 3], sees: Sees) -> Var {
    let (q, k) = (scaled(b, q), swapped(b, k));
    let s = matmul(b, q, k);
    let last = b.attr(-1);
    let l = b.emit(Op::Unsqueeze, &[last], &[l]);
    let exponent = b.sub(s, l);
    // What is not seen may be anything, and its exponential infinite.
    let exponent = seen(b, exponent, sees);
    let p = b.unary(Op::Exp, exponent);
    seen(b, p, sees)
}

/// Zero where a query does not see a key, and `x` elsewhere.
fn seen(b: &mut Builder, x: Var, sees: Sees) -> Var {
    let x = match *b.static_of(sees.causal) == Static::Bool(true) {
        true => b.unary(Op::Tril, x),
        false => x,
    };
    let Some(mask) = sees.mask else {
        return x;
    };
    let zero = b.zeros_like(x);
    b.select(mask, x, zero)
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
