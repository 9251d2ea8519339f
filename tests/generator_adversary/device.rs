//! Building blocks of generated functions.
//!
//! All text uses these marks:
//!
//! - `@` is the number of the part, which makes names distinct unless they are meant to collide.
//! - `$h` is the tensor computed so far.
//! - `‹1.5›` is a literal, which a twin of the function replaces with another one.
//! - `⟦a¦b⟧` is `a` in the traced function and `b` in the plain one.

/// Side effect of a part, in order of severity. A function has the most severe effect of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    None,
    Reads,
    Typed,
    Hidden,
    Granted,
}

/// A parameter that a part needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    /// Name.
    pub(crate) name: &'static str,
    /// Type, preceded by attributes as in `#[fixed] &Sched`.
    pub(crate) ty: &'static str,
    /// Arguments for each choice of static arguments. `$0`, `$1`, .. are leaves, and `M::` is the
    /// module of the function.
    pub(crate) args: [&'static str; 3],
    /// Tangent, if it is not written as the argument.
    pub(crate) tangent: Option<&'static str>,
    /// Number of leaves.
    pub(crate) leaves: usize,
}

/// Value of a part, as source text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Expression of type `f64`.
    Number(&'static str),
    /// Expression for a tensor with the shape of the tensor computed so far.
    Tensor(&'static str),
}

/// A building block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    /// The class of bug that a failure of this part indicates.
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    /// Items next to the function.
    pub(crate) items: &'static str,
    pub(crate) params: &'static [Param],
    /// Statements before the value.
    pub(crate) stmts: &'static str,
    pub(crate) value: Value,
}

impl Device {
    const fn new(class: &'static str, name: &'static str, value: Value) -> Device {
        Device {
            class,
            name,
            effect: Effect::None,
            items: "",
            params: &[],
            stmts: "",
            value,
        }
    }

    pub(crate) const fn stmts(self, stmts: &'static str) -> Device {
        Device { stmts, ..self }
    }

    pub(crate) const fn items(self, items: &'static str) -> Device {
        Device { items, ..self }
    }

    pub(crate) const fn params(self, params: &'static [Param]) -> Device {
        Device { params, ..self }
    }

    pub(crate) const fn effect(self, effect: Effect) -> Device {
        Device { effect, ..self }
    }
}

/// Returns a part that only computes a number.
pub(crate) const fn number(name: &'static str, value: &'static str) -> Device {
    Device::new("ordinary", name, Value::Number(value))
}

/// Returns a part that only computes a tensor.
pub(crate) const fn tensor(name: &'static str, value: &'static str) -> Device {
    Device::new("ordinary", name, Value::Tensor(value))
}

/// Returns a part whose number depends on hidden state.
pub(crate) const fn hidden(class: &'static str, name: &'static str, value: &'static str) -> Device {
    Device::new(class, name, Value::Number(value)).effect(Effect::Hidden)
}

/// Returns a part whose tensor depends on hidden state.
pub(crate) const fn hidden_tensor(
    class: &'static str,
    name: &'static str,
    value: &'static str,
) -> Device {
    Device::new(class, name, Value::Tensor(value)).effect(Effect::Hidden)
}

/// Returns a part without hidden state, filed under a class.
pub(crate) const fn known(class: &'static str, name: &'static str, value: &'static str) -> Device {
    Device::new(class, name, Value::Tensor(value))
}

/// Returns a static parameter.
pub(crate) const fn fixed(name: &'static str, ty: &'static str, args: [&'static str; 3]) -> Param {
    Param {
        name,
        ty,
        args,
        tangent: None,
        leaves: 0,
    }
}

/// Returns a tree parameter of at least one tensor.
pub(crate) const fn tree(
    name: &'static str,
    ty: &'static str,
    arg: &'static str,
    leaves: usize,
) -> Param {
    Param {
        name,
        ty,
        args: [arg; 3],
        tangent: None,
        leaves,
    }
}
