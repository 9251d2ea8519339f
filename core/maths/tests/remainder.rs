//! Exact remainders have the bits of the operator.

use gradloom_maths::remainder;

/// Returns random bits.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn check_f32(x: f32, y: f32) -> bool {
    let (rest, exact) = remainder::f32(x, y);
    assert!(
        !exact || rest.to_bits() == (x % y).to_bits(),
        "{x:e} % {y:e}"
    );
    exact
}

fn check_f64(x: f64, y: f64) -> bool {
    let (rest, exact) = remainder::f64(x, y);
    assert!(
        !exact || rest.to_bits() == (x % y).to_bits(),
        "{x:e} % {y:e}"
    );
    exact
}

#[test]
fn exact_remainders_of_floats_have_the_bits_of_the_operator() {
    let special = [
        0.0,
        1.0,
        3.0,
        0.5,
        1e-45,
        1e-308,
        5e-324,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let special = special.into_iter().flat_map(|x| [x, -x]);
    for x in special.clone() {
        for y in special.clone() {
            check_f32(x as f32, y as f32);
            check_f64(x, y);
        }
    }
    assert!(check_f32(7.5, 2.0) && check_f64(-7.5, 2.0) && !check_f64(1.0, f64::INFINITY));
    let mut state = 88_172_645_463_325_252;
    for i in 0..200_000 {
        let mut next = || random(&mut state);
        // Divisors of a similar exponent, and numbers beside their multiples.
        let x = f32::from_bits(next() as u32);
        let exponent = (x.to_bits() & 0x7f80_0000).saturating_sub((next() as u32 % 32) << 23);
        let y = f32::from_bits(next() as u32 & 0x807f_ffff | exponent & 0x7f80_0000);
        check_f32(x, y);
        check_f32(y * (next() >> (40 + i % 24)) as f32, y);
        let x = f64::from_bits(next());
        let exponent = (x.to_bits() & (0x7ff << 52)).saturating_sub((next() % 56) << 52);
        let y = f64::from_bits(next() & !(0x7ff << 52) | exponent & (0x7ff << 52));
        check_f64(x, y);
        let multiple = (y * (next() >> (12 + i % 50)) as f64).to_bits();
        for bits in [multiple.wrapping_sub(1), multiple, multiple.wrapping_add(1)] {
            check_f64(f64::from_bits(bits), y);
        }
    }
}

#[test]
fn remainders_of_integers_are_those_of_the_operator() {
    let rem = |x: i64, y: i64| if y == 0 { 0 } else { x.wrapping_rem(y) };
    let check = |x: i64, y: i64| {
        let (rest, exact) = remainder::i64(x, y);
        assert!(!exact || rest == rem(x, y), "{x} % {y}");
        let (x, y) = (x as i32, y as i32);
        let want = rem(i64::from(x), i64::from(y)) as i32;
        assert_eq!(remainder::i32(x, y), (want, true), "{x} % {y}");
    };
    let special = [
        0,
        1,
        -1,
        2,
        i64::MIN,
        i64::MAX,
        1 << 31,
        -1 << 31,
        1 << 50,
        -1 << 50,
    ];
    special
        .iter()
        .for_each(|x| special.iter().for_each(|y| check(*x, *y)));
    let mut state = 88_172_645_463_325_252;
    for i in 0..200_000 {
        let (x, y) = (random(&mut state) as i64, random(&mut state) as i64);
        let (x, y) = (x >> (i % 50), y >> (i % 63));
        check(x, y);
        let multiple = y.wrapping_mul(x >> 20);
        for off in [-1, 0, 1] {
            check(multiple.wrapping_add(off), y);
        }
    }
}
