//! Options and other parts taken by value out of parameters, and methods of options, lists and
//! maps.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;
use std::collections::BTreeMap;

#[derive(Clone, Tree)]
enum Layer {
    Dense { w: Tensor, b: Option<Tensor> },
    Scale(Tensor),
    Relu,
}

#[traced]
fn applied(layer: Layer, x: &Tensor) -> Tensor {
    match layer {
        Layer::Dense { w, b } => {
            let h = x.matmul(w);
            match b {
                Some(b) => h + b,
                None => h,
            }
        }
        Layer::Scale(s) => x * s,
        Layer::Relu => x.relu(),
    }
}

#[traced]
pub(crate) fn matched(b: Option<Tensor>, x: &Tensor) -> Tensor {
    let y = x.sin();
    match b {
        Some(b) => y * b,
        None => y,
    }
}

#[traced]
pub(crate) fn or_left(b: Option<Tensor>, x: &Tensor) -> Tensor {
    let Some(b) = b else {
        return x * 2.0;
    };
    x * b
}

#[traced]
pub(crate) fn chosen(b: Option<Tensor>, x: &Tensor) -> Tensor {
    let factor = match b {
        Some(b) => b,
        None => x.exp(),
    };
    factor * x
}

#[traced]
pub(crate) fn in_pairs(b: Option<Tensor>, x: &Tensor) -> Tensor {
    let again = Some(x.cos());
    match (b, again) {
        (Some(b), Some(again)) => x * b + again,
        (None, Some(again)) => x * again,
        _ => x.clone(),
    }
}

#[traced]
fn by_methods(b: &Option<Tensor>, x: &Tensor) -> Tensor {
    let y = b.as_ref().map_or(x.sin(), |b| x * b);
    y + b.clone().unwrap_or_else(|| x.square())
}

#[traced]
fn or_zeros(b: Option<Tensor>, x: &Tensor) -> Tensor {
    x.sin() + b.unwrap_or(x.zeros_like())
}

type Named = BTreeMap<String, Tensor>;

#[traced]
fn of_a_map(all: &Named, x: &Tensor) -> Tensor {
    let mut y = x.sin();
    for w in all.values() {
        y = y * w;
    }
    match all.contains_key("b") {
        true => y + &all["b"],
        false => y,
    }
}

macro_rules! check {
    ($f:ident: &$ty:ty, $part:expr) => {
        Companions {
            call: &|(part, x): &($ty, Tensor)| $f(part, x),
            vjp: &|(part, x), ct| {
                let (y, pullback) = $f::vjp(part, x);
                (y, pullback(ct))
            },
            jvp: &|(part, x), (d_part, dx)| $f::jvp((part, x), (d_part, dx)),
        }
        .check(&($part, noise(&[3, 3], 1)))
    };
    ($f:ident: $ty:ty, $part:expr) => {
        Companions {
            call: &|(part, x): &($ty, Tensor)| $f(part.clone(), x),
            vjp: &|(part, x), ct| {
                let (y, pullback) = $f::vjp(part.clone(), x);
                (y, pullback(ct))
            },
            jvp: &|(part, x), (d_part, dx)| $f::jvp((part.clone(), x), (d_part, dx)),
        }
        .check(&($part, noise(&[3, 3], 1)))
    };
}

#[test]
fn a_part_moved_out_of_a_parameter_has_its_cotangent() {
    let w = || noise(&[3, 3], 2);
    check!(applied: Layer, Layer::Dense { w: w(), b: None });
    let b = Some(noise(&[3], 3));
    check!(applied: Layer, Layer::Dense { w: w(), b });
    check!(applied: Layer, Layer::Scale(w()));
    check!(applied: Layer, Layer::Relu);
    for b in [None, Some(w())] {
        check!(matched: Option<Tensor>, b.clone());
        check!(or_left: Option<Tensor>, b.clone());
        check!(chosen: Option<Tensor>, b.clone());
        check!(in_pairs: Option<Tensor>, b.clone());
    }
}

#[test]
fn methods_of_options_and_maps_are_differentiated() {
    for b in [None, Some(noise(&[3, 3], 2))] {
        check!(by_methods: &Option<Tensor>, b.clone());
        check!(or_zeros: Option<Tensor>, b);
    }
    for names in [&["a", "b"][..], &["a"], &[]] {
        let all = names.iter().zip(2..);
        let all: Named = all
            .map(|(name, i)| (name.to_string(), noise(&[3, 3], i)))
            .collect();
        check!(of_a_map: &Named, all);
    }
}
