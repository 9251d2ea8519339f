//! Random numbers against their definition, element by element.

use super::super::random::{self, Bits, Draw, Flips, Normal, Uniform, Unit};
use super::naive::Nd;
use crate::random::erf_inv;
use crate::random::threefry::{self, Words};
use gradloom_ir::{DType, Op, Static};
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

/// Compares an array with its elements drawn one by one.
fn check<D: Draw>(draw: D, bits: impl Fn(D::Item) -> u64, one: impl Fn(Words, u64) -> D::Item) {
    let key = threefry::seed(7);
    for n in [0, 1, 63, 64, 65, 1000, 100_003] {
        let mut drawn = vec![D::Item::default(); n];
        random::fill(draw, key, &mut drawn);
        for (i, y) in drawn.into_iter().enumerate() {
            assert_eq!(bits(y), bits(one(key, i as u64)), "element {i} of {n}");
        }
    }
}

fn normal<T: Unit>(unit: T) -> T {
    let u = (unit + unit + T::LOW).at_least(T::LOW);
    let w = erf_inv::w(u);
    let p = match w < T::TAIL {
        true => T::centre(w),
        false => T::tail(w),
    };
    T::ROOT * (p * u)
}

#[test]
fn an_array_drawn_in_parts_equals_its_elements_drawn_one_by_one() {
    let unit32 = |key, i| threefry::uniform32(threefry::bits32(key, i));
    let unit64 = |key, i| threefry::uniform64(threefry::bits64(key, i));
    check(Bits, |y| y as u64, |key, i| threefry::bits32(key, i).into());
    check(Flips(0.3), u64::from, |key, i| unit32(key, i) < 0.3);
    check(Uniform::<f32>::DRAW, |y| y.to_bits().into(), unit32);
    check(Uniform::<f64>::DRAW, f64::to_bits, unit64);
    check(
        Normal::<f32>::DRAW,
        |y| y.to_bits().into(),
        |key, i| normal(unit32(key, i)),
    );
    check(Normal::<f64>::DRAW, f64::to_bits, |key, i| {
        normal(unit64(key, i))
    });
}

#[test]
fn a_permutation_matches_its_definition() {
    let key = threefry::seed(7);
    for n in [0, 1, 2, 64, 1797, 100_003] {
        let order = random::order(key, n).unwrap();
        assert_eq!(order, threefry::permutation(key, n), "{n} numbers");
    }
}
