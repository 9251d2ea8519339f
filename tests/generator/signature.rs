//! What a function takes and returns.

use super::rng::Rng;

/// The lengths of the axes of a tensor.
pub(super) type Shape = &'static [usize];

/// The shapes that tensors have.
pub(super) const SHAPES: [Shape; 7] = [&[], &[2], &[3], &[2, 2], &[2, 3], &[3, 2], &[3, 3]];

/// A shape, more often one that many ops take or give.
pub(super) fn common(rng: &mut Rng) -> Shape {
    if rng.once_in(2) {
        rng.of(&[SHAPES[2], LAYER, LAYER, SHAPES[6]])
    } else {
        rng.of(&SHAPES)
    }
}

/// What a parameter is.
#[derive(Clone, Debug)]
pub(super) enum Param {
    /// `&Tensor` or `Tensor`.
    Tensor {
        shape: Shape,
        by_ref: bool,
    },
    /// A tensor without a derivative.
    Mask {
        shape: Shape,
    },
    /// A pair of tensors.
    Pair(Shape, Shape),
    /// Some tensors of the shape that a layer takes.
    Inputs {
        len: usize,
    },
    /// A layer; whether it has a bias.
    Layer {
        biased: bool,
    },
    /// A model with so many layers.
    Model {
        layers: usize,
    },
    /// A number of steps, at most [`MOST_STEPS`].
    Steps,
    /// A number between -1.5 and 1.5.
    Number,
    Flag,
    Mode,
}

/// The most that a parameter of the type `usize` is.
pub(super) const MOST_STEPS: usize = 4;

/// What a layer takes and gives.
pub(super) const LAYER: Shape = &[2, 3];

/// The structure of a result.
#[derive(Clone, Debug)]
pub(super) enum Ret {
    Tensor(Shape),
    Tuple(Vec<Ret>),
}

impl Ret {
    pub(super) fn ty(&self) -> String {
        match self {
            Ret::Tensor(_) => "Tensor".to_owned(),
            Ret::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(Ret::ty).collect();
                format!("({})", parts.join(", "))
            }
        }
    }
}

/// What a function takes and returns, and what a call of it costs.
pub(super) struct Signature {
    pub(super) name: String,
    pub(super) params: Vec<(String, Param)>,
    pub(super) ret: Ret,
    pub(super) fallible: bool,
    pub(super) ops: f64,
    pub(super) calls: usize,
}

impl Signature {
    pub(super) fn new(rng: &mut Rng, name: String) -> Signature {
        let mut params = vec![(
            "x".to_owned(),
            Param::Tensor {
                shape: common(rng),
                by_ref: !rng.once_in(5),
            },
        )];
        if rng.once_in(2) {
            let (shape, by_ref) = (common(rng), !rng.once_in(4));
            params.push(("y".to_owned(), Param::Tensor { shape, by_ref }));
        }
        if rng.once_in(6) {
            let shape = common(rng);
            params.push(("mask".to_owned(), Param::Mask { shape }));
        }
        match rng.below(9) {
            0 | 1 => {
                let layers = rng.below(4);
                params.push(("model".to_owned(), Param::Model { layers }));
            }
            2 => {
                let biased = rng.once_in(2);
                params.push(("layer".to_owned(), Param::Layer { biased }));
            }
            3 => params.push(("pair".to_owned(), Param::Pair(common(rng), common(rng)))),
            _ => {}
        }
        if rng.once_in(4) {
            let len = rng.below(4);
            params.push(("xs".to_owned(), Param::Inputs { len }));
        }
        if !rng.once_in(3) {
            params.push(("n".to_owned(), Param::Steps));
        }
        if rng.once_in(3) {
            params.push(("a".to_owned(), Param::Number));
        }
        if rng.once_in(4) {
            params.push(("flag".to_owned(), Param::Flag));
        }
        if rng.once_in(5) {
            params.push(("mode".to_owned(), Param::Mode));
        }
        if rng.once_in(3) {
            rng.shuffle(&mut params);
        }
        let ret = match rng.below(8) {
            0..3 => Ret::Tensor(&[]),
            3..6 => Ret::Tensor(common(rng)),
            6 => Ret::Tuple(vec![Ret::Tensor(common(rng)), Ret::Tensor(common(rng))]),
            _ => {
                let inner = vec![Ret::Tensor(common(rng)), Ret::Tensor(&[3])];
                Ret::Tuple(vec![Ret::Tuple(inner), Ret::Tensor(&[])])
            }
        };
        Signature {
            name,
            params,
            ret,
            fallible: rng.once_in(6),
            ops: 0.0,
            calls: 0,
        }
    }

    /// The item up to its body.
    pub(super) fn head(&self) -> String {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|(name, param)| match param {
                Param::Tensor { by_ref: true, .. } => format!("{name}: &Tensor"),
                Param::Tensor { by_ref: false, .. } => format!("{name}: Tensor"),
                Param::Mask { .. } => format!("#[nodiff] {name}: &Tensor"),
                Param::Pair(..) => format!("{name}: &(Tensor, Tensor)"),
                Param::Inputs { .. } => format!("{name}: &Vec<Tensor>"),
                Param::Layer { .. } => format!("{name}: &Layer"),
                Param::Model { .. } => format!("{name}: &Model"),
                Param::Steps => format!("{name}: usize"),
                Param::Number => format!("{name}: f64"),
                Param::Flag => format!("{name}: bool"),
                Param::Mode => format!("#[fixed] {name}: Mode"),
            })
            .collect();
        let ty = self.ret.ty();
        let ty = if self.fallible {
            format!("Result<{ty}>")
        } else {
            ty
        };
        format!(
            "#[traced]\npub fn {}({}) -> {ty}",
            self.name,
            params.join(", ")
        )
    }
}
