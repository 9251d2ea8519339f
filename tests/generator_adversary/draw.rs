//! Which functions are written.

use super::device::{Device, Value};
use super::effects::{GRANTED, HIDDEN};
use super::ordinary::{ORDINARY, READERS, REFUSED};
use super::place::Place;
use super::result::{self, SCALAR, SKIPPED};
use super::rng::Rng;
use super::wrap::{Mix, Wrap};
use super::{Part, Spec};

/// What functions may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All but effects of which the README says that nobody looks for them, and but what the macro refuses.
    Documented,
    /// These, too.
    All,
}

/// `count` functions. Every part comes up before one comes up again.
pub(crate) fn specs(seed: u64, count: usize, choice: Choice) -> Vec<Spec> {
    let mut rng = Rng::new(seed);
    let (granted, refused) = match choice {
        Choice::Documented => (&[][..], &[][..]),
        Choice::All => (GRANTED, REFUSED),
    };
    let all = [HIDDEN, ORDINARY, READERS, granted, refused];
    let mut deck: Vec<&'static Device> = Vec::new();
    let mut specs = Vec::new();
    while specs.len() < count {
        if deck.is_empty() {
            deck.extend(all.into_iter().flatten());
            rng.shuffle(&mut deck);
        }
        let main = deck.pop().expect("there is one");
        specs.push(spec(&mut rng, main));
    }
    specs
}

/// A function about one part.
fn spec(rng: &mut Rng, main: &'static Device) -> Spec {
    let mut parts = vec![part(rng, main)];
    let others = [0, 0, 1, 1, 2, 3][rng.below(6)];
    for _ in 0..others {
        let from = if rng.once_in(8) { HIDDEN } else { ORDINARY };
        let device = &from[rng.below(from.len())];
        let other = part(rng, device);
        let at = rng.below(parts.len() + 1);
        parts.insert(at, other);
    }
    let result = match rng.below(8) {
        0 | 1 => &SKIPPED[rng.below(SKIPPED.len())],
        2..=4 => &SCALAR,
        _ => &result::ORDINARY[rng.below(result::ORDINARY.len())],
    };
    Spec {
        parts,
        result,
        shadows: rng.once_in(2),
        records: rng.once_in(6),
        twin: rng.once_in(6).then(|| rng.below(8)),
    }
}

fn part(rng: &mut Rng, device: &'static Device) -> Part {
    let place = match rng.once_in(3) {
        true => Place::Straight,
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
