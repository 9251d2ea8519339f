//! The variables visible to a statement.

use super::signature::{LAYER, Param, Shape, Signature};

/// Type of a variable.
#[derive(Clone, Debug)]
pub(super) enum Ty {
    Tensor(Shape),
    /// A tuple of two tensors.
    Pair(Shape, Shape),
    /// A tensor without a derivative.
    Mask(Shape),
    /// A list of this many tensors of the shape that a layer takes.
    Inputs(usize),
    Layer,
    /// A model with this many layers.
    Model(usize),
    /// A `usize` with this maximum.
    Steps(usize),
    Number,
    Flag,
    Mode,
    /// A closure from a tensor of this shape to one of the same shape.
    Closure(Shape),
}

/// A variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) ty: Ty,
    /// True if the variable is a reference.
    pub(super) by_ref: bool,
    /// True if statements may assign to it.
    pub(super) mutable: bool,
}

/// The variables visible to a statement, by block.
pub(super) struct Scope {
    blocks: Vec<Vec<Variable>>,
    names: usize,
}

impl Scope {
    /// Returns the scope of a function body: its parameters.
    pub(super) fn of(signature: &Signature) -> Scope {
        let params = signature.params.iter().map(|named| {
            let (ty, by_ref) = match named.param {
                Param::Tensor { shape, by_ref } => (Ty::Tensor(shape), by_ref),
                Param::Mask { shape } => (Ty::Mask(shape), true),
                Param::Pair(a, b) => (Ty::Pair(a, b), true),
                Param::Inputs { len } => (Ty::Inputs(len), true),
                Param::Layer { .. } => (Ty::Layer, true),
                Param::Model { layers } => (Ty::Model(layers), true),
                Param::Steps => (Ty::Steps(super::signature::MOST_STEPS), false),
                Param::Number => (Ty::Number, false),
                Param::Flag => (Ty::Flag, false),
                Param::Mode => (Ty::Mode, false),
            };
            Variable {
                name: named.name.clone(),
                ty,
                by_ref,
                mutable: false,
            }
        });
        Scope {
            blocks: vec![params.collect()],
            names: 0,
        }
    }

    pub(super) fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        self.blocks.pop();
    }

    /// Returns a name that no other variable has.
    pub(super) fn fresh(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}_{}", self.names)
    }

    pub(super) fn bind(&mut self, name: &str, ty: Ty, by_ref: bool, mutable: bool) {
        let block = self.blocks.last_mut().expect("the scope has a block");
        block.push(Variable {
            name: name.to_owned(),
            ty,
            by_ref,
            mutable,
        });
    }

    /// Returns the visible variables, without those that a later one shadows.
    pub(super) fn visible(&self) -> Vec<&Variable> {
        let mut seen: Vec<&Variable> = Vec::new();
        for variable in self.blocks.iter().flatten().rev() {
            if !seen.iter().any(|v| v.name == variable.name) {
                seen.push(variable);
            }
        }
        seen
    }

    /// Returns the results of `f` for the visible variables, without `None`.
    pub(super) fn pick<T>(&self, f: impl Fn(&Variable) -> Option<T>) -> Vec<T> {
        self.visible().into_iter().filter_map(f).collect()
    }

    /// Returns the tensor places: their text, whether that is a reference, and their shapes. If
    /// `fixed` is true, returns only places that nothing assigns to.
    pub(super) fn tensors(&self, fixed: bool) -> Vec<(String, bool, Shape)> {
        let mut places = Vec::new();
        for v in self.visible() {
            let name = &v.name;
            if fixed && v.mutable {
                continue;
            }
            match v.ty {
                Ty::Tensor(shape) => places.push((name.clone(), v.by_ref, shape)),
                Ty::Pair(a, b) => {
                    places.push((format!("{name}.0"), false, a));
                    places.push((format!("{name}.1"), false, b));
                }
                Ty::Inputs(len) if len > 0 => {
                    places.push((format!("{name}[{}]", len - 1), false, LAYER));
                }
                Ty::Layer => places.push((format!("{name}.w"), false, &[3, 3])),
                Ty::Model(layers) => {
                    places.push((format!("{name}.gain"), false, &[3]));
                    places.push((format!("{name}.ends.0"), false, &[3, 2]));
                    places.push((format!("{name}.ends.1"), false, &[]));
                    if layers > 0 {
                        places.push((format!("{name}.layers[0].w"), false, &[3, 3]));
                    }
                }
                _ => {}
            }
        }
        places
    }

    /// Returns the places of layers.
    pub(super) fn layers(&self) -> Vec<String> {
        let mut places = Vec::new();
        for v in self.visible() {
            match v.ty {
                Ty::Layer => places.push(v.name.clone()),
                Ty::Model(layers) if layers > 0 => {
                    places.push(format!("{}.layers[{}]", v.name, layers - 1));
                }
                _ => {}
            }
        }
        places
    }
}
