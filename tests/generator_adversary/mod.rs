//! Random functions that hide state from `#[traced]`, as source text.
//!
//! A function is a list of parts, each of which computes one tensor from the one before, and a result. A [`Spec`] says which; it
//! is data, so a function that shows a mistake is made smaller by leaving parts out. The text is written once, with marks
//! ([`device`]), and printed with and without the attribute. Equal seeds give equal text.

#![allow(dead_code)] // Two programs include this file, and each uses a part of it.

mod device;
mod draw;
mod effects;
mod file;
mod ordinary;
mod place;
mod render;
mod result;
#[path = "../src/rng.rs"]
#[allow(unreachable_pub)]
mod rng;
mod wrap;

pub(crate) use device::Effect;
pub(crate) use draw::{Choice, specs};
pub(crate) use file::file;

use device::Device;
use place::Place;
use render::Text;
use result::Shape;
use wrap::{Mix, Wrap};

/// One step of a function.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    device: &'static Device,
    /// What is around a number.
    wrap: Wrap,
    /// How a number becomes a part of the tensor.
    mix: Mix,
    /// Where the step stands.
    place: Place,
}

/// A function.
#[derive(Clone)]
pub(crate) struct Spec {
    parts: Vec<Part>,
    result: &'static Shape,
    /// Whether each step has the name of the one before.
    shadows: bool,
    /// Whether a copy stands under `#[traced(record)]`.
    records: bool,
    /// Which literal a twin of the function has another of.
    twin: Option<usize>,
}

impl Spec {
    /// The classes and names of what it is made of.
    pub(crate) fn labels(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|part| {
            let (class, name) = (part.device.class, part.device.name);
            format!("{class}: {name} ({:?})", part.place).to_lowercase()
        });
        let result = (self.result.class != "ordinary")
            .then(|| format!("{}: {}", self.result.class, self.result.name));
        parts.chain(result).collect()
    }

    /// The text, with marks.
    pub(crate) fn text(&self) -> Text {
        render::text(self)
    }

    pub(crate) fn effect(&self) -> Effect {
        let parts = self.parts.iter().map(|part| part.device.effect);
        parts.max().unwrap_or(Effect::None)
    }

    /// Smaller functions, each with a rank, of which lower ones are likelier to show a mistake: one part in a straight line or
    /// the result alone; one part as it stands; all but one part.
    pub(crate) fn smaller(&self) -> Vec<(usize, Spec)> {
        let with = |parts: Vec<Part>, result| Spec {
            parts,
            result,
            shadows: false,
            records: self.records,
            // The literal after that of the first line.
            twin: self.twin.map(|_| 1),
        };
        let mut out = Vec::new();
        if self.result.class != "ordinary" {
            out.push((0, with(vec![], self.result)));
        }
        for part in &self.parts {
            let later = usize::from(part.device.class == "ordinary");
            let placed = Part {
                wrap: Wrap::Bare,
                mix: Mix::Product,
                ..*part
            };
            let bare = Part {
                place: Place::Straight,
                ..placed
            };
            out.push((later, with(vec![bare], &result::TENSOR)));
            out.push((later + 1, with(vec![bare], &result::SCALAR)));
            out.push((later + 1, with(vec![placed], &result::TENSOR)));
            out.push((later + 2, with(vec![*part], &result::TENSOR)));
        }
        for i in 0..self.parts.len() {
            let mut parts = self.parts.clone();
            parts.remove(i);
            out.push((3, with(parts, self.result)));
        }
        out
    }
}
