//! Parameters and results of functions.

use super::rng::Rng;

/// Lengths of the axes of a tensor.
pub(super) type Shape = &'static [usize];

/// Shapes of generated tensors.
pub(super) const SHAPES: [Shape; 7] = [&[], &[2], &[3], &[2, 2], &[2, 3], &[3, 2], &[3, 3]];

/// Picks a shape, preferring those that many ops accept or produce.
pub(super) fn common(rng: &mut Rng) -> Shape {
    if rng.once_in(2) {
        rng.of(&[SHAPES[2], LAYER, LAYER, SHAPES[6]])
    } else {
        rng.of(&SHAPES)
    }
}

/// Kind of a parameter.
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
    /// A list of tensors of the shape that a layer takes.
    Inputs {
        len: usize,
    },
    /// A layer, with or without a bias.
    Layer {
        biased: bool,
    },
    /// A model of several layers.
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

impl Param {
    /// Returns the shapes of its differentiable tensors.
    pub(super) fn leaves(&self) -> Vec<Shape> {
        const W: Shape = &[3, 3];
        const B: Shape = &[3];
        match self {
            Param::Tensor { shape, .. } => vec![shape],
            Param::Pair(a, b) => vec![a, b],
            Param::Inputs { len } => vec![LAYER; *len],
            Param::Layer { biased: true } => vec![W, B],
            Param::Layer { biased: false } => vec![W],
            Param::Model { layers } => {
                let all = (0..*layers).flat_map(|i| if i % 2 == 0 { vec![W, B] } else { vec![W] });
                all.chain([B, &[3, 2], &[]]).collect()
            }
            _ => vec![],
        }
    }
}

/// A parameter with its name.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) param: Param,
    /// True for `#[nodiff]` parameters, which the public companions leave out.
    pub(super) nodiff: bool,
}

/// Largest value of a `usize` parameter.
pub(super) const MOST_STEPS: usize = 4;

/// Shape of the input and output of a layer.
pub(super) const LAYER: Shape = &[2, 3];

/// Structure of a result.
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

/// Parameters and result of a function, and the cost of a call.
pub(super) struct Signature {
    pub(super) name: String,
    pub(super) params: Vec<Named>,
    pub(super) ret: Ret,
    pub(super) fallible: bool,
    /// True if the companions are recorded at run time.
    pub(super) recorded: bool,
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
            params: named(rng, params),
            ret,
            fallible: rng.once_in(6),
            recorded: rng.once_in(10),
            ops: 0.0,
            calls: 0,
        }
    }

    /// Returns the text of the item up to its body.
    pub(super) fn head(&self) -> String {
        let params: Vec<String> = self
            .params
            .iter()
            .map(
                |Named {
                     name,
                     param,
                     nodiff,
                 }| {
                    let (attr, ty) = match param {
                        Param::Tensor { by_ref: true, .. } => ("", "&Tensor"),
                        Param::Tensor { by_ref: false, .. } => ("", "Tensor"),
                        Param::Mask { .. } => ("#[nodiff] ", "&Tensor"),
                        Param::Pair(..) => ("", "&(Tensor, Tensor)"),
                        Param::Inputs { .. } => ("", "&Vec<Tensor>"),
                        Param::Layer { .. } => ("", "&Layer"),
                        Param::Model { .. } => ("", "&Model"),
                        Param::Steps => ("", "usize"),
                        Param::Number => ("", "f64"),
                        Param::Flag => ("", "bool"),
                        Param::Mode => ("#[fixed] ", "Mode"),
                    };
                    let attr = if *nodiff { "#[nodiff] " } else { attr };
                    format!("{attr}{name}: {ty}")
                },
            )
            .collect();
        let ty = self.ret.ty();
        let ty = if self.fallible {
            format!("Result<{ty}>")
        } else {
            ty
        };
        let attr = if self.recorded {
            "#[traced(record)]"
        } else {
            "#[traced]"
        };
        format!(
            "{attr}\npub fn {}({}) -> {ty}",
            self.name,
            params.join(", ")
        )
    }
}

/// Marks some parameters `#[nodiff]`, but not all of those with tensors.
fn named(rng: &mut Rng, params: Vec<(String, Param)>) -> Vec<Named> {
    let with_leaves = (0..params.len()).filter(|i| !params[*i].1.leaves().is_empty());
    let with_leaves: Vec<usize> = with_leaves.collect();
    let left = rng.of(&with_leaves);
    let params = params.into_iter().enumerate().map(|(i, (name, param))| {
        let nodiff = with_leaves.contains(&i) && i != left && rng.once_in(3);
        Named {
            name,
            param,
            nodiff,
        }
    });
    params.collect()
}
