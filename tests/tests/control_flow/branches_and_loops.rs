//! Functions with host control flow, differentiated at compile time, compared with the run-time
//! transforms.
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use gradloom::{grad, traced};

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Tree)]
struct Mlp {
    layers: Vec<Linear>,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[traced]
fn power(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for _ in 1..n {
        y = &y * x;
    }
    y.sum(..)
}

#[traced]
fn mlp(model: &Mlp, x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for (i, layer) in model.layers.iter().enumerate() {
        h = layer.forward(&h);
        if i + 1 < model.layers.len() {
            h = h.tanh();
        }
    }
    h.sum(..)
}

#[traced]
fn fields(model: &Mlp, x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for layer in &model.layers {
        h = (h.matmul(&layer.w) + &layer.b).sin();
    }
    h.sum(..)
}

#[traced]
fn newton(a: &Tensor) -> Tensor {
    let mut x = a * 0.5 + 0.5;
    let mut steps = 0;
    while (&x * &x - a).abs().item::<f64>() > 1e-13 {
        x = (&x + a / &x) * 0.5;
        steps += 1;
        if steps > 50 {
            break;
        }
    }
    x
}

#[traced]
fn branches(x: &Tensor, y: &Tensor, kind: usize) -> Tensor {
    let z = match kind {
        0 => x * y,
        1 if x.rank() == 0 => x.sin(),
        1 => x.cos(),
        2 => return x.exp(),
        _ => {
            let t = x + y;
            t.tanh()
        }
    };
    if kind > 3 {
        return z * 2.0;
    }
    z + y
}

#[traced]
fn swaps(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let (mut a, mut b) = (x.clone(), y.clone());
    for i in 0..n {
        let previous = a.clone();
        a = &b * 1.5;
        b = previous.sin();
        if i == 2 {
            continue;
        }
        if i == 4 {
            break;
        }
        (a, b) = (b.clone(), a.clone());
    }
    a * b.cos()
}

fn scalar(x: f64) -> Tensor {
    Tensor::scalar(x)
}

fn near(a: &Tensor, b: &Tensor) {
    let (a, b) = (a.to_vec::<f64>(), b.to_vec::<f64>());
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{a} {b}");
    }
}

#[test]
fn loops_have_the_derivatives_of_run_time_transforms() {
    println!("{}", mlp::PROGRAM);
    println!("{}", newton::PROGRAM);
    println!("{}", branches::PROGRAM);
    println!("{}", swaps::PROGRAM);
    let x = Tensor::from([1.5f64, 0.5]);
    near(&power::grad(&x, 4).x, &grad(|x: &Tensor| power(x, 4))(&x));
    near(&newton(&scalar(2.0)), &scalar(2f64.sqrt()));
    near(&newton::grad(&scalar(2.0)).a, &scalar(0.5 / 2f64.sqrt()));
    for kind in 0..6 {
        for n in 0..6 {
            let (x, y) = (scalar(0.3), scalar(0.7));
            let pair = (x.clone(), y.clone());
            let g = branches::grad(&x, &y, kind);
            let r = grad(|p: &(Tensor, Tensor)| branches(&p.0, &p.1, kind))(&pair);
            near(&g.x, &r.0);
            near(&g.y, &r.1);
            let g = swaps::grad(&x, &y, n);
            let r = grad(|p: &(Tensor, Tensor)| swaps(&p.0, &p.1, n))(&pair);
            near(&g.x, &r.0);
            near(&g.y, &r.1);
            let (v, d) = swaps::jvp((&x, &y, n), (&scalar(1.0), &scalar(0.5)));
            near(&v, &swaps(&x, &y, n));
            near(&d, &(r.0 + r.1 * 0.5));
        }
    }
    let model = Mlp {
        layers: (0..3)
            .map(|i| Linear {
                w: Tensor::from([[0.1, 0.2 * i as f64], [0.3, -0.4]]),
                b: Tensor::from([0.1 * i as f64, 0.2]),
            })
            .collect(),
    };
    let x = Tensor::from([[1.5f64, 0.5]]);
    for f in [mlp as fn(&Mlp, &Tensor) -> Tensor, fields] {
        let r = grad(|p: &(Mlp, Tensor)| f(&p.0, &p.1))(&(model.clone(), x.clone()));
        let g = if std::ptr::fn_addr_eq(f, mlp as fn(&Mlp, &Tensor) -> Tensor) {
            let g = mlp::grad(&model, &x);
            (g.model, g.x)
        } else {
            let g = fields::grad(&model, &x);
            (g.model, g.x)
        };
        near(&g.1, &r.1);
        for (a, b) in g.0.layers.iter().zip(&r.0.layers) {
            near(&a.w, &b.w);
            near(&a.b, &b.b);
        }
    }
}

#[traced]
fn plain(model: &Mlp, x: &Tensor, n: usize, scale: f64) -> Tensor {
    let mut h = x.clone();
    let mut turns = 0;
    for i in 0..n {
        for layer in &model.layers {
            h = (layer.forward(&h) + x * scale).tanh();
        }
        turns += 1;
        if i == 9 {
            break;
        }
    }
    h.sum(..) * turns as f64
}

#[traced]
fn checkpointed(model: &Mlp, x: &Tensor, n: usize, scale: f64) -> Tensor {
    let mut h = x.clone();
    let mut turns = 0;
    #[checkpoint(every = 3)]
    for i in 0..n {
        for layer in &model.layers {
            h = (layer.forward(&h) + x * scale).tanh();
        }
        turns += 1;
        if i == 9 {
            break;
        }
    }
    h.sum(..) * turns as f64
}

#[traced]
fn settled(a: &Tensor, x: &Tensor, k: usize) -> Tensor {
    let mut y = x.clone();
    #[checkpoint(every = k)]
    while (&y * &y - a).abs().item::<f64>() > 1e-12 {
        y = (&y + a / &y) * 0.5;
    }
    y
}

#[test]
fn a_checkpointed_loop_has_fewer_residuals_and_the_same_bits() {
    let model = Mlp {
        layers: vec![Linear {
            w: Tensor::from([[0.1, 0.2], [0.3, -0.4]]),
            b: Tensor::from([0.1, 0.2]),
        }],
    };
    let x = Tensor::from([[1.5f64, 0.5]]);
    for n in [0, 1, 2, 3, 4, 9, 10, 12] {
        let (y, saved) = plain::saved(&model, &x, n, 0.5);
        let (y_again, saved_again) = checkpointed::saved(&model, &x, n, 0.5);
        assert_eq!(
            y.item::<f64>().to_bits(),
            y_again.item::<f64>().to_bits(),
            "{n}"
        );
        if n > 3 {
            assert!(saved_again.bytes() < saved.bytes(), "{n}");
        }
        let g = plain::grad(&model, &x, n, 0.5);
        let again = checkpointed::grad(&model, &x, n, 0.5);
        let bits =
            |t: &Tensor| -> Vec<u64> { t.to_vec::<f64>().into_iter().map(f64::to_bits).collect() };
        assert_eq!(bits(&g.x), bits(&again.x), "{n}");
        assert_eq!(
            bits(&g.model.layers[0].w),
            bits(&again.model.layers[0].w),
            "{n}"
        );
        let dx = x.ones_like();
        let zeros = model.map(&mut |t| t.zeros_like());
        let (_, dy) = plain::jvp((&model, &x, n, 0.5), (&zeros, &dx));
        let (_, dy_again) = checkpointed::jvp((&model, &x, n, 0.5), (&zeros, &dx));
        assert_eq!(bits(&dy), bits(&dy_again), "{n}");
    }
    for k in [1, 2, 100] {
        let g = settled::grad(&scalar(2.0), &scalar(1.0), k);
        near(&g.a, &scalar(0.5 / 2f64.sqrt()));
    }
}
