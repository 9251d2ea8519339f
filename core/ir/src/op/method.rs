//! The methods by which user code calls ops. The macro lowers calls by them.

/// A method or associated function of `Tensor` that applies an op.
///
/// The `Like` operands of the op are the data operands in order, followed by those that a
/// [`Param::Like`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name of the method or associated function.
    pub name: &'static str,
    /// The parameters in order. The receiver of a method is the first.
    pub params: &'static [Param],
    /// True if it is called as `Tensor::name(..)` rather than `x.name(..)`.
    pub assoc: bool,
}

impl Method {
    /// Returns the method `x.name(..)`.
    pub const fn on_tensor(name: &'static str, params: &'static [Param]) -> Method {
        Method {
            name,
            params,
            assoc: false,
        }
    }

    /// Returns the associated function `Tensor::name(..)`.
    pub const fn on_type(name: &'static str, params: &'static [Param]) -> Method {
        Method {
            name,
            params,
            assoc: true,
        }
    }
}

/// A parameter of a [`Method`].
///
/// The static arguments of the op are filled in the order of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// A tensor whose values are read.
    Data,
    /// A tensor of which only dtype and shape are read: a `Like` operand.
    Like,
    /// A list of tensors, `&[&a, &b]`, whose values are read.
    List,
    /// A static argument that the user writes.
    Static,
    /// A boolean static argument with a fixed value, which the user does not write.
    Switch(bool),
    /// An integer static argument with a fixed value, which the user does not write.
    Number(i64),
    /// The static argument [`Static::All`](crate::Static::All), which the user does not write.
    All,
    /// The number of results, given by the pattern `let [a, b] = ..` or by `::<N>`.
    ///
    /// It is not a static argument.
    Count,
}
