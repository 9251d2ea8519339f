//! Ops on host code: custom functions, whose rules are code of the user, and kernels of the user.
//!
//! The rules of a custom function run when a derivative is recorded, not when a plan runs. So no plan contains
//! `custom_tangent` or `custom_cotangent`.

use super::{Control, check_number, control_op, count, stacked};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::{Aval, Builder, DType, Dim, Fault, Op, Static, StaticKind, Var};

/// `y... = custom[code, outs] inner..., x...`: the values that a custom function has computed.
///
/// There are as many `inner` as results. Without an `x`, the op is the identity.
pub(crate) struct Custom;

control_op!(
    Custom,
    "custom",
    &[
        StaticKind::Code.named("code"),
        StaticKind::KnownCount.named("outs"),
    ],
    batch_custom,
    &["(y: f64[2], x: f64[2]) { z = custom[code=`square#1`, outs=1] y, x return z }"]
);

/// `dy... = custom_tangent[code, outs, active] x..., y..., dx...`: the tangents of the results that are floats.
///
/// `active` lists the `x` with a tangent. Its transpose is `custom_cotangent`.
pub(crate) struct CustomTangent;

control_op!(
    CustomTangent,
    "custom_tangent",
    &[
        StaticKind::Code.named("code"),
        StaticKind::KnownCount.named("outs"),
        StaticKind::Positions.named("active"),
    ],
    |_, _| None,
    &[
        "(x: f64[2], y: f64[2], dx: f64[2]) { dy = custom_tangent[code=`square#1`, outs=1, active=[0]] x, y, dx return dy }"
    ]
);

/// `ct_x... = custom_cotangent[code, outs, active] x..., y..., ct_y...`: the cotangents of the active `x`.
///
/// There is a `ct_y` for each result that is a float.
pub(crate) struct CustomCotangent;

control_op!(
    CustomCotangent,
    "custom_cotangent",
    &[
        StaticKind::Code.named("code"),
        StaticKind::KnownCount.named("outs"),
        StaticKind::Positions.named("active"),
    ],
    |_, _| None,
    &[
        "(x: f64[2], y: f64[2], ct: f64[2]) { dx = custom_cotangent[code=`square#1`, outs=1, active=[0]] x, y, ct return dx }"
    ]
);

/// `y... = custom_lanes[code, outs, each, len] inner..., x...`: the results of a custom function for all lanes of
/// `vmap`, by its rule.
///
/// `inner` are values without elements, of the shapes in one lane. `each` lists the `x` with a first axis of lanes.
pub(crate) struct CustomLanes;

control_op!(
    CustomLanes,
    "custom_lanes",
    &[
        StaticKind::Code.named("code"),
        StaticKind::KnownCount.named("outs"),
        StaticKind::Positions.named("each"),
        StaticKind::KnownCount.named("len"),
    ],
    |_, _| None,
    &[
        "(y: f64[2], x: f64[3, 2]) { z = custom_lanes[code=`square#1`, outs=1, each=[0], len=3] y, x return z }"
    ]
);

/// `y... = host_kernel[code, lanes] x...`: a kernel of the user.
///
/// `lanes` are the lengths of leading axes of all operands and results. The kernel runs for each of their
/// indices.
pub(crate) struct HostKernel;

control_op!(
    HostKernel,
    "host_kernel",
    &[
        StaticKind::Code.named("code"),
        StaticKind::Positions.named("lanes"),
    ],
    batch_kernel,
    &[]
);

/// Returns whether the aval is that of a float, as far as it is known.
fn is_float(aval: &Aval) -> bool {
    aval.dtype.is_none_or(DType::is_float)
}

/// Returns the positions of the operands with a tangent.
fn active(statics: &[Static], n_args: usize) -> Result<Vec<usize>, Fault> {
    let active = statics[2].ints().unwrap_or_default();
    let known = active.iter().map(|i| usize::try_from(*i).ok());
    let known = known.map(|i| i.filter(|i| *i < n_args));
    let known: Option<Vec<usize>> = known.collect();
    known.ok_or_else(|| statics[2].refused("active"))
}

/// Returns the operands of an op that is linear in its last ones: those of the function, and its results.
fn parts<'a>(
    statics: &[Static],
    args: &'a [&'a Aval],
    n_linear: usize,
) -> Result<(&'a [&'a Aval], &'a [&'a Aval]), Fault> {
    let outs = count(statics, 1);
    let n = args.len().checked_sub(outs + n_linear);
    let n = n.ok_or_else(|| Fault::Arity {
        found: args.len(),
        expected: format!("at least {} operands", outs + n_linear),
    })?;
    Ok((&args[..n], &args[n..][..outs]))
}

fn owned<'a>(avals: impl Iterator<Item = &'a &'a Aval>) -> Vec<Aval> {
    avals.map(|aval| (*aval).clone()).collect()
}

impl Control for Custom {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let outs = count(statics, 1);
        if args.len() < outs {
            check_number(args.len(), outs)?;
        }
        Ok(owned(args[..outs].iter()))
    }
}

impl Control for CustomTangent {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let n_linear = statics[2].ints().map_or(0, <[i64]>::len);
        let (x, y) = parts(statics, args, n_linear)?;
        active(statics, x.len())?;
        Ok(owned(y.iter().filter(|y| is_float(y))))
    }
}

impl Control for CustomLanes {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let outs = count(statics, 1);
        if args.len() < outs {
            check_number(args.len(), outs)?;
        }
        active(statics, args.len() - outs)?;
        let len = count(statics, 3);
        Ok(args[..outs].iter().map(|one| stacked(one, len)).collect())
    }

    fn is_reversible(&self) -> bool {
        false
    }

    fn is_forward(&self) -> bool {
        false
    }
}

impl Control for CustomCotangent {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let outs = count(statics, 1);
        // Each result that is a float has a cotangent, which is an operand as well.
        let n_of = |n_linear: usize| {
            let y = args.len().checked_sub(outs + n_linear);
            y.map_or(0, |n| {
                args[n..][..outs].iter().filter(|y| is_float(y)).count()
            })
        };
        let n_linear = (0..=outs).find(|n| n_of(*n) == *n).unwrap_or(outs);
        let (x, _) = parts(statics, args, n_linear)?;
        let active = active(statics, x.len())?;
        Ok(owned(active.iter().map(|i| &x[*i])))
    }

    fn is_reversible(&self) -> bool {
        false
    }

    fn is_forward(&self) -> bool {
        false
    }
}

impl Control for HostKernel {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Some(code) = statics[0].code() else {
            return Err(Fault::Code {
                reason: format!("the text form does not hold the code of {}", statics[0]),
            });
        };
        let lanes: Vec<Dim> = lanes(statics).into_iter().map(Dim::Known).collect();
        let one = |arg: &&Aval| {
            let dims = arg
                .shape
                .dims()
                .and_then(|dims| dims.strip_prefix(&lanes[..]));
            let shape = dims.ok_or_else(|| Fault::Code {
                reason: format!("the operand {arg} does not have the lanes"),
            })?;
            Ok(Aval {
                dtype: arg.dtype,
                shape: shape.to_vec().into(),
            })
        };
        let args = args.iter().map(one).collect::<Result<Vec<Aval>, Fault>>()?;
        let outs = code.get().infer(&args.iter().collect::<Vec<_>>())?;
        let all = outs.into_iter().map(|out| {
            let dims = out.shape.dims().unwrap_or_default();
            Aval {
                dtype: out.dtype,
                shape: [&lanes[..], dims].concat().into(),
            }
        });
        Ok(all.collect())
    }

    fn is_reversible(&self) -> bool {
        false
    }

    fn is_forward(&self) -> bool {
        false
    }
}

/// Returns the lengths of the axes of lanes of a kernel.
pub fn lanes(statics: &[Static]) -> Vec<usize> {
    let lens = statics[1].ints().unwrap_or_default().iter();
    lens.map(|len| usize::try_from(*len).unwrap_or(0)).collect()
}

/// The rule of the function computes all lanes.
fn batch_custom(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let n_outs = of.eqn.outs.len();
    let (inner, x) = of.args.split_at(n_outs);
    if inner.iter().any(|inner| inner.is_each()) {
        return None;
    }
    let each = (0..).zip(x).filter(|(_, x)| x.is_each()).map(|(i, _)| i);
    let attrs = [
        b.attr(statics[0].clone()),
        b.attr(statics[1].clone()),
        b.attr(each.collect::<Vec<i64>>()),
        b.attr(of.len as i64),
    ];
    let args: Vec<Var> = of.args.iter().map(|arg| arg.var()).collect();
    let outs = b.emit_many(Op::CustomLanes, &attrs, &args, n_outs);
    Some(outs.into_iter().map(Lane::Each).collect())
}

/// The kernel runs for each lane.
fn batch_kernel(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let args = of.all(b)?;
    let lens = [of.len].into_iter().chain(lanes(&statics));
    let lens: Vec<i64> = lens.map(|len| len as i64).collect();
    let attrs = [b.attr(statics[0].clone()), b.attr(lens)];
    let outs = b.emit_many(Op::HostKernel, &attrs, &args, of.eqn.outs.len());
    Some(outs.into_iter().map(Lane::Each).collect())
}

impl Custom {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        of.args[..of.outs.len()].to_vec()
    }
}

/// Implements `reference` for ops whose results are those of host code.
macro_rules! no_reference {
    ($($ty:ident)*) => {$(
        impl $ty {
            /// Panics: only the run time can run host code.
            pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
                unreachable!("`{}` runs host code", of.op)
            }
        }
    )*};
}

no_reference! { CustomTangent CustomCotangent CustomLanes HostKernel }
