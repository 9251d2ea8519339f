//! A panic in user code leaves the engine usable, and nothing leaks.

use crate::contexts::{Counted, Counts};
use gradloom::custom::{Call, HostKernel, Kernel, KernelInput, KernelOutput};
use gradloom::prelude::*;
use gradloom::{CustomFunction, Param, custom_call};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

/// Suppresses the messages of injected panics.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>();
            if !text.is_some_and(|text| text.starts_with("injected")) {
                before(info);
            }
        }));
    });
}

/// Panics at the call with a chosen number.
#[derive(Clone, Default)]
struct Fuse {
    calls: Arc<AtomicUsize>,
    panics_at: Arc<AtomicUsize>,
}

impl Fuse {
    fn burn(&self, what: &str) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if call == self.panics_at.load(Ordering::SeqCst) {
            panic!("injected in {what}");
        }
    }
}

/// A context whose destructor may panic.
struct Fragile {
    fuse: Fuse,
    x: Tensor,
    _counted: Counted,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.fuse.burn("drop");
        }
    }
}

struct Square {
    fuse: Fuse,
    counts: Counts,
}

impl CustomFunction for Square {
    type Input = Tensor;
    type Output = Tensor;
    type Saved = Fragile;

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, Fragile)> {
        let saved = Fragile {
            fuse: self.fuse.clone(),
            x: x.clone(),
            _counted: Counted::new(&self.counts),
        };
        self.fuse.burn("forward");
        Ok((x.square(), saved))
    }

    fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        self.fuse.burn("backward");
        Ok(ct * &call.saved.x * 2.0)
    }
}

/// The square as a kernel that may panic.
struct SquareKernel(Fuse);

impl Kernel for SquareKernel {
    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        Ok(x.to_vec())
    }

    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        self.0.burn("kernel");
        let x = x[0].as_slice::<f64>();
        y[0].as_mut_slice::<f64>()
            .iter_mut()
            .zip(x)
            .for_each(|(y, x)| *y = x * x);
        Ok(())
    }
}

/// Everything that may run user code, several times.
fn work(f: &Arc<Square>, kernel: &HostKernel<SquareKernel>, w: &Param) -> (Vec<f64>, Vec<f64>) {
    let x = Tensor::from([1.0f64, 2.0]);
    w.zero_grad();
    let h = custom_call(f, &w.tensor());
    let y = (custom_call(f, &h) + kernel.call(&[&x])[0].clone()).sum(..);
    y.backward().unwrap();
    let closure = grad(|x: &Tensor| custom_call(f, &custom_call(f, x)).sum(..))(&x);
    // A call whose backward pass does not run.
    let _unused = custom_call(f, &w.tensor());
    let kernels = kernel.call(&[&(&x + 1.0)]).remove(0);
    let values = [y.to_vec::<f64>(), closure.to_vec(), kernels.to_vec()].concat();
    (w.grad().unwrap().to_vec(), values)
}

/// S4.8, S4.18, S4.37, S4.41: a panic at every call of user code.
#[test]
fn a_panic_at_every_call_of_user_code_leaves_the_engine_usable() {
    let (fuse, counts) = (Fuse::default(), Counts::default());
    let f = Arc::new(Square {
        fuse: fuse.clone(),
        counts: counts.clone(),
    });
    let kernel = HostKernel::new(SquareKernel(fuse.clone()));
    let w = Param::new(Tensor::from([1.0f64, 2.0])).unwrap();
    let expected = (vec![4.0, 32.0], vec![22.0, 4.0, 32.0, 4.0, 9.0]);
    assert_eq!(work(&f, &kernel, &w), expected);
    assert_eq!(counts.made(), counts.dropped());
    let n_calls = fuse.calls.load(Ordering::SeqCst);
    assert!(n_calls >= 16, "{n_calls}");
    quiet();
    let mut places = Vec::new();
    for i in 1..=n_calls {
        fuse.calls.store(0, Ordering::SeqCst);
        fuse.panics_at.store(i, Ordering::SeqCst);
        match catch_unwind(AssertUnwindSafe(|| work(&f, &kernel, &w))) {
            Err(payload) => {
                let text = payload.downcast_ref::<String>();
                places.push(text.cloned().unwrap_or_default());
            }
            // A panic of a destructor is contained.
            Ok(found) => {
                assert_eq!(found, expected, "call {i}");
                places.push("injected in drop".to_owned());
            }
        }
        fuse.panics_at.store(0, Ordering::SeqCst);
        // The next evaluation is right.
        assert_eq!(
            work(&f, &kernel, &w),
            expected,
            "after call {i}: {places:?}"
        );
        assert_eq!(
            counts.made(),
            counts.dropped(),
            "after call {i}: {places:?}"
        );
    }
    for what in ["forward", "backward", "drop", "kernel"] {
        let text = format!("injected in {what}");
        assert!(places.contains(&text), "{what}: {places:?}");
    }
}

/// S4.8, S4.37: a panic of a hook changes no slot, and the pass can be repeated.
#[test]
fn a_panic_in_a_hook_changes_no_slot() {
    let (v, w) = (
        Param::new(Tensor::from(2.0f64)).unwrap(),
        Param::new(Tensor::from(3.0f64)).unwrap(),
    );
    let hook = w.on_grad(|_| panic!("injected in {}", "a hook"));
    let y = v.tensor() * w.tensor();
    quiet();
    assert!(catch_unwind(AssertUnwindSafe(|| y.backward())).is_err());
    assert!(v.grad().is_none() && w.grad().is_none());
    hook.remove();
    y.backward().unwrap();
    assert_eq!(v.grad().unwrap().item::<f64>(), 3.0);
    assert_eq!(w.grad().unwrap().item::<f64>(), 2.0);
}
