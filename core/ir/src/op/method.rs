//! How user code calls ops: the table that the macro lowers by and the methods of `Tensor` keep to.

/// One way in which user code calls an op.
///
/// The `Like` operands that no [`Param::Like`] names come before those that one does, and are the data operands
/// in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name of the method or associated function of `Tensor`.
    pub name: &'static str,
    /// What it takes, in order. The receiver of a method is the first.
    pub params: &'static [Param],
    /// Whether it is called as `Tensor::name(..)` rather than on a tensor.
    pub assoc: bool,
}

impl Method {
    /// `x.name(..)`.
    pub const fn on_tensor(name: &'static str, params: &'static [Param]) -> Method {
        Method {
            name,
            params,
            assoc: false,
        }
    }

    /// `Tensor::name(..)`.
    pub const fn on_type(name: &'static str, params: &'static [Param]) -> Method {
        Method {
            name,
            params,
            assoc: true,
        }
    }
}

/// A parameter of a [`Method`]. The statics of the op are filled in the order in which they come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// A tensor whose values are read.
    Data,
    /// A tensor of which only dtype and shape are read: a `Like` operand.
    Like,
    /// A list of tensors, `&[&a, &b]`, whose values are read.
    List,
    /// A static argument.
    Static,
    /// A static argument that the method fixes; the user does not write it.
    Switch(bool),
    /// A number that the method fixes; the user does not write it.
    Number(i64),
    /// The static argument [`Static::All`](crate::Static::All), which the method fixes; the user does not write it.
    All,
    /// The number of results, known from the pattern `let [a, b] = ..` or from `::<N>`; no static, not written.
    Count,
}
