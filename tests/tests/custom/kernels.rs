//! Kernels of the user as lazy ops.

use gradloom::custom::{HostKernel, Kernel, KernelInput, KernelOutput};
use gradloom::events::{self, Event};
use gradloom::prelude::*;
use gradloom::{hvp, scan};

/// x³ and x > 0, on slices.
struct Cube;

impl Kernel for Cube {
    const DIFFERENTIABLE: bool = true;

    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        Ok(vec![x[0].clone(), Aval::new(DType::Bool, x[0].shape())])
    }

    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        let x = x[0].as_slice::<f64>();
        let [cubes, signs] = y else { unreachable!() };
        cubes
            .as_mut_slice::<f64>()
            .iter_mut()
            .zip(x)
            .for_each(|(y, x)| *y = x * x * x);
        signs
            .as_mut_slice::<bool>()
            .iter_mut()
            .zip(x)
            .for_each(|(y, x)| *y = *x > 0.0);
        Ok(())
    }

    fn vjp(&self, x: &[Tensor], _: &[Tensor], ct: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![&ct[0] * x[0].square() * 3.0])
    }
}

/// S4.42: a kernel is a lazy op with a derivative, under all transforms.
#[test]
fn a_kernel_is_an_op_in_plans_loops_and_lanes() {
    let cube = HostKernel::new(Cube);
    let x = Tensor::from([[1.0f64, -2.0], [3.0, 0.5]]);
    let run = |x: &Tensor| cube.call(&[x]).remove(0);
    let y = run(&(&x + 1.0)) * 2.0;
    assert!(!y.is_realised());
    assert_eq!(y.to_vec::<f64>(), [16.0, -2.0, 128.0, 6.75]);
    assert_eq!(
        cube.call(&[&x])[1].to_vec::<bool>(),
        [true, false, true, true]
    );
    // Strided operands are copied.
    assert_eq!(
        run(&x.transpose()).to_vec::<f64>(),
        [1.0, 27.0, -8.0, 0.125]
    );
    let slopes = [3.0, 12.0, 27.0, 0.75];
    let loss = |x: &Tensor| run(x).sum(..);
    assert_eq!(grad(loss)(&x).to_vec::<f64>(), slopes);
    assert_eq!(
        hvp(loss, &x, &x.ones_like()).to_vec::<f64>(),
        [6.0, -12.0, 18.0, 3.0]
    );
    assert_eq!(vmap(run)(&x).to_vec::<f64>(), [1.0, -8.0, 27.0, 0.125]);
    assert_eq!(vmap(grad(loss))(&x).to_vec::<f64>(), slopes);
    assert_eq!(
        vmap(vmap(run))(&x).to_vec::<f64>(),
        [1.0, -8.0, 27.0, 0.125]
    );
    let rows = |x: &Tensor| scan(|(): &(), row: &Tensor| ((), run(row)), &(), x).1;
    assert_eq!(rows(&x).to_vec::<f64>(), [1.0, -8.0, 27.0, 0.125]);
    assert_eq!(
        grad(|x: &Tensor| rows(x).sum(..))(&x).to_vec::<f64>(),
        slopes
    );
    let prefixed = run(&x.incr_batch_dims()).decr_batch_dims();
    assert_eq!(prefixed.to_vec::<f64>(), [1.0, -8.0, 27.0, 0.125]);
}

/// S4.42: calls of one kernel share a plan, and calls of another do not.
#[test]
fn plans_are_shared_by_calls_of_one_kernel_only() {
    let (cube, other) = (HostKernel::new(Cube), HostKernel::new(Cube));
    let step = |kernel: &HostKernel<Cube>, x: f64| {
        let y = kernel.call(&[&Tensor::from([x])]).remove(0) + 1.0;
        y.to_vec::<f64>()
    };
    assert_eq!(step(&cube, 2.0), [9.0]);
    let (y, log) = events::record(|| step(&cube.clone(), 3.0));
    assert_eq!(y, [28.0]);
    assert!(
        !log.iter().any(|e| matches!(e, Event::Planned { .. })),
        "{log:?}"
    );
    let (y, log) = events::record(|| step(&other, 3.0));
    assert_eq!(y, [28.0]);
    assert!(
        log.iter().any(|e| matches!(e, Event::Planned { .. })),
        "{log:?}"
    );
}

/// Reads its operand as another type.
struct Mistaken;

impl Kernel for Mistaken {
    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        Ok(x.to_vec())
    }

    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        y[0].as_mut_slice::<f64>()
            .copy_from_slice(x[0].as_slice::<f64>());
        Ok(())
    }
}

#[test]
#[should_panic(expected = "the elements are f32, and the kernel takes a slice of f64")]
fn a_kernel_that_reads_another_type_panics_with_both() {
    HostKernel::new(Mistaken).call(&[&Tensor::from([1.0f32])])[0].to_vec::<f32>();
}

/// A kernel whose result is NaN.
struct Poison;

impl Kernel for Poison {
    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
        Ok(vec![x[0].clone()])
    }

    fn run(&self, _: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
        y[0].as_mut_slice::<f64>().fill(f64::NAN);
        Ok(())
    }
}

/// Reports name the kernel, and not only that there is one.
#[test]
fn reports_name_the_kernel() {
    let x = Tensor::from([1.0f64, 2.0]);
    let poison = HostKernel::new(Poison);
    let call = || poison.call(&[&x]).remove(0);
    let plan = gradloom::explain(&(call() * 2.0));
    assert!(plan.contains("host_kernel `Poison`"), "{plan}");
    let found =
        gradloom::detect_anomaly(|| -> Result<Tensor> { Ok(poison.try_call(&[&x])?.remove(0)) });
    let text = found.unwrap_err().to_string();
    assert!(text.contains("`Poison` gave NaN at [0]"), "{text}");
}
