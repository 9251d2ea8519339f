//! Normalisation and attention.

use super::{Call, Fallible, Outputs, Table, all, iota, one, part};
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("BatchNormalization", batch_norm),
    ("InstanceNormalization", |c| {
        let (x, eps) = (c.x(0)?, c.float("epsilon", 1e-5)?);
        let (scale, bias) = (channels(c, &x, c.x(1)?)?, channels(c, &x, c.x(2)?)?);
        one(x.normalize(2..x.rank(), eps) * scale + bias)
    }),
    ("GroupNormalization", |c| {
        let (x, eps, groups) = (c.x(0)?, c.float("epsilon", 1e-5)?, c.int("num_groups", 0)?);
        stash(c)?;
        let n = x.shape().get(1).copied().unwrap_or(0);
        let Some(groups) = usize::try_from(groups)
            .ok()
            .filter(|groups| *groups > 0 && n % groups == 0)
        else {
            return c.fault(format!("has {groups} groups for {}", x.aval()));
        };
        let rows = x.reshape([&[x.shape()[0], groups, n / groups], &x.shape()[2..]].concat());
        let y = rows.normalize(2..rows.rank(), eps).reshape(x.shape());
        let each = |w: Tensor| match w.shape() == [groups] && groups != n {
            true => w.repeat(n / groups, 0),
            false => w,
        };
        let (scale, bias) = (
            channels(c, &x, each(c.x(1)?))?,
            channels(c, &x, each(c.x(2)?))?,
        );
        one(y * scale + bias)
    }),
    ("LayerNormalization", |c| {
        let (x, eps) = (c.x(0)?, c.float("epsilon", 1e-5)?);
        let axis = c.axis(-1, x.rank())?;
        stash(c)?;
        let scale = c.x(1)?;
        c.same_dtype(&[&x, &scale])?;
        let axes = axis..x.rank();
        let y = match c.optional(2)? {
            Some(bias)
                if scale.shape() == &x.shape()[axis..]
                    && bias.shape() == scale.shape()
                    && scale.rank() == 1 =>
            {
                x.layer_norm(&scale, &bias, eps)
            }
            Some(bias) => x.normalize(axes.clone(), eps) * scale + bias,
            None => x.normalize(axes.clone(), eps) * scale,
        };
        if c.n_outputs() < 2 {
            return one(y);
        }
        let mean = x.mean_keepdims(axes.clone());
        let deviation = (x.var_keepdims(axes, 0) + eps).rsqrt();
        all([y, mean, deviation].into_iter().take(c.n_outputs()))
    }),
    ("RMSNormalization", |c| {
        let (x, eps) = (c.x(0)?, c.float("epsilon", 1e-5)?);
        let axis = c.axis(-1, x.rank())?;
        stash(c)?;
        let scale = c.x(1)?;
        c.same_dtype(&[&x, &scale])?;
        let size = x.square().mean_keepdims(axis..x.rank());
        one(&x * (size + eps).rsqrt() * scale)
    }),
    ("MeanVarianceNormalization", |c| {
        let x = c.x(0)?;
        let axes = c.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
        let centred = &x - x.mean_keepdims(&axes);
        one(&centred / (x.std_keepdims(axes, 0) + 1e-9))
    }),
    ("RotaryEmbedding", rotary),
    ("Attention", attention),
    ("LinearAttention", linear_attention),
    ("CausalConvWithState", |c| {
        let (x, w) = c.pair()?;
        let activation = c.text("activation", "none")?;
        c.one_of("activation", activation, &["none", "silu", "swish"])?;
        let &[n, channels, _] = x.shape() else {
            return c.fault(format!("has {}, expected three axes", x.aval()));
        };
        let before = w.shape().last().copied().unwrap_or(1).saturating_sub(1);
        let past = match c.optional(3)? {
            Some(past) => past,
            None => Tensor::zeros([n, channels, before], x.dtype()),
        };
        let x = Tensor::concat(&[past, x], 2);
        let y = x.conv(w, 1, 0, 1, channels);
        let y = match c.optional(2)? {
            Some(bias) => y + bias.unsqueeze(1),
            None => y,
        };
        let state = part(&x, 2, x.shape()[2] - before, x.shape()[2]);
        let outputs = [if activation == "none" { y } else { y.silu() }, state];
        all(outputs.into_iter().take(c.n_outputs()))
    }),
];

/// Checks that a norm is computed in `f32`, or in the dtype of its input.
fn stash(c: &Call<'_>) -> Fallible<()> {
    match c.int("stash_type", 1)? {
        1 => Ok(()),
        ty => c.unsupported(format!("its attribute `stash_type` is {ty}, expected 1")),
    }
}

/// Returns a vector of the channels of `x` in the rank of `x`.
fn channels(c: &Call<'_>, x: &Tensor, w: Tensor) -> Fallible<Tensor> {
    c.same_dtype(&[x, &w])?;
    match x.rank() >= 2 && w.shape() == [x.shape()[1]] {
        true => Ok(w.unsqueeze((1..x.rank() - 1).collect::<Vec<usize>>())),
        false => c.fault(format!("has {} for the channels of {}", w.aval(), x.aval())),
    }
}

fn batch_norm(c: &Call<'_>) -> Outputs {
    let (x, eps, momentum) = (
        c.x(0)?,
        c.float("epsilon", 1e-5)?,
        c.float("momentum", 0.9)?,
    );
    let trains = c.flag("training_mode", false)?;
    if c.opset() < 9 {
        c.without_effect(&["consumed_inputs"]);
        if c.opset() < 7 && !c.flag("is_test", false)? {
            return c.unsupported("it is for training: its attribute `is_test` is 0, expected 1");
        }
        if !c.flag("spatial", true)? {
            return c.unsupported("its attribute `spatial` is 0, expected 1");
        }
    }
    let x = if x.rank() == 1 { x.unsqueeze(1) } else { x };
    let weights = [1, 2, 3, 4].map(|i| c.x(i).and_then(|w| channels(c, &x, w)));
    let [scale, bias, mean, var] = weights;
    let (scale, bias, mean, var) = (scale?, bias?, mean?, var?);
    let y = |mean: &Tensor, var: &Tensor| (&x - mean) * (var + eps).rsqrt() * &scale + &bias;
    if !trains {
        return one(y(&mean, &var));
    }
    let axes: Vec<usize> = (0..x.rank()).filter(|axis| *axis != 1).collect();
    let (own_mean, own_var) = (
        x.mean_keepdims(&axes).squeeze(0),
        x.var_keepdims(&axes, 0).squeeze(0),
    );
    let running = |old: &Tensor, own: &Tensor| (old * momentum + own * (1.0 - momentum)).flatten();
    let outputs = [
        y(&own_mean, &own_var),
        running(&mean, &own_mean),
        running(&var, &own_var),
    ];
    all(outputs.into_iter().take(c.n_outputs()))
}

fn rotary(c: &Call<'_>) -> Outputs {
    let (x, mut cos, mut sin) = (c.x(0)?, c.x(1)?, c.x(2)?);
    c.same_dtype(&[&x, &cos, &sin])?;
    let (interleaved, heads) = (c.flag("interleaved", false)?, c.int("num_heads", 0)?);
    let turned = c.lens(&[c.int("rotary_embedding_dim", 0)?])?[0];
    if let Some(places) = c.optional(3)? {
        (cos, sin) = (cos.take(&places, 0), sin.take(&places, 0));
    }
    // To batch, sequence, heads and elements.
    let y = match x.rank() {
        4 => x.swap_axes(1, 2),
        3 if heads > 0 && x.shape()[2].is_multiple_of(heads as usize) => {
            let heads = heads as usize;
            x.reshape([x.shape()[0], x.shape()[1], heads, x.shape()[2] / heads])
        }
        _ => return c.fault(format!("has {heads} heads for {}", x.aval())),
    };
    let size = y.shape()[3];
    let turned = if turned == 0 { size } else { turned };
    let half = turned / 2;
    if turned > size
        || turned % 2 == 1
        || cos.shape().last() != Some(&half)
        || sin.shape() != cos.shape()
    {
        return c.fault(format!(
            "rotates {turned} of {size} elements by {} and {}",
            cos.aval(),
            sin.aval()
        ));
    }
    let (cos, sin) = (cos.unsqueeze(-2), sin.unsqueeze(-2));
    let (front, rest) = (part(&y, 3, 0, turned), part(&y, 3, turned, size));
    let (a, b) = match interleaved {
        true => {
            let both = front.reshape([&y.shape()[..3], &[half, 2]].concat());
            (both.select_index(-1, 0), both.select_index(-1, 1))
        }
        false => (part(&front, 3, 0, half), part(&front, 3, half, turned)),
    };
    let (real, imaginary) = (&cos * &a - &sin * &b, &sin * &a + &cos * &b);
    let front = match interleaved {
        true => Tensor::stack(&[real, imaginary], -1).reshape(front.shape()),
        false => Tensor::concat(&[real, imaginary], -1),
    };
    let y = Tensor::concat(&[front, rest], -1);
    one(if x.rank() == 4 {
        y.swap_axes(1, 2)
    } else {
        y.reshape(x.shape())
    })
}

/// Scaled dot-product attention: <https://onnx.ai/onnx/operators/onnx__Attention.html>.
fn attention(c: &Call<'_>) -> Outputs {
    let inputs = [c.x(0)?, c.x(1)?, c.x(2)?];
    c.same_dtype(&[&inputs[0], &inputs[1], &inputs[2]])?;
    let (q_heads, kv_heads) = (c.int("q_num_heads", 0)?, c.int("kv_num_heads", 0)?);
    let is_flat = inputs[0].rank() == 3;
    let heads = [q_heads, kv_heads, kv_heads];
    let split = |(x, heads): (&Tensor, i64)| -> Fallible<Tensor> {
        match *x.shape() {
            [_, _, _, _] => Ok(x.clone()),
            [n, len, size] if heads > 0 && size.is_multiple_of(heads as usize) => Ok(x
                .reshape([n, len, heads as usize, size / heads as usize])
                .swap_axes(1, 2)),
            _ => c.fault(format!("has {heads} heads for {}", x.aval())),
        }
    };
    let parts = inputs
        .iter()
        .zip(heads)
        .map(split)
        .collect::<Fallible<Vec<Tensor>>>()?;
    let [q, mut k, mut v]: [Tensor; 3] = parts.try_into().expect("three inputs");
    let (past_k, past_v) = (c.optional(4)?, c.optional(5)?);
    let mut offset = Tensor::from(0i64);
    if let (Some(past_k), Some(past_v)) = (&past_k, &past_v) {
        offset = Tensor::from(past_k.dim(2) as i64);
        k = Tensor::concat(&[past_k, &k], 2);
        v = Tensor::concat(&[past_v, &v], 2);
    } else if past_k.is_some() != past_v.is_some() {
        return c.fault("has past keys or past values, expected both or neither");
    }
    let (present_k, present_v) = (k.clone(), v.clone());
    let (n_q, n_k) = (q.shape()[2], k.shape()[2]);
    let repeats = q.shape()[1] / k.shape()[1].max(1);
    if repeats * k.shape()[1] != q.shape()[1] {
        return c.fault(format!(
            "has {} heads of queries for {} heads of keys",
            q.shape()[1],
            k.shape()[1]
        ));
    }
    if repeats > 1 {
        (k, v) = (k.repeat(repeats, 1), v.repeat(repeats, 1));
    }
    let (mode, softcap) = (c.int("qk_matmul_output_mode", 0)?, c.float("softcap", 0.0)?);
    if let Some(ty) = c.int_or_none("softmax_precision")?
        && c.dtype(ty)? != q.dtype()
    {
        return c.unsupported(format!(
            "its attribute `softmax_precision` is not {}",
            q.dtype()
        ));
    }
    let scale = c.float("scale", 1.0 / (q.shape()[3] as f64).sqrt())?;
    // Keys that no query may see, and a bias. Masks of floats are added.
    let mut allowed: Option<Tensor> = None;
    let mut bias: Option<Tensor> = None;
    if let Some(mask) = c.optional(3)? {
        let missing = n_k.saturating_sub(mask.shape().last().copied().unwrap_or(n_k)) as i64;
        let (low, mut high) = (vec![0; mask.rank()], vec![0; mask.rank()]);
        if let Some(last) = high.last_mut() {
            *last = missing;
        }
        match mask.dtype() {
            DType::Bool => allowed = Some(mask.pad(low, high, 0, false)),
            _ => bias = Some(mask.pad(low, high, 0, f64::NEG_INFINITY)),
        }
    }
    let both = |x: Option<Tensor>, y: Tensor| Some(x.map_or(y.clone(), |x| x.bit_and(y)));
    if let Some(lens) = c.optional(6)? {
        let lens = lens.cast(DType::I64).reshape([q.shape()[0], 1, 1, 1]);
        allowed = both(allowed, iota(3, 4, n_k, DType::I64).lt(&lens));
        if past_k.is_none() {
            offset = lens - n_q as i64;
        }
    }
    // Places of queries among the keys.
    let gap = iota(0, 2, n_q, DType::I64) + offset - iota(1, 2, n_k, DType::I64);
    if c.flag("is_causal", false)? {
        allowed = both(allowed, gap.ge(0i64));
    }
    let (left, right) = (
        c.int("left_window_size", -1)?,
        c.int("right_window_size", -1)?,
    );
    if left >= 0 {
        allowed = both(allowed, gap.le(left));
    }
    if right >= 0 {
        allowed = both(allowed, gap.ge(-right));
    }
    let plain = bias.is_none() && softcap == 0.0 && c.n_outputs() < 4 && scale > 0.0;
    let (y, scores) = match (plain, &allowed) {
        // The op of this library never stores the matrix of scores.
        (true, _) => {
            let scaled = q * (scale * (k.shape()[3] as f64).sqrt());
            let y = match allowed {
                Some(mask) => scaled.masked_attention(k, v, mask),
                None => scaled.attention(k, v),
            };
            (y, None)
        }
        (false, _) => {
            let mut scores = (q * scale).matmul(k.swap_axes(-1, -2));
            let raw = scores.clone();
            if softcap > 0.0 {
                scores = (scores / softcap).tanh() * softcap;
            }
            let capped = scores.clone();
            if let Some(bias) = &bias {
                scores += bias;
            }
            // A query that sees no key has no weights.
            let hidden = bias.map(|bias| bias.eq(f64::NEG_INFINITY).bit_not());
            let allowed = match (allowed, hidden) {
                (Some(x), Some(y)) => Some(x.bit_and(y)),
                (x, y) => x.or(y),
            };
            let (scores, weights) = match allowed {
                Some(mask) => {
                    let mask = mask.broadcast_to(scores.shape());
                    // Without keys, all are taken and then dropped: a row of no elements would be NaN.
                    let open = mask.bit_or(mask.any_keepdims(-1).bit_not());
                    let weights = mask.select(&scores, 0.0).softmax_where(open, -1);
                    let weights = mask.select(&weights, 0.0);
                    (mask.select(&scores, f64::NEG_INFINITY), weights)
                }
                None => (scores.clone(), scores.softmax(-1)),
            };
            let shown = match mode {
                0 => raw,
                1 => capped,
                2 => scores,
                3 => weights.clone(),
                _ => {
                    return c
                        .unsupported(format!("its attribute `qk_matmul_output_mode` is {mode}"));
                }
            };
            (weights.matmul(v), Some(shown))
        }
    };
    let y = match is_flat {
        true => {
            let [n, heads, len, size] = y.shape()[..] else {
                unreachable!("four axes")
            };
            y.swap_axes(1, 2).reshape([n, len, heads * size])
        }
        false => y,
    };
    all([y, present_k, present_v]
        .into_iter()
        .chain(scores)
        .take(c.n_outputs()))
}

/// Attention with a state of fixed size: <https://onnx.ai/onnx/operators/onnx__LinearAttention.html>.
fn linear_attention(c: &Call<'_>) -> Outputs {
    let (q, k, v) = (c.x(0)?, c.x(1)?, c.x(2)?);
    c.same_dtype(&[&q, &k, &v])?;
    let (heads, groups) = (
        c.lens(&[c.int("q_num_heads", 0)?])?[0],
        c.lens(&[c.int("kv_num_heads", 0)?])?[0],
    );
    let rule = c.text("update_rule", "gated_delta")?;
    c.one_of(
        "update_rule",
        rule,
        &["linear", "gated", "delta", "gated_delta"],
    )?;
    c.without_effect(&["chunk_size"]); // a hint
    let fits = |x: &Tensor, n: usize| x.rank() == 3 && n > 0 && x.shape()[2].is_multiple_of(n);
    if !fits(&q, heads) || !fits(&k, groups) || !fits(&v, groups) || heads % groups != 0 {
        return c.fault(format!(
            "has {heads} and {groups} heads for {}, {} and {}",
            q.aval(),
            k.aval(),
            v.aval()
        ));
    }
    let split = |x: &Tensor, n: usize| {
        x.reshape([x.shape()[0], x.shape()[1], n, x.shape()[2] / n])
            .swap_axes(1, 2)
    };
    let (batch, steps, size) = (q.shape()[0], q.shape()[1], q.shape()[2] / heads);
    let (q, k, v) = (split(&q, heads), split(&k, groups), split(&v, groups));
    let factors = |i: usize, is_read: bool, widths: [usize; 2]| -> Fallible<Option<Tensor>> {
        match c.optional(i)?.filter(|_| is_read) {
            Some(x) if x.rank() == 3 && widths.contains(&x.shape()[2]) => {
                Ok(Some(split(&x, if x.shape()[2] == 1 { 1 } else { groups })))
            }
            None if !is_read => Ok(None),
            _ => c.fault(format!("has no input {i} that fits the rule `{rule}`")),
        }
    };
    let decay = factors(4, rule.starts_with("gated"), [groups, groups * size])?;
    let beta = factors(5, rule.ends_with("delta"), [groups, 1])?;
    let mut state = match c.optional(3)? {
        Some(state) => state,
        None => Tensor::zeros([batch, groups, size, v.shape()[3]], q.dtype()),
    };
    let scale = match c.float("scale", 0.0)? {
        0.0 => 1.0 / (size as f64).sqrt(),
        scale => scale,
    };
    let mut rows = Vec::with_capacity(steps);
    for t in 0..steps {
        let at = |x: &Tensor| x.select_index(2, t);
        let (key, mut value) = (at(&k).unsqueeze(-1), at(&v).unsqueeze(-2));
        if let Some(decay) = &decay {
            state *= at(decay).exp().unsqueeze(-1);
        }
        if let Some(beta) = &beta {
            value = at(beta).unsqueeze(-1) * (value - key.swap_axes(-1, -2).matmul(&state));
        }
        state += key * value;
        let read = if heads == groups {
            state.clone()
        } else {
            state.repeat(heads / groups, 1)
        };
        rows.push(at(&q).unsqueeze(-2).matmul(read).squeeze(-2) * scale);
    }
    if rows.is_empty() {
        return c.fault("has no steps");
    }
    let y = Tensor::stack(&rows, 1).reshape([batch, steps, heads * v.shape()[3]]);
    all([y, state].into_iter().take(c.n_outputs()))
}
