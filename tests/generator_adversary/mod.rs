//! Random functions that hide state from `#[traced]`, as source text.
//!
//! A function is a result and a list of parts, each of which computes a tensor from the previous
//! one. A [`Spec`] is that list as data, so a function that shows a bug can be minimised by
//! removing parts. The text is written once, with marks (see [`device`]), and printed with and
//! without the attribute. Equal seeds give equal text.

#![allow(dead_code)] // Two programs include this file, and each uses only part of it.

mod device;
mod draw;
mod effects;
mod file;
mod kept;
mod ordinary;
mod place;
mod render;
mod result;
#[path = "../src/rng.rs"]
#[allow(unreachable_pub)]
mod rng;
mod trees;
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
    /// Expression around a number.
    wrap: Wrap,
    /// How a number enters the tensor.
    mix: Mix,
    /// Position of the step in the function.
    place: Place,
}

/// A function.
#[derive(Clone)]
pub(crate) struct Spec {
    parts: Vec<Part>,
    result: &'static Shape,
    /// True if each step shadows the variable of the previous one.
    shadows: bool,
    /// True if there is also a copy under `#[traced(record)]`.
    records: bool,
    /// Index of the literal that differs in the twin of the function.
    twin: Option<usize>,
}

impl Spec {
    /// Returns class and name of each part.
    pub(crate) fn labels(&self) -> Vec<String> {
        let parts = self.parts.iter().map(|part| {
            let (class, name) = (part.device.class, part.device.name);
            format!("{class}: {name} ({:?})", part.place).to_lowercase()
        });
        let result = (self.result.class != "ordinary")
            .then(|| format!("{}: {}", self.result.class, self.result.name));
        parts.chain(result).collect()
    }

    /// Returns the text, with marks.
    pub(crate) fn text(&self) -> Text {
        render::text(self)
    }

    pub(crate) fn effect(&self) -> Effect {
        let parts = self.parts.iter().map(|part| part.device.effect);
        parts.max().unwrap_or(Effect::None)
    }

    /// Returns smaller functions, each with a rank. Lower ranks are likelier to show a bug: a
    /// single part in a straight line or the result alone; a single part in its place; all parts
    /// but one.
    pub(crate) fn smaller(&self) -> Vec<(usize, Spec)> {
        let with = |parts: Vec<Part>, result| Spec {
            parts,
            result,
            shadows: false,
            records: self.records,
            // Literal 0 is in the first line of the body, so literal 1 is the first one of a part.
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
