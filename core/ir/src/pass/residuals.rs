//! The choice of residuals: the primal values to save for the pullback.
//!
//! The pullback recomputes the other values that it needs.
//!
//! A value that the pullback reads can be saved, at the cost of its bytes. It can also be
//! recomputed if its equation is *cheap*: if it moves elements or does arithmetic on them. Saving
//! parameters and results of the primal program is free, because they are alive anyway. A `Like`
//! operand needs only a shape, which is free too.
//!
//! The best choice is a minimum cut between the values that cannot be recomputed and those that the
//! pullback reads. Each value is an edge whose capacity is its size in bytes, and each operand of a
//! cheap equation is an edge that cannot be cut. Ties are broken in this order:
//!
//! 1. A value that the primal results need is preferred to one computed only for the pullback.
//! 2. A choice with less recomputation is preferred.

use super::cut::Network;
use crate::{Eqn, Program, RematHint, SecondaryMap, Var};

/// Chooses the residuals, and copies the equations to recompute from `primal` to `pullback`.
///
/// - `primal` returns `n_outs` results and then the residuals.
/// - `pullback` takes the `n_residuals` residuals as its first parameters.
/// - The variables and static arguments of `primal` must be those of `pullback`, which may have
///   more of both.
///
/// The copied equations apply the same ops to the same values, so no bit of a result changes. They
/// keep their variables and names.
pub fn choose_residuals(
    primal: Program,
    mut pullback: Program,
    n_outs: usize,
    n_residuals: usize,
) -> (Program, Program) {
    let residuals = &pullback.params[..n_residuals];
    let binds = bindings(&primal);
    let read = read_as_data(&pullback, residuals);
    let kept = cut(&primal, &binds, &read, n_outs);

    let mut repeated: SecondaryMap<Var, ()> = SecondaryMap::new();
    let mut open: Vec<Var> = read.clone();
    while let Some(v) = open.pop() {
        if kept.contains(v) || repeated.insert(v, ()).is_some() {
            continue;
        }
        let eqn = binds
            .get(v)
            .expect("a value that no equation binds is saved");
        open.extend(eqn.data());
    }
    let repeats: Vec<Eqn> = primal
        .eqns
        .iter()
        .filter(|e| e.outs.iter().any(|v| repeated.contains(*v)))
        .cloned()
        .collect();

    // Add the residuals whose shape is read. Residuals that are not read at all are dropped.
    let of_residuals: SecondaryMap<Var, ()> = residuals.iter().map(|v| (*v, ())).collect();
    let pullback_likes = pullback.eqns.iter().flat_map(Eqn::likes);
    let likes = pullback_likes.filter(|v| of_residuals.contains(**v));
    let likes = repeats.iter().flat_map(Eqn::likes).chain(likes);
    let mut chosen: SecondaryMap<Var, ()> = likes
        .filter(|v| !repeated.contains(**v))
        .map(|v| (*v, ()))
        .collect();
    for (v, ()) in kept.iter() {
        chosen.insert(v, ());
    }
    // The order of the ids is the order of definition, in which a reader meets the names.
    let residuals: Vec<Var> = chosen.iter().map(|(v, ())| v).collect();

    let mut avals = std::mem::take(&mut pullback.avals);
    for v in residuals.iter().chain(repeats.iter().flat_map(|e| &e.outs)) {
        avals.insert(*v, primal.aval(*v).clone());
    }
    let cts = &pullback.params[n_residuals..];
    let pullback = Program {
        params: residuals.iter().chain(cts).copied().collect(),
        eqns: repeats.into_iter().chain(pullback.eqns).collect(),
        avals,
        ..pullback
    };
    let outs = primal.outs[..n_outs].iter().chain(&residuals).copied();
    let outs = outs.collect();
    (Program { outs, ..primal }, pullback)
}

fn bindings(program: &Program) -> SecondaryMap<Var, &Eqn> {
    let eqns = program.eqns.iter();
    eqns.flat_map(|e| e.outs.iter().map(move |v| (*v, e)))
        .collect()
}

/// Returns the residuals whose values the pullback reads, each once.
fn read_as_data(pullback: &Program, residuals: &[Var]) -> Vec<Var> {
    let mut read: SecondaryMap<Var, ()> = pullback.outs.iter().map(|v| (*v, ())).collect();
    for x in pullback.eqns.iter().flat_map(Eqn::data) {
        read.insert(*x, ());
    }
    let residuals = residuals.iter().copied();
    residuals.filter(|v| read.contains(*v)).collect()
}

/// Returns the values to save, from which repeatable equations can compute all of `read`.
fn cut(
    primal: &Program,
    binds: &SecondaryMap<Var, &Eqn>,
    read: &[Var],
    n_outs: usize,
) -> SecondaryMap<Var, ()> {
    let results = &primal.outs[..n_outs];
    let free: SecondaryMap<Var, ()> = primal
        .params
        .iter()
        .chain(results)
        .map(|v| (*v, ()))
        .collect();
    let needed = needed_by(primal, results);
    let hint = |v: Var| primal.remat_hints.get(v).copied();

    let repeatable = |v: Var| {
        let eqn = binds.get(v).copied();
        eqn.filter(|eqn| may_repeat(eqn, hint(v)))
    };
    let (cone, place) = cone(read, repeatable);

    // The weight is in bytes. If a size is unknown, each value weighs 1, because bytes and counts
    // do not compare.
    let costly = |v: &&Var| !free.contains(**v);
    let bytes = |v: Var| known_bytes(primal, v);
    let all_known = cone.iter().filter(costly).all(|v| bytes(*v).is_some());
    let scale = cone.len() as u128 + 1;
    let weight = |v: Var| match hint(v) {
        _ if free.contains(v) => 0,
        Some(RematHint::Save) => 0,
        Some(RematHint::Recompute) if repeatable(v).is_some() => Network::UNCUT,
        _ => {
            let bytes = bytes(v).filter(|_| all_known).unwrap_or(1);
            bytes * scale + u128::from(!needed.contains(v))
        }
    };

    // The value `cone[i]` is the edge from node 2 i to node 2 i + 1.
    let (source, sink) = (2 * cone.len(), 2 * cone.len() + 1);
    let mut network = Network::new(2 * cone.len() + 2);
    for (i, &v) in cone.iter().enumerate() {
        network.edge(2 * i, 2 * i + 1, weight(v));
        match repeatable(v) {
            None => network.edge(source, 2 * i, Network::UNCUT),
            Some(eqn) => {
                for x in eqn.data() {
                    let x = *place.get(*x).expect("the cone is closed under operands");
                    network.edge(2 * x + 1, 2 * i, Network::UNCUT);
                }
            }
        }
    }
    for v in read {
        let i = *place
            .get(*v)
            .expect("the cone contains the values that are read");
        network.edge(2 * i + 1, sink, Network::UNCUT);
    }
    let side = network.sink_side(source, sink);
    let kept = cone.iter().enumerate();
    kept.filter(|(i, _)| !side[2 * i] && side[2 * i + 1])
        .map(|(_, v)| (*v, ()))
        .collect()
}

/// Returns all values from which repeatable equations can compute `read`, and the index of each.
fn cone<'a>(
    read: &[Var],
    repeatable: impl Fn(Var) -> Option<&'a Eqn>,
) -> (Vec<Var>, SecondaryMap<Var, usize>) {
    let mut cone: Vec<Var> = Vec::new();
    let mut place: SecondaryMap<Var, usize> = SecondaryMap::new();
    let mut open: Vec<Var> = read.to_vec();
    while let Some(v) = open.pop() {
        if place.contains(v) {
            continue;
        }
        place.insert(v, cone.len());
        cone.push(v);
        if let Some(eqn) = repeatable(v) {
            open.extend(eqn.data());
        }
    }
    (cone, place)
}

/// Returns the size of a value in bytes, or `None` if its dtype or shape is unknown.
pub(super) fn known_bytes(program: &Program, v: Var) -> Option<u128> {
    let aval = program.aval(v);
    let (dims, size) = (aval.shape.dims()?, aval.dtype?.size());
    // The shape of a parameter is not checked, so the product may overflow.
    let mut bytes = Some(size);
    for dim in dims {
        let len = dim.known()?;
        bytes = bytes.and_then(|bytes| bytes.checked_mul(len));
    }
    Some(bytes.unwrap_or(usize::MAX) as u128)
}

/// Returns the variables that the results of a program are computed from.
fn needed_by(program: &Program, results: &[Var]) -> SecondaryMap<Var, ()> {
    let mut needed: SecondaryMap<Var, ()> = results.iter().map(|v| (*v, ())).collect();
    for eqn in program.eqns.iter().rev() {
        if eqn.outs.iter().any(|v| needed.contains(*v)) {
            for x in eqn.data() {
                needed.insert(*x, ());
            }
        }
    }
    needed
}

/// Returns whether the pullback may repeat an equation.
///
/// An equation that binds several variables is never repeated: some of them may be saved, and a
/// variable is bound once.
fn may_repeat(eqn: &Eqn, hint: Option<RematHint>) -> bool {
    let possible = eqn.outs.len() == 1 && !eqn.op.is_call();
    possible
        && match hint {
            Some(RematHint::Save) => false,
            Some(RematHint::Recompute) => true,
            None => eqn.op.def().facts().cheap,
        }
}

#[cfg(test)]
mod tests {
    use crate::{Program, ad, verify};

    #[test]
    fn values_too_large_to_address_can_be_compared() {
        // The bytes of the first shape can just be addressed, those of the second cannot.
        for len in ["1152921504606846975", "9223372036854775807, 4"] {
            let text = format!("(x: f64[{len}]) {{ h = tanh x y = square h z = sin y return z }}");
            let program: Program = text.parse().expect("the test's program parses");
            let vjp = ad::vjp(&program, &program.params);
            // The residuals are `h` and `cos(y)`; `y` is recomputed.
            assert_eq!(vjp.primal.outs.len() - vjp.n_outs, 2, "{}", vjp.primal);
            assert!(verify(&vjp.pullback).is_empty(), "{}", vjp.pullback);
        }
    }
}
