//! Loops and recursion over the parts of a model.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;

/// A tree of layers.
#[derive(Tree)]
pub(crate) enum Net {
    /// The identity.
    Leaf,
    /// A layer and the rest of the net.
    Dense {
        w: Tensor,
        b: Option<Tensor>,
        next: Box<Net>,
    },
    /// Two nets applied to the same input.
    Sum(Box<Net>, Box<Net>),
}

#[traced]
impl Net {
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Net::Leaf => x.clone(),
            Net::Dense { w, b, next } => {
                let mut h = x.matmul(w);
                if let Some(b) = b {
                    h += b;
                }
                next.forward(&h.tanh())
            }
            Net::Sum(left, right) => left.forward(x) + right.forward(x) * 0.5,
        }
    }
}

fn dense(seed: u64, biased: bool, next: Net) -> Net {
    Net::Dense {
        w: noise(&[3, 3], seed),
        b: biased.then(|| noise(&[3], seed + 1)),
        next: Box::new(next),
    }
}

#[test]
fn a_recursion_over_a_tree_of_layers_gives_the_cotangent_of_each_layer() {
    let inner = Net::Sum(
        Box::new(dense(5, false, Net::Leaf)),
        Box::new(dense(7, true, Net::Leaf)),
    );
    let net = Net::Sum(
        Box::new(dense(1, true, dense(3, true, inner))),
        Box::new(Net::Leaf),
    );
    Companions {
        call: &|(net, x): &(Net, Tensor)| net.forward(x),
        vjp: &|(net, x), ct| {
            let (y, pullback) = net.forward_vjp(x);
            (y, pullback(ct))
        },
        jvp: &|(net, x), (d_net, dx)| Net::forward_jvp(net, x, (d_net, dx)),
    }
    .check(&(net, noise(&[2, 3], 20)));
}

/// A step of a recurrent network.
#[derive(Tree)]
pub(crate) struct Cell {
    input: Tensor,
    state: Tensor,
    bias: Tensor,
}

/// Stacked recurrent layers.
#[derive(Tree)]
pub(crate) struct Rnn {
    cells: Vec<Cell>,
    readout: (Tensor, Tensor),
}

#[traced]
impl Cell {
    fn step(&self, x: &Tensor, h: &Tensor) -> Tensor {
        (x.matmul(&self.input) + h.matmul(&self.state) + &self.bias).tanh()
    }
}

#[traced]
impl Rnn {
    /// Runs each layer over the whole sequence. Its initial state is the final state of the
    /// previous layer.
    pub(crate) fn run(&self, xs: &Vec<Tensor>, start: &Tensor) -> Tensor {
        let mut h = start.clone();
        for cell in &self.cells {
            for x in xs {
                h = cell.step(x, &h);
            }
        }
        h.matmul(&self.readout.0) + &self.readout.1
    }

    /// Also returns the weighted sum of all states.
    pub(crate) fn states(&self, xs: &Vec<Tensor>, decay: f64) -> (Tensor, Tensor) {
        let mut state = (xs[0].zeros_like(), xs[0].zeros_like());
        for (t, x) in xs.iter().enumerate() {
            for (k, cell) in self.cells.iter().enumerate().rev() {
                let h = cell.step(x, &state.0);
                let weight = decay * (t + k) as f64;
                state = (&h * 0.9, state.1 + h * weight);
            }
        }
        state
    }

    /// Iterates over inputs and layers in pairs.
    pub(crate) fn paired(&self, xs: &Vec<Tensor>) -> Tensor {
        let mut h = xs[xs.len() - 1].sin();
        for (x, cell) in xs.iter().zip(&self.cells) {
            h = cell.step(x, &h) + &h * 0.25;
        }
        for (i, (cell, x)) in self.cells.iter().zip(xs.iter().rev()).enumerate() {
            if i == 1 {
                continue;
            }
            h = cell.step(&h, x);
        }
        h
    }
}

fn rnn(n: usize) -> Rnn {
    let cell = |i: u64| Cell {
        input: noise(&[3, 3], i),
        state: noise(&[3, 3], i + 1),
        bias: noise(&[3], i + 2),
    };
    Rnn {
        cells: (0..n as u64).map(|i| cell(10 * i + 1)).collect(),
        readout: (noise(&[3, 2], 90), noise(&[2], 91)),
    }
}

fn inputs(n: usize) -> Vec<Tensor> {
    (0..n as u64).map(|i| noise(&[2, 3], 200 + i)).collect()
}

#[test]
fn a_recurrent_network_runs_over_a_sequence() {
    for (layers, length) in [(2, 4), (1, 1), (3, 0), (0, 2)] {
        let args = (rnn(layers), inputs(length), noise(&[2, 3], 55));
        Companions {
            call: &|(m, xs, h): &(Rnn, Vec<Tensor>, Tensor)| m.run(xs, h),
            vjp: &|(m, xs, h), ct| {
                let (y, pullback) = m.run_vjp(xs, h);
                (y, pullback(ct))
            },
            jvp: &|(m, xs, h), (dm, dxs, dh)| m.run_jvp((xs, h), (dm, dxs, dh)),
        }
        .check(&args);
    }
}

#[test]
fn a_state_of_several_tensors_is_carried_through_a_loop() {
    for (layers, length) in [(2, 3), (1, 1), (0, 2)] {
        Companions {
            call: &|(m, xs): &(Rnn, Vec<Tensor>)| m.states(xs, 0.3),
            vjp: &|(m, xs), ct| {
                let (y, pullback) = m.states_vjp(xs, 0.3);
                (y, pullback(ct))
            },
            jvp: &|(m, xs), (dm, dxs)| m.states_jvp((xs, 0.3), (dm, dxs)),
        }
        .check(&(rnn(layers), inputs(length)));
    }
}

#[test]
fn two_sequences_can_be_zipped() {
    for (layers, length) in [(3, 2), (2, 4), (0, 1)] {
        Companions {
            call: &|(m, xs): &(Rnn, Vec<Tensor>)| m.paired(xs),
            vjp: &|(m, xs), ct| {
                let (y, pullback) = m.paired_vjp(xs);
                (y, pullback(ct))
            },
            jvp: &|(m, xs), (dm, dxs)| m.paired_jvp(xs, (dm, dxs)),
        }
        .check(&(rnn(layers), inputs(length)));
    }
}

#[traced]
impl Rnn {
    /// Uses the first cell, the last one, and those in between.
    pub(crate) fn ends(&self, x: &Tensor) -> Tensor {
        let mut h = x.sin();
        if let Some(first) = self.cells.first() {
            h = first.step(x, &h);
        }
        if let Some((last, rest)) = self.cells.split_last() {
            for cell in rest {
                h = cell.step(&h, x);
            }
            h = h + &last.bias;
        }
        match self.cells.get(1) {
            Some(cell) => cell.step(x, &h),
            None => h,
        }
    }
}

#[test]
fn a_slice_pattern_takes_a_model_apart() {
    for layers in 0..4 {
        Companions {
            call: &|(m, x): &(Rnn, Tensor)| m.ends(x),
            vjp: &|(m, x), ct| {
                let (y, pullback) = m.ends_vjp(x);
                (y, pullback(ct))
            },
            jvp: &|(m, x), (dm, dx)| m.ends_jvp(x, (dm, dx)),
        }
        .check(&(rnn(layers), noise(&[2, 3], 7)));
    }
}
