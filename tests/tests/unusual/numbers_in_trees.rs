#![deny(warnings)]

use gradloom::prelude::*;

/// Numbers beside tensors, in places where a tensor could stand.
#[derive(Tree)]
struct Net {
    w: Tensor,
    pair: (Tensor, Tensor),
    #[tree(skip)]
    scale: f32,
    #[tree(skip)]
    n: usize,
    #[tree(skip)]
    rates: Vec<f32>,
    #[tree(skip)]
    axis: i64,
    #[tree(skip)]
    name: String,
}

#[derive(Tree)]
enum Step {
    Scale(#[tree(skip)] f32),
    Dense { w: Tensor },
}

#[traced]
fn arithmetic(net: &Net, x: &Tensor) -> Tensor {
    let (a, b) = &net.pair;
    let squared = &net.w * (net.scale * net.scale) + x * (net.scale + 1.0) + x * -net.scale;
    (squared + x * net.n as f32 + x * (net.n + 1) + a * b - &net.pair.0).sum(net.axis)
}

#[traced]
fn methods(net: &Net, x: &Tensor) -> Tensor {
    x * net.scale.powi(2) * net.rates.len() * net.rates[net.n - 1].recip()
}

#[traced(allow(recorded_call))]
fn control(net: &Net, steps: &Vec<Step>, x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for step in steps {
        h = match step {
            Step::Scale(s) => h * *s,
            Step::Dense { w } => h * w,
        };
    }
    for r in &net.rates {
        if *r > 2.0 {
            continue;
        }
        h = h * *r + &net.w * (*r * 2.0);
    }
    for (r, w) in net.rates.iter().zip([&net.w, &net.pair.0]) {
        h = h * *r + w;
    }
    for i in 0..net.n {
        h = h * (net.rates[i] * 2.0);
    }
    let s = &net.scale;
    if s > &1.0 && net.name == "net" {
        h = h * 2.0;
    }
    if net.scale.sqrt() > 1.0 && net.scale.max(1.0) < 10.0 {
        h = h * *s;
    }
    h.sum(..)
}

#[traced(allow(recorded_call))]
fn of_the_standard_library(x: &Tensor) -> Tensor {
    let copied = Clone::clone(x);
    let boxed = Box::new(x.sin());
    let mut h = copied * &*boxed;
    let old = std::mem::replace(&mut h, x.exp());
    let parts: [Tensor; 2] = std::array::from_fn(|i| x * (i + 1));
    drop(boxed);
    Some(h + old).unwrap() + &parts[1]
}

#[test]
fn runs() {
    let x = &Tensor::from([1.0f64, 2.0]);
    let net = Net {
        w: x.clone(),
        pair: (x.sin(), x.cos()),
        scale: 3.0,
        n: 1,
        rates: vec![0.5, 4.0],
        axis: 0,
        name: "net".to_owned(),
    };
    let steps = vec![Step::Scale(2.0), Step::Dense { w: x.clone() }];
    // Each against differences in the first element.
    let check = |f: &dyn Fn(&Tensor) -> Tensor, ct_x: Tensor| {
        let at = |d: f64| f(&(x + Tensor::from([d, 0.0]))).sum(..).item::<f64>();
        let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
        let found = ct_x.to_vec::<f64>()[0];
        assert!(
            (found - difference).abs() < 1e-6,
            "{found} and {difference}"
        );
    };
    let (y, pullback) = arithmetic::vjp(&net, x);
    check(&|x| arithmetic(&net, x), pullback(&y.ones_like()).1);
    let (y, pullback) = methods::vjp(&net, x);
    check(&|x| methods(&net, x), pullback(&y.ones_like()).1);
    let (y, pullback) = control::vjp(&net, &steps, x);
    check(&|x| control(&net, &steps, x), pullback(&y.ones_like()).2);
    let (y, pullback) = of_the_standard_library::vjp(x);
    check(&|x| of_the_standard_library(x), pullback(&y.ones_like()));
}
