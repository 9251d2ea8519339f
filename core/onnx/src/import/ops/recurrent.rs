//! Recurrent layers, unrolled over the sequence.

use super::{Call, Fallible, Outputs, Table, Value};
use crate::import::ops::elementwise::hard_sigmoid;
use crate::import::ops::indexing;
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("RNN", |c| layer(c, 1, &["Tanh"])),
    ("GRU", |c| layer(c, 3, &["Sigmoid", "Tanh"])),
    ("LSTM", |c| layer(c, 4, &["Sigmoid", "Tanh", "Tanh"])),
];

/// An activation with its parameters.
type Activation = Box<dyn Fn(&Tensor) -> Tensor>;

fn activations(c: &Call<'_>, defaults: &[&str], n_directions: usize) -> Fallible<Vec<Activation>> {
    let names: Vec<String> = match c.texts("activations")? {
        Some(names) => names,
        None => defaults
            .repeat(n_directions)
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
    };
    if names.len() != defaults.len() * n_directions {
        return c.fault(format!(
            "has {} activations, expected {}",
            names.len(),
            defaults.len() * n_directions
        ));
    }
    let lists = [c.floats("activation_alpha")?, c.floats("activation_beta")?];
    let mut lists = lists.map(|list| list.unwrap_or_default().into_iter().map(f64::from));
    let mut next = |i: usize, default: f64| lists[i].next().unwrap_or(default);
    let mut found: Vec<Activation> = Vec::new();
    for name in names {
        found.push(match &*name.to_ascii_lowercase() {
            "relu" => Box::new(Tensor::relu),
            "tanh" => Box::new(Tensor::tanh),
            "sigmoid" => Box::new(Tensor::sigmoid),
            "softsign" => Box::new(Tensor::softsign),
            "softplus" => Box::new(Tensor::softplus),
            "affine" => {
                let (alpha, beta) = (next(0, 1.0), next(1, 0.0));
                Box::new(move |x| x * alpha + beta)
            }
            "leakyrelu" => {
                let alpha = next(0, 0.01);
                Box::new(move |x| x.leaky_relu(alpha))
            }
            "elu" => {
                let alpha = next(0, 1.0);
                Box::new(move |x| x.elu(alpha))
            }
            "hardsigmoid" => {
                let (alpha, beta) = (next(0, 0.2), next(1, 0.5));
                Box::new(move |x| hard_sigmoid(x, alpha, beta))
            }
            "scaledtanh" => {
                let (alpha, beta) = (next(0, 1.0), next(1, 1.0));
                Box::new(move |x| (x * beta).tanh() * alpha)
            }
            _ => return c.unsupported(format!("its activation `{name}` is not")),
        });
    }
    Ok(found)
}

/// Returns `x` with the first elements of each sequence in reverse order.
fn reversed(x: &Tensor, lens: Option<&Tensor>) -> Tensor {
    let Some(lens) = lens else { return x.flip(0) };
    let (n, m) = (x.shape()[0], x.shape()[1]);
    let at = Tensor::arange(n, DType::I64).reshape([n, 1]);
    let back = lens - 1i64 - &at;
    let at = back.ge(0i64).select(&back, &at);
    let places = indexing::flat(&[at, Tensor::arange(m, DType::I64)], &x.shape()[..2]);
    x.reshape([&[n * m], &x.shape()[2..]].concat())
        .take(places, 0)
}

/// Runs a layer with `n_gates` gates: 1 for a plain one, 3 for a GRU, 4 for an LSTM.
fn layer(c: &Call<'_>, n_gates: usize, defaults: &[&str]) -> Outputs {
    let direction = c.text("direction", "forward")?;
    c.one_of(
        "direction",
        direction,
        &["forward", "reverse", "bidirectional"],
    )?;
    let n_directions = if direction == "bidirectional" { 2 } else { 1 };
    let functions = activations(c, defaults, n_directions)?;
    let (clip, by_batch) = (c.float_or_none("clip")?, c.flag("layout", false)?);
    let (coupled, after) = (
        c.flag("input_forget", false)?,
        c.flag("linear_before_reset", false)?,
    );
    if coupled {
        return c.unsupported("its attribute `input_forget` is not");
    }
    c.without_effect(&["output_sequence"]);
    let (x, w, r) = (c.x(0)?, c.x(1)?, c.x(2)?);
    c.same_dtype(&[&x, &w, &r])?;
    let x = if by_batch { x.swap_axes(0, 1) } else { x };
    let &[n, m, _] = x.shape() else {
        return c.fault(format!("has {}, expected three axes", x.aval()));
    };
    let size = r.shape().last().copied().unwrap_or(0);
    let expected = [n_directions, n_gates * size];
    if w.rank() != 3
        || w.shape()[..2] != expected
        || r.shape() != [n_directions, n_gates * size, size]
    {
        return c.fault(format!(
            "has the weights {} and {} for {n_gates} gates",
            w.aval(),
            r.aval()
        ));
    }
    if c.int("hidden_size", size as i64)? != size as i64 {
        return c.fault(format!(
            "has another `hidden_size` than its weights {}",
            r.aval()
        ));
    }
    let bias = match c.optional(3)? {
        Some(bias) => bias,
        None => Tensor::zeros([n_directions, 2 * n_gates * size], x.dtype()),
    };
    let lens = c.optional(4)?.map(|lens| lens.cast(DType::I64));
    let state = |i: usize| -> Fallible<Tensor> {
        match c.optional(i)? {
            Some(state) => Ok(if by_batch {
                state.swap_axes(0, 1)
            } else {
                state
            }),
            None => Ok(Tensor::zeros([n_directions, m, size], x.dtype())),
        }
    };
    let first_h = state(5)?;
    let is_lstm = n_gates == 4;
    let first_c = if is_lstm { Some(state(6)?) } else { None };
    let peepholes = if is_lstm { c.optional(7)? } else { None };
    let clipped = |x: Tensor| match clip {
        Some(bound) => x.clamp(-bound, bound),
        None => x,
    };
    let (mut all_ys, mut last_hs, mut last_cs) = (Vec::new(), Vec::new(), Vec::new());
    for d in 0..n_directions {
        let backwards = direction == "reverse" || d == 1;
        let xs = if backwards {
            reversed(&x, lens.as_ref())
        } else {
            x.clone()
        };
        let f = &functions[d * defaults.len()..];
        let (w, r, bias) = (w.row(d).transpose(), r.row(d).transpose(), bias.row(d));
        let last = |x: &Tensor, start: usize, stop: usize| {
            super::part(x, x.rank() - 1, start * size, stop * size)
        };
        let gate = |x: &Tensor, i: usize| last(x, i, i + 1);
        let (w_bias, r_bias) = (last(&bias, 0, n_gates), last(&bias, n_gates, 2 * n_gates));
        // The inputs of all steps by one product.
        let projected = xs.matmul(w) + &w_bias;
        let mut h = first_h.row(d);
        let mut cell = first_c.as_ref().map(|first| first.row(d));
        let peephole = peepholes.as_ref().map(|all| all.row(d));
        let peeped = |x: Tensor, cell: &Tensor, i: usize| match &peephole {
            Some(p) => x + gate(p, i) * cell,
            None => x,
        };
        let mut ys = Vec::with_capacity(n);
        for t in 0..n {
            let input = projected.row(t);
            let (mut next, mut next_cell) = match n_gates {
                1 => (f[0](&clipped(input + h.matmul(&r) + &r_bias)), None),
                3 => {
                    let recurrent = h.matmul(&r) + &r_bias;
                    let update = f[0](&clipped(gate(&input, 0) + gate(&recurrent, 0)));
                    let reset = f[0](&clipped(gate(&input, 1) + gate(&recurrent, 1)));
                    let hidden = match after {
                        true => &reset * gate(&recurrent, 2),
                        false => (&reset * &h).matmul(gate(&r, 2)) + gate(&r_bias, 2),
                    };
                    let hidden = f[1](&clipped(gate(&input, 2) + hidden));
                    ((&update * -1.0 + 1.0) * hidden + update * &h, None)
                }
                _ => {
                    let before = cell.clone().expect("an LSTM has a cell");
                    let gates = input + h.matmul(&r) + &r_bias;
                    let i = f[0](&clipped(peeped(gate(&gates, 0), &before, 0)));
                    let forget = f[0](&clipped(peeped(gate(&gates, 2), &before, 2)));
                    let inner = f[1](&clipped(gate(&gates, 3)));
                    let after = forget * &before + i * inner;
                    let o = f[0](&clipped(peeped(gate(&gates, 1), &after, 1)));
                    (o * f[2](&after), Some(after))
                }
            };
            let mut y = next.clone();
            if let Some(lens) = &lens {
                // A sequence that has ended keeps its state, and its outputs are 0.
                let runs = lens.gt(t as i64).unsqueeze(1);
                y = runs.select(&next, 0.0);
                next = runs.select(&next, &h);
                next_cell = next_cell
                    .zip(cell.as_ref())
                    .map(|(next, old)| runs.select(&next, old));
            }
            (h, cell) = (next, next_cell);
            ys.push(y);
        }
        if ys.is_empty() {
            return c.fault(format!("has no steps in {}", x.aval()));
        }
        let ys = Tensor::stack(&ys, 0);
        all_ys.push(if backwards {
            reversed(&ys, lens.as_ref())
        } else {
            ys
        });
        last_hs.push(h);
        last_cs.extend(cell);
    }
    let order = |x: Tensor, axis: usize| if by_batch { x.moveaxis(axis, 0) } else { x };
    // Steps, directions, batch; with `layout`, batch, steps, directions.
    let mut outputs = vec![
        order(Tensor::stack(&all_ys, 1), 2),
        order(Tensor::stack(&last_hs, 0), 1),
    ];
    if is_lstm {
        outputs.push(order(Tensor::stack(&last_cs, 0), 1));
    }
    Ok(outputs.into_iter().map(Value::Tensor).collect())
}
