//! The context of a call: what it holds, and how long it lives.

use gradloom::custom::Call;
use gradloom::prelude::*;
use gradloom::{Backward, CustomFunction, FunctionContext, Param, custom_call};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts contexts that are made and dropped.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub(crate) made: Arc<AtomicUsize>,
    pub(crate) dropped: Arc<AtomicUsize>,
}

impl Counts {
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

/// A context that is counted.
pub(crate) struct Counted(Counts);

impl Counted {
    pub(crate) fn new(counts: &Counts) -> Counted {
        counts.made.fetch_add(1, Ordering::SeqCst);
        Counted(counts.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// a x, which saves tensors, objects and what the document asks for.
pub(crate) struct Scale {
    pub(crate) counts: Counts,
}

impl CustomFunction for Scale {
    type Input = Vec<Tensor>;
    type Output = Tensor;
    type Saved = (FunctionContext, Counted);

    fn forward(&self, x: &Vec<Tensor>, needs: &[bool]) -> Result<(Tensor, Self::Saved)> {
        let mut context = FunctionContext::new(needs);
        context.save_for_backward(&[&x[0], &x[1]]);
        context.save_object("scale".to_owned());
        context.save_object(2usize);
        Ok((&x[0] * &x[1], (context, Counted::new(&self.counts))))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Vec<Tensor>> {
        let (context, _) = call.saved;
        let [a, x] = context.saved_tensors::<2>()?;
        assert_eq!(context.object::<String>()?, "scale");
        assert_eq!(*context.object::<usize>()?, 2);
        assert_eq!(
            context.saved_tensor(0)?.to_vec::<f64>(),
            call.x[0].to_vec::<f64>()
        );
        let one = |i: usize, ct: Tensor, x: &Tensor| match context.needs_input_grad(i) {
            true => ct,
            false => x.zeros_like(),
        };
        Ok(vec![one(0, ct * x, a), one(1, ct * a, x)])
    }
}

/// S4.3, S4.4, S4.16: the context holds tensors, objects and the inputs that need a gradient.
#[test]
fn a_context_passes_tensors_and_objects_to_backward() {
    let f = Arc::new(Scale {
        counts: Counts::default(),
    });
    let (a, x) = (Tensor::from([2.0f64]), Tensor::from([3.0f64]));
    let g = grad(|all: &Vec<Tensor>| custom_call(&f, all).sum(..))(&vec![a.clone(), x.clone()]);
    assert_eq!((g[0].item::<f64>(), g[1].item::<f64>()), (3.0, 2.0));
    // `a` is captured, so it needs no gradient.
    let g = grad(|x: &Tensor| custom_call(&f, &vec![a.clone(), x.clone()]).sum(..))(&x);
    assert_eq!(g.item::<f64>(), 2.0);
}

/// S4.2, S4.5, S4.6: a call has the function, a number of its own, and no cycle through its results.
#[test]
fn a_call_is_printed_with_its_name_and_a_number_of_its_own() {
    let counts = Counts::default();
    let f = Arc::new(Scale {
        counts: counts.clone(),
    });
    let w = Param::new(Tensor::from([2.0f64])).unwrap();
    let call = || custom_call(&f, &vec![w.tensor(), Tensor::from([3.0f64])]);
    let (y, z) = (call(), call());
    let [a, b] = [&y, &z].map(|y| y.grad_fn().unwrap().name());
    assert!(
        a.starts_with("Scale#") && b.starts_with("Scale#") && a != b,
        "{a} {b}"
    );
    drop((y, z));
    assert_eq!((counts.made(), counts.dropped()), (2, 2));
}

/// S4.17, S4.37: a context is made for each call and dropped after the backward pass, unless the graph is retained.
#[test]
fn a_context_lives_from_forward_to_the_backward_pass() {
    let counts = Counts::default();
    let f = Arc::new(Scale {
        counts: counts.clone(),
    });
    let w = Param::new(Tensor::from([2.0f64])).unwrap();
    let y = custom_call(&f, &vec![w.tensor(), Tensor::from([3.0f64])]).sum(..);
    assert_eq!((counts.made(), counts.dropped()), (1, 0));
    Backward::of(&y).retain_graph().run().unwrap();
    assert_eq!(counts.dropped(), 0);
    y.backward().unwrap();
    // The result is still held, and its context is gone.
    assert_eq!(counts.dropped(), 1);
    assert_eq!(w.grad().unwrap().item::<f64>(), 6.0);
    drop(y);
    assert_eq!((counts.made(), counts.dropped()), (1, 1));
}

/// S4.8, S4.18: a context is dropped once, also if no backward pass runs.
#[test]
fn a_context_is_dropped_when_no_backward_pass_runs() {
    let counts = Counts::default();
    let f = Arc::new(Scale {
        counts: counts.clone(),
    });
    let x = vec![Tensor::from([2.0f64]), Tensor::from([3.0f64])];
    // A call without a derivative.
    custom_call(&f, &x).to_vec::<f64>();
    assert_eq!((counts.made(), counts.dropped()), (1, 1));
    let (_, pullback) = vjp(|x: &Vec<Tensor>| custom_call(&f, x), &x);
    assert_eq!((counts.made(), counts.dropped()), (2, 1));
    drop(pullback);
    assert_eq!((counts.made(), counts.dropped()), (2, 2));
    // An error between forward and backward.
    let fails = |x: &Vec<Tensor>| -> Result<Tensor> {
        let y = custom_call(&f, x);
        Ok(y.matmul(Tensor::from([1.0f64, 2.0])))
    };
    assert!(grad(fails)(&x).is_err());
    assert_eq!((counts.made(), counts.dropped()), (3, 3));
    let w = Param::new(Tensor::from([2.0f64])).unwrap();
    let y = custom_call(&f, &vec![w.tensor(), w.tensor()]);
    // An explicit release can be repeated.
    let grad_fn = y.grad_fn().unwrap();
    grad_fn.release();
    grad_fn.release();
    assert_eq!((counts.made(), counts.dropped()), (4, 4));
    drop((y, grad_fn, w));
    assert_eq!((counts.made(), counts.dropped()), (4, 4));
}

/// A step saves its input and an intermediate value.
struct Step;

impl CustomFunction for Step {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = (Tensor, Tensor);

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, (Tensor, Tensor))> {
        let h = x * 0.5;
        Ok((h.tanh(), (x.clone(), h)))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        let (_, h) = call.saved;
        let y = h.tanh();
        Ok(ct * (1.0 - &y * &y) * 0.5)
    }
}

/// S4.18: a long chain is dropped without recursion, although each context holds tensors.
#[test]
fn a_chain_of_many_calls_is_dropped_without_recursion() {
    let f = Arc::new(Step);
    let w = Param::new(Tensor::from([1.0f64])).unwrap();
    let mut y = w.tensor();
    for _ in 0..20_000 {
        y = custom_call(&f, &y);
    }
    drop(y);
    let mut y = w.tensor();
    for _ in 0..1000 {
        y = custom_call(&f, &y);
    }
    y.sum(..).backward().unwrap();
    assert!(w.grad().unwrap().item::<f64>() < 1e-6);
}
