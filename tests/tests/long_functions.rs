//! Long functions are differentiated at compile time like short ones, and compile quickly: their
//! companions are text that is parsed on first use.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use gradloom_tests::panics::panic_of;

/// Defines a function from its head, first statements, an optional loop around the middle
/// statements, the middle statements, and the last ones. The middle statements are repeated ten
/// times for each `.`.
macro_rules! long {
    ([] {$($head:tt)*} {$($first:tt)*} {} {$($step:tt)*} {$($last:tt)*}) => {
        $($head)* { $($first)* $($step)* $($last)* }
    };
    ([] {$($head:tt)*} {$($first:tt)*} {$($turns:tt)+} {$($step:tt)*} {$($last:tt)*}) => {
        $($head)* { $($first)* $($turns)+ { $($step)* } $($last)* }
    };
    ([. $($more:tt)*] $head:tt $first:tt $turns:tt {$($step:tt)*} $last:tt) => {
        long! {
            [$($more)*] $head $first $turns
            {
                $($step)* $($step)* $($step)* $($step)* $($step)* $($step)* $($step)* $($step)* $($step)* $($step)*
            }
            $last
        }
    };
}

long! {
    [. . .]
    { #[traced] fn two_thousand_statements(x: &Tensor, c: &Tensor) -> Tensor }
    {}
    {}
    { let y = x.sin(); let x = y + c; }
    { x.clone() }
}

// Host statements, static arguments, and values read only for their shape stand between the
// equations.
long! {
    [.]
    { #[traced] fn mixed(x: &Tensor, c: &Tensor, axis: i64) -> (Tensor, Tensor) }
    { let x = x.clone(); let mut total = 0; }
    {}
    {
        let a = x.tanh() * c;
        let [p, q] = a.split(0);
        let d = (p - q.exp()).sum(axis).unsqueeze(axis);
        total += d.dim(0);
        assert!(total > 0, "{:?}", d.shape());
        let n = x.dim(0) as f64;
        let x = (&a / n + d.broadcast_like(&a) * 0.25).sin();
        let x = (x.transpose().softplus() - 0.5).transpose() + c;
    }
    { let s = x.sum(..); (x, s) }
}

// Symbolic zeros are known only at run time: `c` reaches the results only if there are at least two
// iterations.
long! {
    [. .]
    { #[traced] fn in_a_loop(x: &Tensor, c: &Tensor, turns: usize) -> (Tensor, Tensor) }
    {
        let mut h = x.clone();
        let mut both = x.cos();
        let mut z = x.ones_like();
        if turns > 1 { z = c.sin(); }
    }
    { for _ in 0..turns }
    {
        let a = h.tanh();
        let b = (&a * 0.3 + &z * 0.01).sin();
        h = b + a * 0.7;
        both = Tensor::stack(&[&h, &z], 0).sum(0) - &both * 0.1;
    }
    { (h, both) }
}

long! {
    [.]
    { #[traced] fn in_branches(x: &Tensor, c: &Tensor, turns: usize) -> (Tensor, Tensor) }
    {
        let mut h = x.clone();
        let mut z = x.ones_like();
    }
    { for turn in 0..turns }
    {
        if turn == 1 { z = &z * 0.5 + c.sin() * (c * 0.25).exp(); }
        h = (&z + h.tanh() * 0.9).sin() + x.square() * 0.1 - (x * &z).cos();
    }
    { (h, z) }
}

fn matrix(seed: u64) -> Tensor {
    noise(&[4, 3], seed).cast(DType::F64) * 0.4 + 1.1
}

#[test]
fn two_thousand_statements_are_differentiated_at_compile_time() {
    assert!(two_thousand_statements::PROGRAM.lines().count() > 2_000);
    let c = noise(&[3], 2).cast(DType::F64) * 0.001 + 0.001;
    Companions::<(Tensor, Tensor), Tensor> {
        call: &|(x, c)| two_thousand_statements(x, c),
        vjp: &|(x, c), ct| {
            let (y, pullback) = two_thousand_statements::vjp(x, c);
            (y, pullback(ct))
        },
        jvp: &|(x, c), (dx, dc)| two_thousand_statements::jvp((x, c), (dx, dc)),
    }
    .check(&(matrix(1), c));
}

#[test]
fn host_statements_may_stand_between_the_equations_of_a_long_function() {
    for axis in [0, -2] {
        Companions::<(Tensor, Tensor), (Tensor, Tensor)> {
            call: &|(x, c)| mixed(x, c, axis),
            vjp: &|(x, c), ct| {
                let (y, pullback) = mixed::vjp(x, c, axis);
                (y, pullback(ct))
            },
            jvp: &|(x, c), (dx, dc)| mixed::jvp((x, c, axis), (dx, dc)),
        }
        .check(&(matrix(1), matrix(2)));
    }
}

macro_rules! with_turns {
    ($function:ident) => {
        for turns in 0..3 {
            Companions::<(Tensor, Tensor), (Tensor, Tensor)> {
                call: &|(x, c)| $function(x, c, turns),
                vjp: &|(x, c), ct| {
                    let (y, pullback) = $function::vjp(x, c, turns);
                    (y, pullback(ct))
                },
                jvp: &|(x, c), (dx, dc)| $function::jvp((x, c, turns), (dx, dc)),
            }
            .check(&(matrix(1), matrix(2)));
        }
    };
}

#[test]
fn a_long_block_in_a_loop_tracks_symbolic_zeros() {
    with_turns!(in_a_loop);
}

#[test]
fn many_blocks_track_symbolic_zeros() {
    with_turns!(in_branches);
}

#[test]
fn a_wrong_shape_in_a_long_function_panics_at_the_line_of_the_op() {
    // Three rows do not split into two parts.
    let x = noise(&[3, 3], 1);
    let place = panic_of(|| drop(mixed(&x, &x, 0)));
    assert_eq!(panic_of(|| drop(mixed::vjp(&x, &x, 0))), place);
    assert_eq!(panic_of(|| drop(mixed::jvp((&x, &x, 0), (&x, &x)))), place);
}
