//! Branches, loops and sequences.

use super::{Call, Fallible, Table, Value, one};
use gradloom::{DType, Tensor};

/// Turns of one loop.
const MAX_TURNS: i64 = 1 << 20;

pub(super) const OPS: Table = &[
    ("If", |c| {
        let (yes, no) = (c.graph("then_branch")?, c.graph("else_branch")?);
        let condition = c.x(0)?;
        c.run(if is_true(c, &condition)? { yes } else { no }, Vec::new())
    }),
    ("Loop", |c| {
        let body = c.graph("body")?;
        let n = c.input_int(0)?.unwrap_or(i64::MAX);
        let mut condition = c.optional(1)?;
        let has_condition = condition.is_some();
        let mut state: Vec<Value> = Vec::new();
        for i in 2..c.n_inputs() {
            match c.value(i)? {
                Some(value) => state.push(value),
                None => return c.fault(format!("has no input {i}")),
            }
        }
        let n_state = state.len();
        let Some(n_rows) = body.outputs.len().checked_sub(1 + n_state) else {
            return c.fault("has a body with fewer outputs than the state");
        };
        let mut rows: Vec<Vec<Tensor>> = vec![Vec::new(); n_rows];
        for turn in 0..n {
            if let Some(condition) = condition.as_ref().filter(|_| has_condition)
                && !is_true(c, condition)?
            {
                break;
            }
            if turn == MAX_TURNS {
                return c.fault(format!("runs more than {MAX_TURNS} turns"));
            }
            let test = condition.take().unwrap_or_else(|| Tensor::from(true));
            let mut inputs = vec![Value::Tensor(Tensor::from(turn)), Value::Tensor(test)];
            inputs.append(&mut state);
            let mut outputs = c.run(body, inputs)?.into_iter();
            condition = outputs.next().map(|value| tensor(c, value)).transpose()?;
            state = outputs.by_ref().take(n_state).collect();
            for (rows, value) in rows.iter_mut().zip(outputs) {
                rows.push(tensor(c, value)?);
            }
        }
        for (i, rows) in rows.iter().enumerate() {
            if rows.is_empty() {
                return c.unsupported(format!(
                    "its output {} has no turns, so its shape is unknown",
                    n_state + i
                ));
            }
            state.push(Value::Tensor(Tensor::stack(rows, 0)));
        }
        Ok(state)
    }),
    ("Scan", |c| {
        let body = c.graph("body")?;
        if c.opset() < 9 {
            return c.unsupported("versions before 9 have a batch axis");
        }
        let n_scanned = c.lens(&[c.int("num_scan_inputs", 0)?])?[0];
        let (mut xs, n_outputs) = (c.xs()?, c.n_outputs());
        let Some(n_state) = xs.len().checked_sub(n_scanned) else {
            return c.fault(format!("scans {n_scanned} of {} inputs", xs.len()));
        };
        let n_rows = body.outputs.len().saturating_sub(n_state);
        let list = |name: &str, n: usize| -> Fallible<Vec<i64>> {
            let list = c.ints(name)?.unwrap_or_else(|| vec![0; n]);
            match list.len() == n {
                true => Ok(list),
                false => c.fault(format!("has {} `{name}`, expected {n}", list.len())),
            }
        };
        let (axes, backwards) = (
            list("scan_input_axes", n_scanned)?,
            list("scan_input_directions", n_scanned)?,
        );
        let (out_axes, out_backwards) = (
            list("scan_output_axes", n_rows)?,
            list("scan_output_directions", n_rows)?,
        );
        let scanned: Vec<Tensor> = xs.split_off(n_state);
        let axes: Vec<usize> = scanned
            .iter()
            .zip(&axes)
            .map(|(x, axis)| c.axis_of(*axis, x.rank()))
            .collect::<Fallible<_>>()?;
        let lens: Vec<usize> = scanned
            .iter()
            .zip(&axes)
            .map(|(x, axis)| x.shape()[*axis])
            .collect();
        let Some(n) = lens
            .first()
            .copied()
            .filter(|n| lens.iter().all(|len| len == n))
        else {
            return c.fault(format!("scans axes of the lengths {lens:?}"));
        };
        let mut state: Vec<Value> = xs.into_iter().map(Value::Tensor).collect();
        let mut rows: Vec<Vec<Tensor>> = vec![Vec::new(); n_rows];
        for turn in 0..n {
            for (i, x) in scanned.iter().enumerate() {
                let at = if backwards[i] == 1 {
                    n - 1 - turn
                } else {
                    turn
                };
                state.push(Value::Tensor(x.select_index(axes[i], at)));
            }
            let mut outputs = c.run(body, state)?.into_iter();
            state = outputs.by_ref().take(n_state).collect();
            for (i, value) in outputs.enumerate() {
                let at = if out_backwards[i] == 1 {
                    0
                } else {
                    rows[i].len()
                };
                rows[i].insert(at, tensor(c, value)?);
            }
        }
        for (rows, axis) in rows.iter().zip(&out_axes) {
            if rows.is_empty() {
                return c.unsupported("an output has no turns, so its shape is unknown");
            }
            state.push(Value::Tensor(Tensor::stack(rows, *axis)));
        }
        state.truncate(n_outputs);
        Ok(state)
    }),
    ("SequenceEmpty", |c| {
        c.without_effect(&["dtype"]);
        Ok(vec![Value::Sequence(Vec::new())])
    }),
    ("SequenceConstruct", |c| Ok(vec![Value::Sequence(c.xs()?)])),
    ("SequenceAt", |c| {
        let xs = c.sequence(0)?;
        let i = place(c, 1, xs.len(), 0)?;
        one(xs[i].clone())
    }),
    ("SequenceInsert", |c| {
        let (mut xs, x) = (c.sequence(0)?, c.x(1)?);
        let at = match c.input_int(2)? {
            Some(_) => place(c, 2, xs.len(), 1)?,
            None => xs.len(),
        };
        xs.insert(at, x);
        Ok(vec![Value::Sequence(xs)])
    }),
    ("SequenceErase", |c| {
        let mut xs = c.sequence(0)?;
        let at = match c.input_int(1)? {
            Some(_) => place(c, 1, xs.len(), 0)?,
            None => place_of(c, -1, xs.len(), 0)?,
        };
        xs.remove(at);
        Ok(vec![Value::Sequence(xs)])
    }),
    ("SequenceLength", |c| {
        one(Tensor::from(c.sequence(0)?.len() as i64))
    }),
    ("ConcatFromSequence", |c| {
        let (xs, is_new) = (c.sequence(0)?, c.flag("new_axis", false)?);
        let rank = xs.first().map_or(0, Tensor::rank) + usize::from(is_new);
        let axis = c.axis(0, rank)?;
        one(if is_new {
            Tensor::stack(&xs, axis)
        } else {
            Tensor::concat(&xs, axis)
        })
    }),
    ("SplitToSequence", |c| {
        let (x, keep) = (c.x(0)?, c.flag("keepdims", true)?);
        let axis = c.axis(0, x.rank())?;
        let len = x.shape()[axis];
        let sizes = match c.optional(1)? {
            Some(split) if split.rank() == 0 => match c.lens(&c.read_ints(&split)?)?[..] {
                [size] if size > 0 => (0..len)
                    .step_by(size)
                    .map(|at| size.min(len - at))
                    .collect(),
                _ => return c.fault("has parts of the length 0"),
            },
            Some(split) => c.lens(&c.read_ints(&split)?)?,
            None => vec![1; len],
        };
        let parts = x.split_sizes(sizes, axis);
        let is_dropped = !keep && c.n_inputs() < 2;
        let parts = parts
            .into_iter()
            .map(|x| if is_dropped { x.squeeze(axis) } else { x });
        Ok(vec![Value::Sequence(parts.collect())])
    }),
    ("OptionalHasElement", |c| {
        one(Tensor::from(c.value(0)?.is_some()))
    }),
    ("OptionalGetElement", |c| match c.value(0)? {
        Some(value) => Ok(vec![value]),
        None => c.fault("has no element"),
    }),
    ("Optional", |c| match c.value(0)? {
        Some(value) => Ok(vec![value]),
        None => c.unsupported("it makes an empty value"),
    }),
];

fn tensor(c: &Call<'_>, value: Value) -> Fallible<Tensor> {
    match value {
        Value::Tensor(x) => Ok(x),
        Value::Sequence(_) => c.fault("has a sequence, expected a tensor"),
    }
}

fn is_true(c: &Call<'_>, condition: &Tensor) -> Fallible<bool> {
    match (condition.dtype(), &c.read_ints(condition)?[..]) {
        (DType::Bool, [is_true]) => Ok(*is_true != 0),
        _ => c.fault(format!(
            "has the condition {}, expected one bool",
            condition.aval()
        )),
    }
}

fn place(c: &Call<'_>, input: usize, n: usize, more: usize) -> Fallible<usize> {
    let at = c.input_int(input)?.unwrap_or(-1);
    place_of(c, at, n, more)
}

/// Returns a position before one of `n` elements, or up to `more` after them.
fn place_of(c: &Call<'_>, at: i64, n: usize, more: usize) -> Fallible<usize> {
    let from_end = if at < 0 { n as i64 } else { 0 };
    match usize::try_from(at.saturating_add(from_end)) {
        Ok(place) if place < n + more => Ok(place),
        _ => c.fault(format!(
            "has the position {at}, out of range for {n} elements"
        )),
    }
}
