//! Ordinary programs of new users: numbers beside the tensors of a tree, cells, slices that a branch
//! picks, enums that choose an operation.
//!
//! Each body is a traced function and a plain one, as in `held.rs`.

use gradloom::prelude::*;
use gradloom::tree::assert_close;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[derive(Clone, Tree)]
struct Node {
    w: Tensor,
    v: Tensor,
    #[tree(skip)]
    k: f64,
    #[tree(skip)]
    count: usize,
    #[tree(skip)]
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sine,
    Square,
}

#[traced]
impl Mode {
    fn apply(#[fixed] self, x: &Tensor) -> Tensor {
        match self {
            Mode::Sine => x.sin(),
            Mode::Square => x.square(),
        }
    }
}

impl Mode {
    fn plain(self, x: &Tensor) -> Tensor {
        match self {
            Mode::Sine => x.sin() * 2.0,
            Mode::Square => x.square() * 3.0,
        }
    }
}

/// An enum without tensors is a tree without leaves.
#[derive(Clone, Copy, PartialEq, Eq, Tree)]
enum Empty {
    Cosine,
    Cube,
}

#[traced]
impl Empty {
    fn apply(self, x: &Tensor) -> Tensor {
        match self {
            Empty::Cosine => x.cos(),
            Empty::Cube => x.pow(3.0),
        }
    }
}

#[traced]
fn step(n: &Node, x: &Tensor) -> Node {
    Node {
        w: (&n.w * x).sin(),
        v: &n.v + x,
        k: n.k,
        count: n.count,
        mode: n.mode,
    }
}

#[traced]
impl Node {
    #[traced]
    fn scaled(&self, x: &Tensor) -> Tensor {
        &self.w * x * self.k
    }

    fn moded(&self, x: &Tensor) -> Tensor {
        self.mode.apply(&self.scaled(x))
    }
}

fn arguments() -> (Vec<Tensor>, Node) {
    let xs = [[0.3f64, -0.2, 0.5], [0.7, 0.1, -0.4], [0.6, -0.8, 0.9]].map(Tensor::from);
    let node = Node {
        w: Tensor::from([0.2f64, 0.4, 0.6]),
        v: Tensor::from([-0.1f64, 0.9, 0.3]),
        k: 1.5,
        count: 2,
        mode: Mode::Square,
    };
    (xs.to_vec(), node)
}

/// Makes a test of each body, whose parameters are a list, a tree and a number.
macro_rules! natural {
    ($($name:ident |$xs:ident, $n:ident, $k:ident| -> $ret:ty $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter, recorded_call))]
            fn f($xs: &[Tensor], $n: &Node, $k: usize) -> $ret $body
            fn plain($xs: &[Tensor], $n: &Node, $k: usize) -> $ret $body
            let (xs, n) = arguments();
            let all = (xs.clone(), n.clone());
            for k in [0, 1, 3, 2, 3] {
                let plain = |(xs, n): &(Vec<Tensor>, Node)| plain(xs, n, k);
                let (y, pull) = gradloom::vjp(plain, &all);
                let ct = y.map(&mut |leaf| leaf.ones_like() * 0.5);
                let (grads, (_, dy)) = (pull.call(&ct), gradloom::jvp(plain, &all, &all));
                assert_close(&f(&xs, &n, k), &y, 1e-12);
                let (value, pull) = f::vjp(&xs, &n, k);
                assert_close(&value, &y, 1e-12);
                assert_close(&pull(&ct), &grads, 1e-12);
                let (value, tangent) = f::jvp((&xs, &n, k), (&xs, &n));
                assert_close(&value, &y, 1e-12);
                assert_close(&tangent, &dy, 1e-12);
            }
        }
    )*};
}

natural! {
    skipped_numbers_in_tuples |xs, n, k| -> Tensor { let h = n.w.reshape((n.w.dim(0), 1)) * &xs[0]; let pair = Tensor::stack(&[&h, &h.sin()], 0); pair.reshape((n.count, -1, n.w.dim(0))).sum((0, n.count - 1)) + &n.v }
    a_number_of_a_local_tree |xs, n, k| -> Tensor { let mut n = step(n, &xs[0]); n.k = n.k * 2.0; &n.w * n.k }
    a_counter_of_a_local_tree |xs, n, k| -> Tensor { let mut n = step(n, &xs[0]); n.count += 1; n.count = n.count * 2 + k; &n.w * n.count as f64 }
    numbers_of_a_tree_in_a_loop |xs, n, k| -> Tensor { let mut n = n.clone(); for i in 0..k { n = step(&n, &xs[i]); n.count += 1; n.k *= 0.5; n.k = n.k.sqrt() + n.count as f64; n.k = 3.0 - n.k; n.w = n.w * 2.0; } &n.w * n.k + &n.v }
    numbers_and_tensors_of_a_tree |xs, n, k| -> Tensor { let mut n = step(n, &xs[0]); n.k = 2.0; n.count = xs.len(); n.w = &n.w * &xs[1]; n.v = -n.v; n.k = -n.k; n.k = n.k.max(0.5 + k as f64); &n.w * n.k + &n.v * n.count as f64 }
    a_tensor_of_a_tree_by_another |xs, n, k| -> Tensor { let mut n = step(n, &xs[0]); n.w = &n.w * &n.v; n.v = n.v.exp(); &n.w + &n.v }
    a_cell_of_a_list |xs, n, k| -> Tensor { let l = RefCell::new(Vec::new()); for x in xs { l.borrow_mut().push(x * &n.w); } let l = l.into_inner(); Tensor::stack(&l, 0).sum(0) }
    a_shared_list |xs, n, k| -> Tensor { let l = Rc::new(RefCell::new(vec![xs[0].clone()])); let m = Rc::clone(&l); m.borrow_mut().push(&xs[1] * 2.0); let y = &l.borrow()[0] * &l.borrow()[1]; y }
    an_element_of_a_cell |xs, n, k| -> Tensor { let l = RefCell::new(Vec::new()); l.borrow_mut().push(xs[0].clone()); l.borrow_mut().push(n.w.clone()); let y = l.borrow()[0].clone(); y * 2.0 }
    a_part_in_a_cell |xs, n, k| -> Tensor { let l = RefCell::new(n.w.clone()); let y = &*l.borrow() * &xs[0]; *l.borrow_mut() = y; let z = l.borrow().clone(); z * &n.v }
    a_part_in_a_cell_of_an_option |xs, n, k| -> Tensor { let best = RefCell::new(None); for x in xs { *best.borrow_mut() = Some(x * &n.w); } let y = best.borrow().clone(); y.unwrap() * &n.v }
    a_counter_in_a_cell |xs, n, k| -> Tensor { let c = Cell::new(0); for _ in 0..k { c.set(c.get() + 1); } &xs[0] * c.get() as f64 }
    a_typed_shared_list |xs, n, k| -> Tensor { let l: Rc<RefCell<Vec<Tensor>>> = Rc::new(RefCell::new(Vec::new())); l.borrow_mut().push(&xs[0] * 2.0); l.borrow_mut().push(n.v.clone()); let y = l.borrow().iter().fold(n.w.clone(), |a, b| a * b); y }
    a_slice_of_a_branch |l, n, k| -> Tensor { let v = if k > 1 { &l[1..] } else { &l[..2] }; Tensor::stack(v, 0).sum(0) * &v[0] }
    a_slice_of_a_branch_in_a_loop |l, n, k| -> Tensor { let mut y = n.w.clone(); for i in 0..k { let v = if i > 1 { &l[1..] } else { &l[..2] }; for x in v { y = y * x + &n.v; } } y }
    a_slice_of_a_local_list |xs, n, k| -> Tensor { let mut l = Vec::new(); for x in xs { l.push(x * &n.v); } let mut y = n.w.clone(); for i in 0..k { let v = if i > 1 { &l[1..] } else { &l[..2] }; for x in v { y = y * x; } y = y + &v[0]; } y }
    a_slice_of_a_match |l, n, k| -> Tensor { let v = match k { 0 => &l[..1], 1 => &l[1..], _ => l }; let mut y = n.w.clone(); for x in v { y = y * x; } y }
    a_mode_of_a_tree |xs, n, k| -> Tensor { let h = &xs[0] * &n.w; n.mode.apply(&h) * &n.v }
    a_mode_of_a_local |xs, n, k| -> Tensor { let mode = if k > 1 { Mode::Sine } else { Mode::Square }; mode.apply(&xs[0]) * &n.v }
    a_plain_mode |xs, n, k| -> Tensor { let mode = if k > 1 { Mode::Sine } else { Mode::Square }; mode.plain(&xs[0]) * &n.v }
    an_empty_tree |xs, n, k| -> Tensor { let mode = if k > 1 { Empty::Cosine } else { Empty::Cube }; mode.apply(&xs[0]) * &n.v }
    a_method_with_a_mode |xs, n, k| -> Tensor { n.moded(&xs[0]) + n.scaled(&xs[1]) }
}
