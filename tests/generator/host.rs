//! Host expressions: step counts, numbers and conditions.

use super::Draft;
use super::scope::Ty;
use super::signature::{MOST_STEPS, common};

impl Draft<'_> {
    /// Writes a `usize` of at most `most`, as an atom.
    pub(super) fn steps(&mut self, most: usize) -> String {
        let mut known = self.scope.pick(|v| match v.ty {
            Ty::Steps(n) if n <= most => Some((v.name.clone(), n)),
            _ => None,
        });
        if known.is_empty() || self.rng.once_in(4) {
            return self.rng.below(most.min(3) + 1).to_string();
        }
        let (name, n) = known.swap_remove(self.rng.below(known.len()));
        match self.rng.below(6) {
            0 if n < most => format!("({name} + 1)"),
            1 => format!("({name} / 2)"),
            2 if 2 * n <= most => format!("({name} * 2)"),
            3 => format!("({name} % 3)"),
            _ => name,
        }
    }

    /// Writes an `f64` of magnitude at most 1.5, as an atom.
    pub(super) fn number(&mut self) -> String {
        let known = self.scope.pick(|v| match v.ty {
            Ty::Number => Some(v.name.clone()),
            Ty::Steps(n) if n <= MOST_STEPS => Some(format!("({} as f64 * 0.25)", v.name)),
            _ => None,
        });
        if known.is_empty() || self.rng.once_in(2) {
            return self
                .rng
                .of(&["0.5", "1.5", "0.25", "1.25", "0.75"])
                .to_owned();
        }
        self.rng.of(&known)
    }

    /// Writes a condition on host values or on the values of tensors.
    pub(super) fn condition(&mut self) -> String {
        if self.rng.once_in(3) {
            return self.condition_on_values();
        }
        let flags = self.scope.pick(|v| match v.ty {
            Ty::Flag => Some(v.name.clone()),
            _ => None,
        });
        let steps = self.scope.pick(|v| match v.ty {
            Ty::Steps(_) => Some(v.name.clone()),
            _ => None,
        });
        let numbers = self.scope.pick(|v| match v.ty {
            Ty::Number => Some(v.name.clone()),
            _ => None,
        });
        match self.rng.below(6) {
            0 if !flags.is_empty() => self.rng.of(&flags),
            1 if !flags.is_empty() => format!("!{}", self.rng.of(&flags)),
            2 if !numbers.is_empty() => format!("{} > 0.3", self.rng.of(&numbers)),
            3 if !steps.is_empty() => format!("{} % 2 == 0", self.rng.of(&steps)),
            4 if !steps.is_empty() => {
                let other = self.steps(MOST_STEPS);
                format!("{} + 1 < {other}", self.rng.of(&steps))
            }
            _ if !steps.is_empty() => {
                let than = self.rng.below(3);
                format!("{} > {than}", self.rng.of(&steps))
            }
            _ => {
                let (place, _, _) = self.place();
                format!("{place}.rank() > 1")
            }
        }
    }

    /// Writes a condition that reads a tensor.
    pub(super) fn condition_on_values(&mut self) -> String {
        let (place, _, _) = self.place();
        let reduced = self.rng.of(&["sum(..)", "mean(..)", "sin().sum(..)"]);
        let relation = self.rng.of(&["> 0.2", "< 0.4", "> -0.3", "< -0.1"]);
        self.ops += self.repeats;
        format!("⟦«{place}.{reduced}».item::<f64>() {relation}⟧")
    }

    /// Picks any tensor place: its text, whether it is a reference, and its shape.
    pub(super) fn place(&mut self) -> (String, bool, super::signature::Shape) {
        let places = self.scope.tensors(false);
        // Never empty: the first parameter, or a variable that shadows it, is always visible.
        self.recent(&places)
    }

    /// Picks one item, more often one of the first three.
    pub(super) fn recent<T: Clone>(&mut self, from: &[T]) -> T {
        let n = if self.rng.once_in(2) {
            from.len().min(3)
        } else {
            from.len()
        };
        self.rng.of(&from[..n])
    }

    /// Returns the shape of some place, or any shape.
    pub(super) fn shape(&mut self) -> super::signature::Shape {
        if self.rng.once_in(4) {
            common(self.rng)
        } else {
            self.place().2
        }
    }
}
