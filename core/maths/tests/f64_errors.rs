//! The error of each function in double precision, at points with known exact results.
//!
//! A line of `f64_values.txt` has the name, the bits of the arguments, the bits of the result, and
//! the difference of the exact result from it, computed with at least 60 digits (mpmath). The
//! arguments of `sin`, `cos` and `tan` include the one closest to a multiple of `pi / 2`.

use gradloom_maths::{self as maths, Fused, Plain};
use std::collections::BTreeMap;

/// Returns the bound on the error of a function, in ulp.
fn bound(name: &str) -> f64 {
    match name {
        "exp" | "log" | "log1p" | "sin" | "cos" => 1.0,
        "erf" | "gelu_tanh" | "pow" => 1.5,
        "erf_inv" | "erfcx" | "ndtri" | "lgamma" | "digamma" | "logaddexp" | "mish" | "exp1"
        | "expi" | "spence" => 4.0,
        "polygamma" => 50.0,
        "zeta" | "zeta_ds" => 10.0,
        "expn" => 20.0,
        "gammainc" | "gammaincc" | "betainc" => 200.0,
        "gammainc_da" | "gamma_density" | "betainc_dab" | "beta_density" => 4500.0,
        _ => 2.0,
    }
}

fn values(name: &str, args: &[f64]) -> [f64; 2] {
    macro_rules! pick {
        ($($f:ident)*; $($g:ident)*; $($h:ident)*; $($i:ident)*) => {
            match name {
                $(stringify!($f) => [maths::$f::<Plain, f64>(args[0]), maths::$f::<Fused, f64>(args[0])],)*
                $(stringify!($g) => [maths::$g::<Plain, f64>(args[0], args[1]), maths::$g::<Fused, f64>(args[0], args[1])],)*
                $(stringify!($h) => [maths::$h::<Plain, f64>(args[0], args[1], args[2]), maths::$h::<Fused, f64>(args[0], args[1], args[2])],)*
                $(stringify!($i) => [maths::$i::<Plain, f64>(args[0], args[1], args[2], args[3]), maths::$i::<Fused, f64>(args[0], args[1], args[2], args[3])],)*
                _ => panic!("there is no function `{name}`"),
            }
        };
    }
    pick!(exp expm1 log log1p softplus tanh sigmoid erf erfc gelu gelu_tanh sin cos tan asin acos atan sinh cosh
        asinh acosh atanh cbrt log2 log10 exp2 erf_inv erfcx ndtri lgamma digamma mish exp1 expi spence; pow atan2 hypot logaddexp polygamma gammainc gammaincc zeta expn;
        gammainc_da gamma_density zeta_ds betainc; betainc_dab beta_density)
}

/// Returns the distance from `hi + lo`, in ulp of `hi`.
fn ulps(found: f64, hi: f64, lo: f64) -> f64 {
    let exponent = ((hi.abs().to_bits() >> 52) as i32 - 1023).max(-1022);
    // Scale in two steps, because the unit may be below the least normal number.
    ((found - hi) - lo).abs() / 2f64.powi(exponent) * 2f64.powi(52)
}

#[test]
fn no_error_exceeds_its_bound() {
    let mut worst: BTreeMap<&str, [(f64, f64); 2]> = BTreeMap::new();
    for line in include_str!("f64_values.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (name, lo) = (words[0], words[words.len() - 1].parse().expect("a number"));
        let numbers: Vec<f64> = words[1..words.len() - 1]
            .iter()
            .map(|w| f64::from_bits(u64::from_str_radix(w, 16).expect("bits")))
            .collect();
        let (&hi, args) = numbers.split_last().expect("a result");
        let worst = worst.entry(name).or_default();
        for (worst, found) in worst.iter_mut().zip(values(name, args)) {
            let error = ulps(found, hi, lo);
            assert!(
                error.is_finite(),
                "{name} of {args:?} is {found:e}, and should be {hi:e}"
            );
            if error > worst.0 {
                *worst = (error, args[0]);
            }
        }
    }
    let mut bad = Vec::new();
    for (name, [plain, fused]) in worst {
        println!(
            "{name:<10} plain {:.3} at {:e}, fused {:.3} at {:e}",
            plain.0, plain.1, fused.0, fused.1
        );
        if plain.0.max(fused.0) > bound(name) {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "more than the bound: {bad:?}");
}

#[test]
fn the_fast_functions_give_the_same_bits_as_the_general_ones() {
    for i in 0..20_000 {
        let x = (f64::from(i) - 10_000.0) * 104.857;
        assert!(maths::in_fast_range(x));
        macro_rules! check {
            ($($f:ident $g:ident),*) => {$(
                assert_eq!(maths::$f::<Fused, f64>(x).to_bits(), maths::$g::<Fused, f64>(x).to_bits(), "{x}");
                assert_eq!(maths::$f::<Plain, f64>(x).to_bits(), maths::$g::<Plain, f64>(x).to_bits(), "{x}");
                let short = x as f32;
                assert_eq!(maths::$f::<Fused, f32>(short).to_bits(), maths::$g::<Fused, f32>(short).to_bits(), "{x}");
            )*};
        }
        check!(sin fast_sin, cos fast_cos, tan fast_tan);
    }
    assert!(maths::in_fast_range(f64::NAN) && !maths::in_fast_range(f64::INFINITY));
}
