//! Random choice of the functions to write.

use super::device::{Device, Effect, Value};
use super::effects::{GRANTED, HIDDEN, REFUSED};
use super::kept::KEPT;
use super::ordinary::{ORDINARY, READERS};
use super::place::Place;
use super::result::{self, SCALAR, SKIPPED, Shape};
use super::rng::Rng;
use super::trees::TREES;
use super::wrap::{Mix, Wrap};
use super::{Part, Spec};
use std::collections::BTreeMap;

/// The set of parts to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All but calls that the macro refuses, and effects that `caching-and-purity.md` of the book assumes away.
    Documented,
    /// All parts.
    All,
    /// Parts that only compute, most of them with local trees, traits or borrowed parameters.
    Trees,
}

/// Draws `count` functions. Every part is used before any is used again, and the classes take
/// turns. The first part of each class is tested alone. Every fifth function tests its result.
pub(crate) fn specs(seed: u64, count: usize, choice: Choice) -> Vec<Spec> {
    let mut rng = Rng::new(seed);
    let mut deck = Vec::new();
    let mut specs = Vec::new();
    while specs.len() < count {
        if deck.is_empty() {
            deck = shuffled(&mut rng, choice);
        }
        let i = specs.len();
        specs.push(match i % 5 {
            0 if choice != Choice::Trees => {
                about_a_result(&mut rng, &SKIPPED[i / 5 % SKIPPED.len()])
            }
            _ => match deck.pop().expect("the deck has been refilled") {
                (0, main) => alone(&mut rng, main),
                (_, main) => about_a_part(&mut rng, main, choice),
            },
        });
    }
    specs
}

/// Returns all parts with their turn, in reverse: the list ends with the first part of each class
/// (turn 0), preceded by the second part of each class, and so on.
fn shuffled(rng: &mut Rng, choice: Choice) -> Vec<(usize, &'static Device)> {
    let all = match choice {
        Choice::Documented => &[HIDDEN, ORDINARY, READERS, TREES, KEPT][..],
        Choice::All => &[HIDDEN, ORDINARY, READERS, TREES, KEPT, GRANTED, REFUSED],
        Choice::Trees => &[TREES, KEPT],
    };
    let mut devices: Vec<&'static Device> = all.iter().copied().flatten().collect();
    rng.shuffle(&mut devices);
    let mut dealt: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, &'static Device)> = Vec::new();
    for device in devices {
        let turn = dealt.entry(device.class).or_default();
        turns.push((*turn, device));
        *turn += 1;
    }
    turns.sort_by_key(|(turn, _)| usize::MAX - turn);
    turns
}

/// Returns a straight-line function with a single part.
fn alone(rng: &mut Rng, main: &'static Device) -> Spec {
    let part = Part {
        device: main,
        wrap: Wrap::Bare,
        mix: rng.of(&Mix::ALL),
        place: Place::Straight,
    };
    spec(rng, vec![part], &SCALAR)
}

/// Returns a function that tests one part among others.
fn about_a_part(rng: &mut Rng, main: &'static Device, choice: Choice) -> Spec {
    let mut parts = vec![part(rng, main)];
    let others = [0, 0, 1, 1, 2, 3][rng.below(6)];
    for _ in 0..others {
        let from = match rng.below(8) {
            0 if choice != Choice::Trees => HIDDEN,
            0..2 => TREES,
            2..4 => KEPT,
            _ => ORDINARY,
        };
        let other = any_part(rng, from);
        let at = rng.below(parts.len() + 1);
        parts.insert(at, other);
    }
    let result = match rng.below(8) {
        0 if choice != Choice::Trees => &SKIPPED[rng.below(SKIPPED.len())],
        0..4 => &SCALAR,
        _ => &result::ORDINARY[rng.below(result::ORDINARY.len())],
    };
    spec(rng, parts, result)
}

/// Returns a function that tests a result with a skipped field.
fn about_a_result(rng: &mut Rng, result: &'static Shape) -> Spec {
    let others = rng.below(2);
    let parts = (0..others).map(|_| any_part(rng, ORDINARY)).collect();
    spec(rng, parts, result)
}

fn spec(rng: &mut Rng, parts: Vec<Part>, result: &'static Shape) -> Spec {
    // `HASH` of a generic function does not cover the impls of its type parameters.
    let of_an_impl = parts.iter().any(|part| part.place == Place::Trait);
    // A part may be alone twice: the names of locals are not part of `HASH`.
    let shadows = parts.len() > 1 && rng.once_in(2);
    let records = rng.once_in(6);
    let twin = rng.once_in(6).then(|| rng.below(8));
    Spec {
        parts,
        result,
        shadows,
        records,
        twin: twin.filter(|_| !of_an_impl),
    }
}

fn any_part(rng: &mut Rng, from: &'static [Device]) -> Part {
    let device = &from[rng.below(from.len())];
    part(rng, device)
}

fn part(rng: &mut Rng, device: &'static Device) -> Part {
    // Place reads in callees: a caller that reads nothing itself has to learn that its callee does.
    let often = match device.effect {
        Effect::Reads => [Place::Callee, Place::Method],
        _ => [Place::Straight; 2],
    };
    let place = match rng.once_in(2) {
        true => rng.of(&often),
        false => rng.of(&Place::ALL),
    };
    let wrap = match (device.value, rng.once_in(2)) {
        (Value::Number(_), true) => rng.of(&Wrap::ALL),
        _ => Wrap::Bare,
    };
    Part {
        device,
        wrap,
        mix: rng.of(&Mix::ALL),
        place,
    }
}
