//! Programs in the form that users write first, and the same with `#[traced(pure)]`.

use super::single;
use gradloom::prelude::*;

#[derive(Clone, Tree)]
pub(super) struct Net {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

#[derive(Clone, Tree)]
pub(super) struct Running {
    mean: Tensor,
    var: Tensor,
}

#[derive(Clone, Tree)]
pub(super) struct BatchNorm {
    scale: Tensor,
    shift: Tensor,
}

#[traced]
fn forward(net: &Net, x: &Tensor) -> Tensor {
    (x.matmul(&net.w1) + &net.b1).tanh().matmul(&net.w2)
}

#[traced]
fn mse(net: &Net, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
    (forward(net, x) - y).square().mean(..)
}

#[traced]
fn energy(q: &Tensor, p: &Tensor) -> Tensor {
    (p.square() + q.square() + q.square().square() * 0.5).sum(..) * 0.5
}

#[traced]
impl BatchNorm {
    fn normalise(&self, x: &Tensor, #[nodiff] running: &Running) -> (Tensor, Running) {
        let mean = x.mean(0);
        let var = (x - &mean).square().mean(0);
        let y = (x - &mean) / (&var + 1e-5).sqrt() * &self.scale + &self.shift;
        let running = Running {
            mean: &running.mean * 0.9 + mean.stop_gradient() * 0.1,
            var: &running.var * 0.9 + var.stop_gradient() * 0.1,
        };
        (y, running)
    }
}

/// Defines the programs, given the options of `#[traced]`.
macro_rules! programs {
    ($name:ident $($option:tt)*) => {
        pub(super) mod $name {
            use super::*;

            #[traced $($option)*]
            pub(in super::super) fn residual(net: &Net, #[nodiff] x: &Tensor) -> Tensor {
                let u = |x: &Tensor| forward(net, x);
                let du = |x: &Tensor| jvp(u, x, &x.ones_like()).1;
                let d2u = jvp(du, x, &x.ones_like()).1;
                (d2u + x.sin()).square().mean(..)
            }

            #[traced $($option)*]
            pub(in super::super) fn adapted(
                net: &Net,
                #[nodiff] x: &Tensor,
                #[nodiff] y: &Tensor,
            ) -> Tensor {
                let mut fast = net.clone();
                for _ in 0..3 {
                    let g = mse::grad(&fast, x, y).net;
                    fast = Net {
                        w1: &fast.w1 - g.w1 * 0.1,
                        b1: &fast.b1 - g.b1 * 0.1,
                        w2: &fast.w2 - g.w2 * 0.1,
                    };
                }
                mse(&fast, x, y)
            }

            #[traced $($option)*]
            pub(in super::super) fn normed(
                layers: &Vec<(Tensor, BatchNorm)>,
                #[nodiff] state: &Running,
                #[nodiff] x: &Tensor,
            ) -> Tensor {
                let mut h = x.clone();
                for (w, bn) in layers {
                    let (y, running) = bn.normalise(&h.matmul(w), state);
                    h = y.tanh() + running.mean.stop_gradient();
                }
                h.square().mean(..)
            }

            #[traced $($option)*]
            pub(in super::super) fn leapfrog(q: &Tensor, p: &Tensor, dt: f64) -> (Tensor, Tensor) {
                let (mut q, mut p) = (q.clone(), p.clone());
                for _ in 0..10 {
                    p = &p - energy::grad(&q, &p).q * (0.5 * dt);
                    q = &q + energy::grad(&q, &p).p * dt;
                    p = &p - energy::grad(&q, &p).q * (0.5 * dt);
                }
                (q, p)
            }

            #[traced $($option)*]
            pub(in super::super) fn descended(w: &Tensor, g: &Tensor, lr: f64) -> Tensor {
                w - g * lr
            }

            #[traced $($option)*]
            pub(in super::super) fn two_results(x: &Tensor) -> (Tensor, Tensor) {
                let mut power = x.clone();
                for _ in 0..20 {
                    power = power.matmul(x) * 0.1;
                }
                (x.tanh().sum(..), power)
            }

            #[traced $($option)*]
            pub(in super::super) fn one_result(x: &Tensor) -> Tensor {
                x.tanh().sum(..)
            }
        }
    };
}

programs!(natural);
programs!(promised(pure));

pub(super) fn net() -> Net {
    Net {
        w1: single(&[1, 40], 1),
        b1: single(&[40], 2),
        w2: single(&[40, 1], 3),
    }
}

pub(super) fn points() -> Tensor {
    single(&[32, 1], 4)
}

pub(super) fn layers() -> Vec<(Tensor, BatchNorm)> {
    let layer = |i: u64| {
        let bn = BatchNorm {
            scale: single(&[40], 10 + i),
            shift: single(&[40], 20 + i),
        };
        (single(&[40, 40], 30 + i), bn)
    };
    (0..6).map(layer).collect()
}

pub(super) fn running() -> Running {
    Running {
        mean: single(&[40], 5),
        var: single(&[40], 6),
    }
}

pub(super) fn inputs() -> Tensor {
    single(&[32, 40], 7)
}
