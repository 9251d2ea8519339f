//! Random numbers against their definition, element by element.

use crate::backend::cpu::tests::naive::Nd;
use gradloom_ir::{DType, Op, Static};
use gradloom_kernels::random::threefry;
use gradloom_maths::{Plain, erf};

/// Evaluates the definition of a draw.
pub(super) fn eval(op: Op, statics: &[Static], key: &Nd, out: &[usize]) -> Nd {
    let key = [key.data[0] as u32, key.data[1] as u32];
    let n: usize = out.iter().product();
    let unit = |i: u64, dtype: &Static| match dtype.dtype() {
        Some(DType::F32) => threefry::uniform32(threefry::bits32(key, i)).into(),
        _ => threefry::uniform64(threefry::bits64(key, i)),
    };
    let element = |i: u64| -> f64 {
        match op {
            Op::FoldIn => {
                threefry::fold_in(key, statics[0].int().unwrap() as u32)[i as usize].into()
            }
            Op::RandomBits => threefry::bits32(key, i).into(),
            Op::RandomUniform => unit(i, &statics[1]),
            Op::RandomNormal => 2f64.sqrt() * inverse_of_erf(2.0 * unit(i, &statics[1]) - 1.0),
            Op::RandomBernoulli => {
                let unit = unit(i, &Static::DType(DType::F32));
                f64::from(u8::from(unit < statics[1].float().unwrap()))
            }
            Op::RandomPermutation => threefry::permutation(key, n)[i as usize] as f64,
            other => unreachable!("`{other}` draws nothing"),
        }
    };
    Nd {
        shape: out.to_vec(),
        data: (0..n as u64).map(element).collect(),
    }
}

/// Inverts `erf` by bisection.
fn inverse_of_erf(y: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        match erf::<Plain, f64>(middle) < y {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}
