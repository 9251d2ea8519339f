//! Programs of many kinds, each as short as users write them: W19. Distances of pairs, norms by their formulas, an LSTM,
//! second derivatives and Jacobians. The file `walks.rs` has the rows that read a tensor in another order.

use super::inputs::{fill, near_one, weight, zeros};
use super::measure::{Timer, Unit, sum};
use super::walks;
use crate::model::{self, Linear, Mlp};
use gradloom::prelude::*;
use gradloom::scan;

/// Times all rows: W19.
pub(super) fn operations(timer: &mut Timer) -> Result<()> {
    pairs(timer)?;
    norms(timer)?;
    sequences(timer)?;
    losses(timer)?;
    walks::operations(timer)?;
    second_order(timer)
}

/// Times evaluations of the results of `call`, whose check is the sum of absolute values.
pub(super) fn row<R: Tree>(
    timer: &mut Timer,
    name: &str,
    call: impl Fn() -> R + Sync,
) -> Result<()> {
    let mut check = 0.0;
    call().visit(&mut |leaf| check += sum(&leaf.cast(DType::F32), f64::abs));
    timer.time(name, Unit::Millis, check, || evaluate(&call()))
}

/// Returns the Gaussian kernel of each row of `x` with each row of `y`.
#[traced]
fn pairwise(x: &Tensor, y: &Tensor) -> Tensor {
    let d = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1);
    (d * -0.5).exp()
}

#[traced]
fn pairwise_energy(x: &Tensor, y: &Tensor) -> Tensor {
    pairwise(x, y).square().sum(..)
}

/// Returns the potential energy of points that attract each other.
#[traced]
fn potential(points: &Tensor) -> Tensor {
    let d = points.unsqueeze(1) - points.unsqueeze(0);
    let squares = d.square().sum(-1) + 0.01;
    (squares.sqrt().reciprocal()).sum(..) * -0.5
}

fn pairs(timer: &mut Timer) -> Result<()> {
    let (x, y) = (fill(600, [1024, 16], 1.0), fill(601, [1024, 16], 1.0));
    row(timer, "W19_pairwise", || pairwise(&x, &y))?;
    row(timer, "W19_pairwise_vjp", || {
        let (value, grads) = pairwise_energy::value_and_grad(&x, &y);
        (value, grads.x, grads.y)
    })?;
    let points = fill(602, [512, 3], 1.0);
    row(timer, "W19_nbody_vjp", || {
        let (value, grads) = potential::value_and_grad(&points);
        (value, grads.points)
    })
}

#[traced]
fn batch_norm(x: &Tensor, gain: &Tensor, bias: &Tensor) -> Tensor {
    let mean = x.mean_keepdims(0);
    let var = (x - &mean).square().mean_keepdims(0);
    (x - mean) / (var + 1e-5).sqrt() * gain + bias
}

#[traced]
fn batch_norm_energy(x: &Tensor, gain: &Tensor, bias: &Tensor) -> Tensor {
    batch_norm(x, gain, bias).relu().square().mean(..)
}

#[traced]
fn layer_norm(x: &Tensor) -> Tensor {
    let mean = x.mean_keepdims(-1);
    let var = (x - &mean).square().mean_keepdims(-1);
    (x - mean) / (var + 1e-5).sqrt()
}

#[traced]
fn layer_norm_net(weights: &[Tensor], #[nodiff] x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for w in weights {
        h = layer_norm(&h.matmul(w)).gelu();
    }
    h.square().mean(..)
}

fn norms(timer: &mut Timer) -> Result<()> {
    let (gain, bias) = (near_one(604, 1024, 0.1), fill(605, 1024, 0.1));
    let x = fill(603, [512, 1024], 1.0);
    row(timer, "W19_batch_stats", || batch_norm(&x, &gain, &bias))?;
    row(timer, "W19_batch_stats_vjp", || {
        let (value, grads) = batch_norm_energy::value_and_grad(&x, &gain, &bias);
        (value, grads.x, grads.gain, grads.bias)
    })?;
    let weights: Vec<Tensor> = (606..610).map(|seed| weight(seed, 512, 512)).collect();
    let x = fill(610, [256, 512], 1.0);
    row(timer, "W19_layer_norm_net_vjp", || {
        let (value, grads) = layer_norm_net::value_and_grad(&weights, &x);
        (value, grads.weights)
    })
}

/// Weights of an LSTM: the columns are those of the input gate, the forget gate, the candidates and the output gate.
#[derive(Clone, Tree)]
struct Lstm {
    input: Tensor,
    state: Tensor,
    bias: Tensor,
}

/// Returns the mean square of the last state for `xs` of shape `[time, batch, feature]`.
#[traced]
fn lstm_energy(lstm: &Lstm, #[nodiff] xs: &Tensor) -> Tensor {
    let mut h = Tensor::zeros([xs.dim(1), lstm.state.dim(0)], xs.dtype());
    let mut c = h.clone();
    for t in 0..xs.dim(0) as i64 {
        let x = xs.slice([t], [t + 1], [1]).squeeze(0);
        let gates = x.matmul(&lstm.input) + h.matmul(&lstm.state) + &lstm.bias;
        let [input, forget, candidates, output] = gates.split(-1);
        c = forget.sigmoid() * &c + input.sigmoid() * candidates.tanh();
        h = output.sigmoid() * c.tanh();
    }
    h.square().mean(..)
}

/// Returns the slope of the state of a differential equation.
#[traced]
fn slope(first: &Linear, last: &Linear, x: &Tensor) -> Tensor {
    last.forward(&first.forward(x).tanh())
}

/// Returns the mean square of the state after 20 steps of the Runge-Kutta method of order 4.
#[traced]
fn rk4_energy(first: &Linear, last: &Linear, #[nodiff] x: &Tensor) -> Tensor {
    let dt = 0.05;
    let mut y = x.clone();
    for _ in 0..20 {
        let k1 = slope(first, last, &y);
        let k2 = slope(first, last, &(&y + &k1 * (dt / 2.0)));
        let k3 = slope(first, last, &(&y + &k2 * (dt / 2.0)));
        let k4 = slope(first, last, &(&y + &k3 * dt));
        y += (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (dt / 6.0);
    }
    y.square().mean(..)
}

/// Coefficients of a filter of second order.
#[derive(Clone, Tree)]
struct Taps {
    b0: Tensor,
    b1: Tensor,
    b2: Tensor,
    a1: Tensor,
    a2: Tensor,
}

/// Returns a signal after a filter, in the transposed direct form II.
#[traced]
fn filtered(taps: &Taps, signal: &Tensor) -> Tensor {
    let zero = taps.b0.zeros_like();
    let (_, ys) = scan(
        |(s1, s2): &(Tensor, Tensor), x: &Tensor| {
            let y = &taps.b0 * x + s1;
            let next = &taps.b1 * x - &taps.a1 * &y + s2;
            ((next, &taps.b2 * x - &taps.a2 * &y), y)
        },
        &(zero.clone(), zero),
        signal,
    );
    ys
}

#[traced]
fn filter_energy(taps: &Taps, signal: &Tensor) -> Tensor {
    filtered(taps, signal).square().mean(..)
}

fn sequences(timer: &mut Timer) -> Result<()> {
    let signal = fill(622, [4096], 1.0);
    let [b0, b1, b2, a1, a2] = [0.2f32, 0.3, 0.2, -0.5, 0.2].map(Tensor::from);
    let taps = Taps { b0, b1, b2, a1, a2 };
    row(timer, "W19_filter", || filtered(&taps, &signal))?;
    row(timer, "W19_filter_vjp", || {
        let (value, grads) = filter_energy::value_and_grad(&taps, &signal);
        (value, grads.taps, grads.signal)
    })?;
    let xs = fill(614, [64, 32, 64], 1.0);
    let lstm = Lstm {
        input: weight(611, 64, 512),
        state: weight(612, 128, 512),
        bias: fill(613, 512, 0.1),
    };
    row(timer, "W19_lstm_vjp", || {
        let (value, grads) = lstm_energy::value_and_grad(&lstm, &xs);
        (value, grads.lstm)
    })?;
    let layer = |seed, inputs, outputs| Linear {
        w: weight(seed, inputs, outputs),
        b: fill(seed + 1, outputs, 0.1),
    };
    let (first, last) = (layer(615, 32, 64), layer(617, 64, 32));
    let x = fill(619, [16, 32], 1.0);
    row(timer, "W19_rk4_vjp", || {
        let (value, grads) = rk4_energy::value_and_grad(&first, &last, &x);
        (value, grads.first, grads.last)
    })
}

/// Returns the mean of the negative logarithms of the probabilities of labels of shape `[rows, 1]`.
#[traced]
fn vocabulary_loss(logits: &Tensor, #[nodiff] labels: &Tensor) -> Tensor {
    -logits.log_softmax(-1).take_along_axis(labels, -1).mean(..)
}

fn losses(timer: &mut Timer) -> Result<()> {
    let logits = fill(620, [256, 32_000], 3.0);
    let labels = super::inputs::ids(256, 32_000, 256);
    row(timer, "W19_vocabulary_vjp", || {
        let (value, grads) = vocabulary_loss::value_and_grad(&logits, &labels);
        (value, grads.logits)
    })?;
    let double = |x: Tensor| x.cast(DType::F64);
    let layer = |seed, inputs, outputs| Linear {
        w: double(weight(seed, inputs, outputs)),
        b: double(zeros(outputs)),
    };
    let mlp = Mlp {
        first: layer(101, 784, 512),
        second: layer(102, 512, 256),
        last: layer(103, 256, 10),
    };
    let (x, labels) = (
        double(fill(100, [128, 784], 1.0)),
        super::inputs::labels(128),
    );
    evaluate((&mlp, &x))?;
    row(timer, "W19_f64_vjp", || {
        let (value, grads) = model::loss::value_and_grad(&mlp, &x, &labels);
        (value, grads.model)
    })
}

/// The function of W4.
#[traced(order = 2)]
fn total(x: &Tensor) -> Tensor {
    let bell = (x * 1.5 + 0.5).tanh() * (-x.square()).exp();
    (bell + x.sigmoid() * x - (x.square() + 1.0).sqrt()).sum(..)
}

/// The function of Rosenbrock, and a quadratic form.
#[traced]
fn valley(x: &Tensor, #[nodiff] form: &Tensor) -> Tensor {
    let n = x.dim(0) as i64;
    let (head, tail) = (x.slice([0], [n - 1], [1]), x.slice([1], [n], [1]));
    let curve = (tail - head.square()).square() * 100.0 + (1.0 - head).square();
    curve.sum(..) + (x * form.matmul(x)).sum(..)
}

fn second_order(timer: &mut Timer) -> Result<()> {
    let x = fill(640, 1 << 20, 2.0);
    let ones = x.ones_like();
    evaluate(&ones)?;
    row(timer, "W19_second", || total::hvp(&x, &ones).1.x)?;
    let (x, form) = (fill(641, 50, 1.0), weight(642, 50, 50));
    row(timer, "W19_hessian50", || {
        hessian(|x: &Tensor| valley(x, &form))(&x)
    })?;
    row(timer, "W19_jacobian50", || {
        jacrev(|x: &Tensor| form.matmul(x).tanh())(&x)
    })
}
