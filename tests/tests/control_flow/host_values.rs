//! Host values that change while tensors are computed: counters, stacks, and values read from them.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;

#[traced]
pub(crate) fn in_tuples(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut i = 1;
    let early = (x.sin(), i);
    i += n;
    let late = (y.sin(), i as f64);
    i += 1;
    early.0 * early.1 as f64 + late.0 * late.1 * i as f64
}

#[traced]
pub(crate) fn from_a_stack(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut stack = vec![1, 2, 3, 4, 5, 6, 7, 8];
    let mut h = x.clone();
    for _ in 0..n {
        // Each element is popped exactly once, even if it is used twice or not at all.
        let pair = (h.sin(), stack.pop().unwrap_or(0));
        h = &pair.0 * pair.1 as f64 + pair.1 as f64;
        let _unread = (y.sin(), stack.pop());
    }
    h * y * stack.len() as f64
}

#[traced]
pub(crate) fn of_old_values(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let mut i = 1;
    for k in 0..n {
        let old = (h.sin(), i, h.sum(..).item::<f64>() > 0.1);
        i += k;
        h = h * 2.0;
        if k % 2 == 0 {
            h = h + y;
        }
        if old.2 {
            h = h * old.1 as f64;
        }
        h = h + old.0;
    }
    h
}

#[traced]
pub(crate) fn exchanged(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let (mut h, mut g) = (x.clone(), y.clone());
    let (mut a, mut b) = (1.0, 2.0);
    for _ in 0..n {
        h = h * a + y * b;
        (a, b) = (b, a + b);
        (a, h, b, g) = (b, g, a + b, h);
    }
    h + g * a
}

/// A tuple of tensors and host values as state.
#[traced]
pub(crate) fn states(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut state = (x.clone(), 0usize, 1.0);
    for i in 0..n {
        state.1 += i;
        state.0 = state.0.sin() * state.2;
        state.2 *= 1.5;
        let old = state.clone();
        let weight = state.2;
        state = (state.0 + y, state.1 + 1, state.2 * 0.5);
        if state.1 == 3 {
            state = (old.0, old.1, weight + state.2);
        }
    }
    state.0 * state.1 as f64 + state.2
}

#[traced]
pub(crate) fn pushed(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let stack = vec![1.0, 2.0];
    let mut pair = (x.clone(), stack, 0usize);
    for i in 0..n {
        pair.1.push(i as f64);
        pair.2 += 1;
        pair.0 = &pair.0 * pair.1[pair.2];
        if i == 2 {
            pair.1 = vec![3.0, 1.0, 2.0, 5.0, 6.0, 7.0];
        }
    }
    pair.0 * pair.1.len() as f64 + y
}

#[traced]
pub(crate) fn nested(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut s = ((x.clone(), y.clone()), (1.0, x.sin()));
    for i in 0..n {
        let ((a, b), (k, c)) = s;
        s = if i % 2 == 0 {
            ((b.clone(), a * k), (k + 1.0, c.sin() + b))
        } else {
            ((a, b), (k * 0.5, c))
        };
        (s.0.0, s.0.1) = (s.0.1, s.0.0);
        s.1.0 += 0.5;
    }
    let ((a, b), (k, c)) = s;
    a * b * k + c
}

#[traced]
pub(crate) fn best_so_far(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let mut best: Option<f64> = None;
    let mut last: Option<(usize, f64)> = None;
    for i in 0..n {
        let s = h.sum(..).item::<f64>();
        match best {
            Some(b) if b > s => h = h * 0.5,
            Some(_) | None => {
                best = Some(s);
                h = h + y;
            }
        }
        if let Some((j, t)) = last.take() {
            h = h + (j as f64) * (t > 0.0) as u8 as f64;
        }
        last = Some((i, s));
        let Some(b) = best else {
            unreachable!("{i} {s}")
        };
        if b > 100.0 {
            return h;
        }
    }
    h
}

/// Operands are evaluated from left to right.
#[traced]
pub(crate) fn in_order(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut stack: Vec<f64> = (0..n + 6).map(|i| i as f64 * 0.5).collect();
    let h = stack.pop().unwrap_or(0.0) * (x * stack.pop().unwrap_or(0.0));
    let g = weighted(
        y,
        stack.pop().unwrap_or(0.0),
        &(&h * stack.pop().unwrap_or(0.0)),
    );
    if n > 1 {
        g * stack.len() as f64
    } else {
        g.sin()
    }
}

#[traced]
fn weighted(x: &Tensor, weight: f64, y: &Tensor) -> Tensor {
    x * weight + y
}

#[test]
fn a_tuple_keeps_the_value_at_its_creation() {
    check_two!(states, 0..6);
    check_two!(pushed, 0..4);
    check_two!(nested, 0..4);
    check_two!(best_so_far, 0..4);
    check_two!(in_order, 0..3);
    check_two!(in_tuples, 0..3);
    check_two!(from_a_stack, 0..4);
    check_two!(of_old_values, 0..4);
    check_two!(exchanged, 0..4);
}

#[traced]
pub(crate) fn noted(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let (mut seen, mut counts) = (Vec::new(), [0; 4]);
    let mut h = x.clone();
    for i in 0..n {
        h = h.sin() + y;
        seen.push(h.sum(..).item::<f64>());
        counts[i % 2] += h.dim(0);
        counts[2] = i;
        counts[3] %= h.dim(0);
    }
    let largest = seen.iter().copied().fold(0.0, f64::max);
    h * largest.ceil() + counts[0] as f64 * seen.len() as f64 + counts[2] as f64
}

#[traced]
pub(crate) fn stepped(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let (mut at, mut steps) = (n, Vec::new());
    loop {
        h = h.sin() + y * at as f64;
        steps.push(match at {
            7 => break,
            k => k,
        });
        h = h.cos();
        at = match at {
            0 => break,
            k => k - 1,
        };
        at -= match at {
            4 => break,
            k => k / 3,
        };
    }
    h * steps.len() as f64
}

#[test]
fn host_code_is_run_for_its_side_effects() {
    check_two!(noted, 0..4);
    check_two!(stepped, [0, 1, 2, 5, 6, 7, 8]);
}

#[traced]
pub(crate) fn shown(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    for i in 0..n {
        h = h.sin();
        assert!(h.dim(0) == 3, "turn {i} of {n}");
    }
    for i in 0..n {
        assert!(i < 100, "turn {i} of {n:>i$}");
        if i > 50 {
            panic!("turn {i}: {h}");
        }
        h = h * y;
        assert_eq!(h.dim(0), y.dim(0), "{h} at {i}");
    }
    assert!(h.sum(..).item::<f64>() < 1e9);
    h
}

#[test]
fn panic_messages_may_use_locals() {
    check_two!(shown, 0..3);
}

/// Layers selected by index.
#[derive(Tree)]
pub(crate) struct Layers {
    pub(crate) layers: Vec<Layer>,
    #[tree(skip)]
    on: Vec<bool>,
}

/// A layer with or without a bias.
#[derive(Tree)]
pub(crate) struct Layer {
    pub(crate) w: Tensor,
    pub(crate) b: Option<Tensor>,
}

#[traced]
impl Layer {
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let h = x.matmul(&self.w);
        match &self.b {
            Some(b) => h + b,
            None => h,
        }
    }
}

pub(crate) fn layers(n: usize) -> Layers {
    let layer = |i: usize| Layer {
        w: noise(&[3, 3], 10 * i as u64 + 1),
        b: i.is_multiple_of(2).then(|| noise(&[3], 10 * i as u64 + 2)),
    };
    Layers {
        layers: (0..n).map(layer).collect(),
        on: (0..n + 1).map(|i| i % 3 != 1).collect(),
    }
}

#[traced]
impl Layers {
    pub(crate) fn counted(&self, x: &Tensor, n: usize) -> Tensor {
        let mut i = 0;
        let mut h = x.matmul(&self.layers[i].w);
        i += 1;
        h = h.matmul(&self.layers[i].w);
        while i < n {
            h = self.layers[i].forward(&h);
            h = h.matmul(&self.layers[i].w).sin();
            i += 1;
        }
        i -= n;
        self.layers[i].forward(&h) * self.layers[i + 1].w.sum(..)
    }

    pub(crate) fn held(&self, x: &Tensor, n: usize) -> Tensor {
        let mut i = 0;
        let mut h = x.clone();
        while i + 1 < n {
            let layer = &self.layers[i];
            let w = &self.layers[i].w;
            let rest = &self.layers[i + 1..];
            i += 1;
            h = layer.forward(&h).matmul(w).sin() * rest.len() as f64;
            for layer in rest {
                h = layer.forward(&h);
            }
        }
        h
    }

    pub(crate) fn copied(&self, x: &Tensor, n: usize) -> Tensor {
        let mut pair = (self.layers[0].w.clone() * 0.5, x.clone());
        let mut h = x.matmul(&(self.layers[0].w.clone() + 1.0));
        for i in 0..n {
            if i == 1 {
                pair = (pair.0, self.layers[1].w.clone());
                pair.1 = x.clone() * 2.0;
            }
            h = h.matmul(match i {
                0 => self.layers[0].w.clone() - 0.5,
                1 => self.layers[1].w.clone(),
                _ => pair.0.clone(),
            });
            pair = (self.layers[i].w.clone(), self.layers[i].w.sin());
            pair.1 = &h * 0.5;
        }
        h + pair.1
    }

    /// The right-hand side of `&&` is out of bounds if the left-hand side is false.
    pub(crate) fn guarded(&self, x: &Tensor, n: usize) -> Tensor {
        let mut h = x.clone();
        let mut i = 0;
        while i < self.layers.len() && self.layers[i].w.sum(..).item::<f64>() < 100.0 {
            if i > 0 && self.on[i - 1] {
                h = h.sin();
            }
            if i > 0 && self.layers[i - 1].b.is_some() || i > 1 && h.sum(..).item::<f64>() > 0.0 {
                h = h.cos();
            }
            let up = i + 1 < n && self.layers[i + 1].w.sum(..).item::<f64>() > 0.0;
            h = match i {
                0 if self.on[i + 1] => h.sin(),
                k if k > 0 && self.on[k - 1] && up => h * 2.0,
                1 => h.cos(),
                _ => h.tanh(),
            };
            i += 1;
        }
        h
    }

    pub(crate) fn matched(&self, x: &Tensor, n: usize) -> Tensor {
        let mut h = x.clone();
        for i in 0..n {
            let last = self.layers.last().unwrap();
            h = match (&self.layers[i].b, i, self.on[i]) {
                (Some(b), 0, _) => h + b,
                (Some(b), k, true) if k > 1 => h * b,
                (None, 1, _) | (_, 2, false) => last.forward(&h),
                (None, k, _) => h * k as f64,
                _ => h.sin(),
            };
        }
        for layer in self.layers.iter().chain(self.layers[1..].iter().rev()) {
            h = layer.forward(&h).sin();
        }
        h
    }
}

/// A linked list of layers.
#[derive(Tree)]
pub(crate) struct Chain {
    w: Tensor,
    next: Option<Box<Chain>>,
}

fn chain(n: usize) -> Chain {
    Chain {
        w: noise(&[3, 3], n as u64),
        next: (n > 0).then(|| Box::new(chain(n - 1))),
    }
}

#[traced]
pub(crate) fn along(first: &Chain, x: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let (mut at, mut before) = (first, first);
    let mut state = (x.sin(), first);
    let mut i = 0;
    while let Some(next) = &at.next {
        h = h.matmul(&at.w).sin();
        let old = at;
        at = next;
        h = h.matmul(&old.w) + h.matmul(&before.w);
        if i % 2 == 0 {
            before = old;
        }
        i += 1;
        state = (state.0.matmul(&state.1.w), old);
        if i == n {
            // A local may shadow the parameter.
            let first = 3.0;
            h = h * first;
            break;
        }
    }
    h.matmul(&first.w) + state.0 + x.matmul(&at.w)
}

#[test]
fn references_can_walk_a_linked_list() {
    for n in 0..5 {
        Companions {
            call: &|(c, x): &(Chain, Tensor)| along(c, x, n),
            vjp: &|(c, x), ct| {
                let (y, pullback) = along::vjp(c, x, n);
                (y, pullback(ct))
            },
            jvp: &|(c, x), (dc, dx)| along::jvp((c, x, n), (dc, dx)),
        }
        .check(&(chain(3), noise(&[2, 3], 7)));
    }
}

macro_rules! check_layers {
    ($f:ident, $vjp:ident, $jvp:ident, $n:expr) => {
        for n in $n {
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
fn an_index_selects_the_right_part_of_a_tree() {
    check_layers!(counted, counted_vjp, counted_jvp, 2..5);
    check_layers!(held, held_vjp, held_jvp, 1..5);
    check_layers!(copied, copied_vjp, copied_jvp, 1..5);
    check_layers!(matched, matched_vjp, matched_jvp, 1..6);
}

#[test]
fn the_right_side_of_and_is_evaluated_only_if_the_left_is_true() {
    check_layers!(guarded, guarded_vjp, guarded_jvp, 1..6);
}

#[traced]
pub(crate) fn while_small(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let mut k = 0;
    while k < n && h.square().sum(..).item::<f64>() < 100.0 {
        h = h * 2.0 + y;
        k += 1;
    }
    let go = k > 0 && h.slice([k.min(2)], [k.min(2) + 1], [1]).item::<f64>() > 0.5;
    if k == 0 || h.sum(..).item::<f64>() > 1.0 && (go || k > 1) {
        h = h.sin();
    }
    if go { h * k as f64 } else { h }
}

#[test]
fn a_loop_may_have_a_bound_and_a_condition_on_values() {
    check_two!(while_small, 0..5);
}

#[traced]
pub(crate) fn until_empty(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut stack: Vec<(usize, f64)> = (0..n).map(|i| (i, i as f64)).collect();
    let mut h = x.clone();
    loop {
        let Some((mut k, scale)) = stack.pop() else {
            break;
        };
        if k == 3 {
            stack.push((0, 0.5));
        }
        k += 1;
        h = h.sin() + y * (k as f64 * scale);
    }
    let [first, ..] = &stack[..] else {
        return h * 2.0;
    };
    h * first.1
}

#[test]
fn a_let_else_leaves_a_loop() {
    check_two!(until_empty, 0..5);
}
