//! Checkpointed loops that change host state, and nested ones.

use crate::host_values::{Layers, layers};
use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;

#[traced]
impl Layers {
    pub(crate) fn popped(&self, x: &Tensor, n: usize) -> Tensor {
        let mut todo: Vec<usize> = (0..n).collect();
        let mut h = x.clone();
        // The condition is evaluated once per iteration, although iterations are recomputed.
        #[checkpoint(every = 2)]
        while let Some(k) = todo.pop() {
            if k == 4 {
                todo.push(1);
                todo.push(0);
            }
            h = self.layers[k].forward(&h).sin() + k as f64;
        }
        h
    }

    pub(crate) fn bounded(&self, x: &Tensor, n: usize) -> Tensor {
        let mut bound = n;
        let mut h = x.clone();
        let order: Vec<usize> = (0..n).rev().collect();
        #[checkpoint(every = 2)]
        for i in 0..bound {
            bound = 1;
            h = self.layers[i].forward(&h).sin();
        }
        #[checkpoint(every = 3)]
        for i in order {
            h = self.layers[i].forward(&h).sin() * bound as f64;
        }
        let mut i = n;
        #[checkpoint(every = bound)]
        while h.square().sum(..).item::<f64>() < 10.0 * i as f64 && i < 9 {
            h = h * 1.25 + 0.1;
            i += 1;
        }
        h
    }

    pub(crate) fn carried(&self, x: &Tensor, n: usize) -> Tensor {
        let mut state = (x.clone(), 1.0, 0usize);
        let by = 2.0;
        let wave = |t: &Tensor| t.sin() * by;
        let weights = vec![0.5, 0.25, 2.0];
        #[checkpoint(every = 2)]
        for i in 0..n {
            state.1 *= weights[i % 3];
            let w = &self.layers[i].w;
            state = (
                wave(&state.0.matmul(w)) + state.1,
                state.1 + i as f64,
                state.2 + 1,
            );
        }
        state.0 * state.2 as f64 + state.1
    }

    pub(crate) fn nested(&self, x: &Tensor, _n: usize) -> Tensor {
        let mut h = x.clone();
        let mut g = x.sin();
        let mut count = 0;
        #[checkpoint(every = 2)]
        for i in 0..self.layers.len() {
            let before = h.clone();
            #[checkpoint(every = 3)]
            for j in 0..4 {
                count += 1;
                h = self.layers[i].forward(&h).sin() * 0.5 + count as f64 * 0.01;
                if j == 2 && i == 1 {
                    break;
                }
                if i == 2 {
                    continue;
                }
                g = g + &h * &before;
            }
            match i {
                0 => {}
                1 => g = g.sin(),
                _ => h = h + &g,
            }
        }
        h + g * count as f64 * 0.1
    }

    pub(crate) fn paired(&self, x: &Tensor, n: usize) -> Tensor {
        let mut state = (x.clone(), x.sin());
        let mut i = 0;
        #[checkpoint(every = 2)]
        loop {
            if i == n {
                break;
            }
            let (a, b) = (state.0.clone(), state.1.clone());
            state = (b.sin() + &a, self.layers[i].forward(&a));
            if let Some(bias) = &self.layers[i].b {
                state.0 = state.0 + bias;
            }
            i += 1;
        }
        state.0 * state.1 * i as f64
    }
}

/// Variables without a name have the same numbers in the loop and after it. A loop of host code has
/// no residuals.
#[traced]
pub(crate) fn numbered(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let a = x.sin();
    let mut total = 0.0;
    let mut last = y.clone();
    #[checkpoint(every = 2)]
    for i in 0..n {
        last = match i % 3 {
            0 => a.sin(),
            1 => (x + y).cos() * x,
            _ => ((if n > 4 { y.tanh() } else { y.cos() }) - 0.75).tanh(),
        };
    }
    #[checkpoint(every = 2)]
    for i in 0..n {
        total += i as f64;
    }
    let state = (x * y * &last, total);
    if n.is_multiple_of(2) || state.0.sum(..).item::<f64>() > 0.05 {
        total += 1.0;
    }
    &state.0 * state.1 + total * a
}

#[test]
fn the_residuals_of_a_loop_are_the_values_it_reads() {
    check_two!(numbered, 0..7);
}

macro_rules! check_layers {
    ($f:ident, $vjp:ident, $jvp:ident) => {
        for n in 0..6 {
            Companions {
                call: &|(m, x): &(Layers, Tensor)| m.$f(x, n),
                vjp: &|(m, x), ct| {
                    let (y, pullback) = m.$vjp(x, n);
                    (y, pullback(ct))
                },
                jvp: &|(m, x), (dm, dx)| m.$jvp((x, n), (dm, dx)),
            }
            .check(&(layers(n), noise(&[2, 3], 7)));
        }
    };
}

#[test]
fn iterations_that_change_host_state_are_recomputed() {
    check_layers!(popped, popped_vjp, popped_jvp);
    check_layers!(bounded, bounded_vjp, bounded_jvp);
    check_layers!(carried, carried_vjp, carried_jvp);
    check_layers!(paired, paired_vjp, paired_jvp);
}

#[test]
fn checkpointed_loops_can_be_nested() {
    check_layers!(nested, nested_vjp, nested_jvp);
}
