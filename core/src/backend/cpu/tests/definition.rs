//! Reference results: the scalar loop of an elementwise op, and [`naive`] for any other op.

use crate::Aval;
use crate::backend::cpu::tests::cases::Case;
use crate::backend::cpu::tests::naive;
use crate::backend::cpu::tests::naive::Nd;
use crate::backend::cpu::tests::view::{View, nd_of};
use gradloom_ir::DType;
use gradloom_ir::op::Eval;
use gradloom_kernels::elementwise::op_loops::{binary, unary};
use gradloom_kernels::memory::Element;

/// Returns the reference results of a case for these operands.
pub(super) fn definition(case: &Case, values: &[Nd]) -> Vec<Nd> {
    let one = match (case.op.def().eval(), case.args.first().map(Aval::dtype)) {
        (Eval::Unary(f), Some(DType::F32)) => each(case, values, |x, _, y| unary(&f.f32, x, y)),
        (Eval::Unary(f), Some(DType::F64)) => each(case, values, |x, _, y| unary(&f.f64, x, y)),
        (Eval::Binary(f), Some(DType::F32)) => {
            each(case, values, |x, y, z| binary(&f.f32, x, y, z))
        }
        (Eval::Binary(f), Some(DType::F64)) => {
            each(case, values, |x, y, z| binary(&f.f64, x, y, z))
        }
        (Eval::Compare(f), Some(DType::F32)) => each(case, values, |x, y, z| {
            as_bool(z, |byte| binary(&f.f32, x, y, byte));
        }),
        (Eval::Compare(f), Some(DType::F64)) => each(case, values, |x, y, z| {
            as_bool(z, |byte| binary(&f.f64, x, y, byte));
        }),
        _ => {
            let shapes =
                |avals: &[Aval]| avals.iter().map(|a| a.shape().to_vec()).collect::<Vec<_>>();
            let (likes, outs) = (shapes(&case.likes), shapes(&case.outs));
            return naive::eval(case.op, &case.statics, values, &likes, &outs);
        }
    };
    vec![one]
}

/// Runs a loop that writes one bool as a byte.
fn as_bool(out: &mut [bool], f: impl FnOnce(&mut [u8])) {
    let mut byte = [255];
    f(&mut byte);
    assert!(byte[0] <= 1, "the byte must be a valid bool");
    out[0] = byte[0] == 1;
}

/// Runs the loop of a unary or binary op element by element.
fn each<T: Element, U: Element>(
    case: &Case,
    values: &[Nd],
    f: impl Fn(&[T], &[T], &mut [U]),
) -> Nd {
    let shape = case.outs[0].shape();
    let views = case.views(values);
    let full: Vec<View> = views
        .iter()
        .map(|v| v.broadcast_to(shape).to_copy())
        .collect();
    let (first, last) = (full[0].data(), full[full.len() - 1].data());
    let mut out = vec![U::default(); first.len()];
    for (i, y) in out.iter_mut().enumerate() {
        f(&first[i..=i], &last[i..=i], std::slice::from_mut(y));
    }
    nd_of(&View::new(out, shape))
}
