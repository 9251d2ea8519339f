//! What a function may be made of.
//!
//! In all text `@` is the number of the part, so names are distinct unless they are meant to collide; `$h` is the tensor so
//! far; what stands between `‹` and `›` is a number that a twin of the function has another of; and of `⟦a¦b⟧` the traced
//! function has `a` and the plain one `b`.

/// What a part does besides computing. The order is that of severity: a function has the greatest of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    None,
    Reads,
    Typed,
    Hidden,
    Granted,
}

/// A parameter that a part asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its type, with attributes before it in brackets as in `#[fixed] &Sched`.
    pub(crate) ty: &'static str,
    /// Arguments for each choice of static arguments; `$0` and so on are leaves, and `M::` the module of the function.
    pub(crate) args: [&'static str; 3],
    /// How many leaves it has.
    pub(crate) leaves: usize,
}

/// The value of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// An `f64`.
    Number(&'static str),
    /// A tensor of the shape of `$h`.
    Tensor(&'static str),
}

/// A part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    /// The cause of a mistake that it would show.
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    /// Items beside the function.
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

/// A part that only computes a number.
pub(crate) const fn number(name: &'static str, value: &'static str) -> Device {
    Device::new("ordinary", name, Value::Number(value))
}

/// A part that only computes a tensor.
pub(crate) const fn tensor(name: &'static str, value: &'static str) -> Device {
    Device::new("ordinary", name, Value::Tensor(value))
}

/// A number from hidden state.
pub(crate) const fn hidden(class: &'static str, name: &'static str, value: &'static str) -> Device {
    Device::new(class, name, Value::Number(value)).effect(Effect::Hidden)
}

/// A tensor from hidden state.
pub(crate) const fn hidden_tensor(
    class: &'static str,
    name: &'static str,
    value: &'static str,
) -> Device {
    Device::new(class, name, Value::Tensor(value)).effect(Effect::Hidden)
}

/// A part of a class that has no hidden state.
pub(crate) const fn known(class: &'static str, name: &'static str, value: &'static str) -> Device {
    Device::new(class, name, Value::Tensor(value))
}

/// A static parameter.
pub(crate) const fn fixed(name: &'static str, ty: &'static str, args: [&'static str; 3]) -> Param {
    Param {
        name,
        ty,
        args,
        leaves: 0,
    }
}

/// A tree of one tensor or more.
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
        leaves,
    }
}
