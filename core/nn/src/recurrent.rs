use crate::init;
use gradloom::prelude::*;
use gradloom::scan;

/// State of an [`Lstm`].
#[derive(Clone, Debug, Tree)]
pub struct LstmState {
    /// `[batch, hidden]`.
    pub hidden: Tensor,
    /// `[batch, hidden]`.
    pub cell: Tensor,
}

/// Long short-term memory. Hochreiter, Schmidhuber: Long Short-Term Memory, 1997.
///
/// Layout and order of the gates (input, forget, cell, output) are those of PyTorch.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::Lstm;
///
/// let lstm = Lstm::new(Key::new(0), 3, 5);
/// let xs = Tensor::ones([7, 2, 3], DType::F32);
/// let (ys, last) = lstm.run(&xs, &lstm.start(2));
/// assert_eq!(ys.shape(), [7, 2, 5]);
/// assert_eq!(last.hidden.shape(), [2, 5]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Lstm {
    /// `[4 hidden, inputs]`.
    pub weight_ih: Tensor,
    /// `[4 hidden, hidden]`.
    pub weight_hh: Tensor,
    /// `[4 hidden]`.
    pub bias_ih: Tensor,
    /// `[4 hidden]`.
    pub bias_hh: Tensor,
}

/// Returns weights and biases of `gates` gates.
fn gates(key: Key, gates: usize, inputs: usize, hidden: usize) -> [Tensor; 4] {
    let bound = 1.0 / (hidden as f64).sqrt();
    let [a, b, c, d] = key.split_n();
    let n = gates * hidden;
    [
        init::uniform(a, [n, inputs], bound),
        init::uniform(b, [n, hidden], bound),
        init::uniform(c, [n], bound),
        init::uniform(d, [n], bound),
    ]
}

impl Lstm {
    /// Returns uniform weights and biases from `-1 / sqrt(hidden)` to `1 / sqrt(hidden)`.
    pub fn new(key: Key, inputs: usize, hidden: usize) -> Lstm {
        let [weight_ih, weight_hh, bias_ih, bias_hh] = gates(key, 4, inputs, hidden);
        Lstm {
            weight_ih,
            weight_hh,
            bias_ih,
            bias_hh,
        }
    }

    /// Returns a state of zeros.
    pub fn start(&self, batch: usize) -> LstmState {
        let zeros = Tensor::zeros([batch, self.weight_hh.shape()[1]], self.weight_hh.dtype());
        LstmState {
            hidden: zeros.clone(),
            cell: zeros,
        }
    }
}

#[traced]
impl Lstm {
    /// Returns the state after one input, `[batch, inputs]`.
    pub fn step(&self, x: &Tensor, state: &LstmState) -> LstmState {
        let own = x.matmul(self.weight_ih.t()) + &self.bias_ih;
        let gates = own + state.hidden.matmul(self.weight_hh.t()) + &self.bias_hh;
        let [input, forget, cell, output] = gates.split(-1);
        let cell = forget.sigmoid() * &state.cell + input.sigmoid() * cell.tanh();
        let hidden = output.sigmoid() * cell.tanh();
        LstmState { hidden, cell }
    }

    /// Returns the hidden states after each input, `[n, batch, hidden]`, and the last state.
    ///
    /// The inputs are `[n, batch, inputs]`.
    pub fn run(&self, xs: &Tensor, start: &LstmState) -> (Tensor, LstmState) {
        let turn = |state: &LstmState, x: &Tensor| {
            let next = self.step(x, state);
            (next.clone(), next.hidden)
        };
        let (last, hidden) = scan(turn, start, xs);
        (hidden, last)
    }
}

/// Gated recurrent units. Cho et al.: Learning Phrase Representations using RNN Encoder-Decoder, 2014.
///
/// Layout and order of the gates (reset, update, new) are those of PyTorch.
///
/// ```
/// use gradloom::{DType, Key, Tensor};
/// use gradloom_nn::Gru;
///
/// let gru = Gru::new(Key::new(0), 3, 5);
/// let (ys, last) = gru.run(&Tensor::ones([7, 2, 3], DType::F32), &gru.start(2));
/// assert_eq!(ys.shape(), [7, 2, 5]);
/// assert_eq!(last.shape(), [2, 5]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Gru {
    /// `[3 hidden, inputs]`.
    pub weight_ih: Tensor,
    /// `[3 hidden, hidden]`.
    pub weight_hh: Tensor,
    /// `[3 hidden]`.
    pub bias_ih: Tensor,
    /// `[3 hidden]`.
    pub bias_hh: Tensor,
}

impl Gru {
    /// Returns uniform weights and biases from `-1 / sqrt(hidden)` to `1 / sqrt(hidden)`.
    pub fn new(key: Key, inputs: usize, hidden: usize) -> Gru {
        let [weight_ih, weight_hh, bias_ih, bias_hh] = gates(key, 3, inputs, hidden);
        Gru {
            weight_ih,
            weight_hh,
            bias_ih,
            bias_hh,
        }
    }

    /// Returns a state of zeros.
    pub fn start(&self, batch: usize) -> Tensor {
        Tensor::zeros([batch, self.weight_hh.shape()[1]], self.weight_hh.dtype())
    }
}

#[traced]
impl Gru {
    /// Returns the state after one input, `[batch, inputs]`.
    pub fn step(&self, x: &Tensor, state: &Tensor) -> Tensor {
        let own = x.matmul(self.weight_ih.t()) + &self.bias_ih;
        let kept = state.matmul(self.weight_hh.t()) + &self.bias_hh;
        let [own_reset, own_update, own_new] = own.split(-1);
        let [kept_reset, kept_update, kept_new] = kept.split(-1);
        let reset = (own_reset + kept_reset).sigmoid();
        let update = (own_update + kept_update).sigmoid();
        let new = (own_new + reset * kept_new).tanh();
        (1.0 - &update) * new + update * state
    }

    /// Returns the states after each input, `[n, batch, hidden]`, and the last one.
    ///
    /// The inputs are `[n, batch, inputs]`.
    pub fn run(&self, xs: &Tensor, start: &Tensor) -> (Tensor, Tensor) {
        let turn = |state: &Tensor, x: &Tensor| {
            let next = self.step(x, state);
            (next.clone(), next)
        };
        let (last, all) = scan(turn, start, xs);
        (all, last)
    }
}
