//! Constants of a traced function.

use crate::{Cost, Formula, Point, Term, Work};

/// Returns the hash with these hexadecimal digits.
pub const fn hash(digits: &str) -> [u8; 32] {
    const fn digit(c: u8) -> u8 {
        match c {
            b'0'..=b'9' => c - b'0',
            _ => c - b'a' + 10,
        }
    }
    let (digits, mut hash, mut i) = (digits.as_bytes(), [0; 32], 0);
    while i < hash.len() {
        hash[i] = digit(digits[2 * i]) << 4 | digit(digits[2 * i + 1]);
        i += 1;
    }
    hash
}

/// Reason of the first query that rustc did not confirm, as an `Option`. Each text comes before the
/// code that the reasons which end in it start with.
#[doc(hidden)]
#[macro_export]
macro_rules! __unconfirmed {
    ($n_confirmed:expr, $($text:literal: $($code:literal),*);*) => {
        $crate::__private::unconfirmed($n_confirmed, &[$($(::core::concat!($code, $text)),*),*])
    };
}

/// Returns the reason of the first query that rustc did not confirm, if it confirmed only
/// `n_confirmed`.
pub const fn unconfirmed(n_confirmed: usize, reasons: &[&'static str]) -> Option<&'static str> {
    match n_confirmed < reasons.len() {
        true => Some(reasons[n_confirmed]),
        false => None,
    }
}

/// Returns a table of named values, each with its line, its column, and whether it is a residual.
pub const fn points<const N: usize>(
    file: &'static str,
    values: [(&'static str, u32, u32, bool); N],
) -> [Point; N] {
    let mut points = [Point {
        name: "",
        file,
        line: 0,
        column: 0,
        saved: false,
    }; N];
    let mut i = 0;
    while i < N {
        (
            points[i].name,
            points[i].line,
            points[i].column,
            points[i].saved,
        ) = values[i];
        i += 1;
    }
    points
}

/// Returns the cost of a function from its flops, transcendentals and bytes, first of the value,
/// then of the pullback.
pub const fn cost(
    value: [Option<Formula>; 3],
    pullback: [Option<Formula>; 3],
    saved: Option<Formula>,
) -> Cost {
    const fn work([flops, transcendentals, bytes]: [Option<Formula>; 3]) -> Work {
        Work {
            flops,
            transcendentals,
            bytes,
        }
    }
    Cost {
        value: work(value),
        pullback: work(pullback),
        saved,
    }
}

/// Returns a formula from terms: coefficients with the names of their factors.
pub const fn formula(terms: &'static [Term]) -> Option<Formula> {
    Some(Formula::new(terms))
}

/// Reason why no key can hold an argument of one of these types, as far as the types say, or else
/// `$rest`.
#[doc(hidden)]
#[macro_export]
macro_rules! __unkeyed {
    ([$($ty:ty),*] $rest:expr) => {
        $crate::__private::first_reason(&[
            $($crate::__private::why_not_keyed(&|| {
                use $crate::__private::by_type::*;
                (&&$crate::__private::OpaqueResult::<$ty>(::core::marker::PhantomData)).result_shape()
            }),)*
            $rest,
        ])
    };
}

/// Facts of a function without its callees: the hash of its source, folded with the values of the
/// constants that it names, and the reason why a call has side effects.
#[doc(hidden)]
#[macro_export]
macro_rules! __own_facts {
    ($digits:literal [$($constant:expr),*], $impure:expr) => {
        $crate::__private::OwnFacts {
            hash: {
                let hash = $crate::__private::hash($digits);
                $(
                    let kind = $crate::__private::kind_of(&|| {
                        use $crate::__private::by_kind::*;
                        (&&$crate::__private::Constant(&$constant)).kind()
                    });
                    let hash = if kind.is_readable() {
                        kind.require();
                        kind.fold(hash, &$constant)
                    } else {
                        hash
                    };
                )*
                hash
            },
            impure: $impure,
        }
    };
}

/// Facts of a function with callees, on all levels.
///
/// Code with control flow reads its callees on the level `below` its own, because it may call
/// itself. Straight-line code reads them on the `same` level.
#[doc(hidden)]
#[macro_export]
macro_rules! __levels {
    (same $own:expr, $callees:expr, $words:expr) => {
        $crate::__levels! { $own, $callees, $words;
            LEVEL_0 LEVEL_0 LEVEL_1 LEVEL_1 LEVEL_2 LEVEL_2 LEVEL_3 LEVEL_3 LEVEL_4 LEVEL_4
            LEVEL_5 LEVEL_5 LEVEL_6 LEVEL_6 LEVEL_7 LEVEL_7 LEVEL_8 LEVEL_8
        }
    };
    (below $own:expr, $callees:expr, $words:expr) => {
        const LEVEL_0: $crate::__private::Fact = $crate::__private::Fact::own($own);
        $crate::__levels! { $own, $callees, $words;
            LEVEL_1 LEVEL_0 LEVEL_2 LEVEL_1 LEVEL_3 LEVEL_2 LEVEL_4 LEVEL_3
            LEVEL_5 LEVEL_4 LEVEL_6 LEVEL_5 LEVEL_7 LEVEL_6 LEVEL_8 LEVEL_7
        }
    };
    ($own:expr, $callees:expr, $words:expr; $($level:ident $read:ident)*) => {
        $(
            const $level: $crate::__private::Fact = $crate::__private::Fact::with(
                $own,
                $crate::__private::callees::$read($callees),
                $words,
            );
        )*
    };
}
