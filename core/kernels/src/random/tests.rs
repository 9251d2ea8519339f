//! Random numbers against their definition, element by element.

use super::erf_inv;
use super::fill::{
    Bernoulli, Bits, Draw, NormalDistribution, UniformDistribution, Unit, fill, write_order,
};
use super::threefry::{self, KeyWords};
use std::marker::PhantomData;

/// Compares an array with its elements drawn one by one.
fn check<D: Draw>(draw: D, bits: impl Fn(D::Item) -> u64, one: impl Fn(KeyWords, u64) -> D::Item) {
    let key = threefry::seed(7);
    for n in [0, 1, 63, 64, 65, 1000, 100_003] {
        let mut drawn = vec![D::Item::default(); n];
        fill(draw, key, &mut drawn);
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
    check(Bernoulli(0.3), u64::from, |key, i| unit32(key, i) < 0.3);
    check(
        UniformDistribution::<f32>(PhantomData),
        |y| y.to_bits().into(),
        unit32,
    );
    check(
        UniformDistribution::<f64>(PhantomData),
        f64::to_bits,
        unit64,
    );
    check(
        NormalDistribution::<f32>(PhantomData),
        |y| y.to_bits().into(),
        |key, i| normal(unit32(key, i)),
    );
    check(
        NormalDistribution::<f64>(PhantomData),
        f64::to_bits,
        |key, i| normal(unit64(key, i)),
    );
}

#[test]
fn a_permutation_matches_its_definition() {
    let key = threefry::seed(7);
    for n in [0, 1, 2, 64, 1797, 100_003] {
        let mut order = vec![7; n];
        write_order(key, &mut order).unwrap();
        assert_eq!(order, threefry::permutation(key, n), "{n} numbers");
    }
}
