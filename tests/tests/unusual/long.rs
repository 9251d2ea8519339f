#![deny(warnings)]

use gradloom::prelude::*;

/// A function with a statement for each of the names.
macro_rules! long {
    ($first:ident $($h:ident)*) => {
        #[traced]
        fn long($first: &Tensor) -> Tensor {
            let mut $first = $first.clone();
            $first = $first.sin() * 1.5;
            $($h = $h.sin() * 1.5;)*
            $first
        }
    };
}

/// Doubles a list of names for each `+`.
macro_rules! double {
    ([$($h:ident)*]) => { long! { $($h)* } };
    ([$($h:ident)*] + $($more:tt)*) => { double! { [$($h)* $($h)*] $($more)* } };
}

double! { [h] + + + + + + + + + + + }

/// Expressions in expressions.
macro_rules! nested {
    ($x:ident [$($done:tt)*]) => {
        #[traced]
        fn deep($x: &Tensor) -> Tensor {
            $($done)*
        }
    };
    ($x:ident [$($done:tt)*] + $($more:tt)*) => {
        nested! { $x [(($($done)*).sin() + $x)] $($more)* }
    };
}

nested! { x [x] + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + + }

#[test]
fn runs() {
    let x = &Tensor::scalar(0.5f32);
    assert!(long::PROGRAM.contains("h_2048"), "{}", long::PROGRAM);
    long::grad(x);
    assert!(deep::PROGRAM.contains("return"), "{}", deep::PROGRAM);
    deep::grad(x);
}
