//! The methods by which user code calls ops. The macro lowers calls by them.

/// A method or associated function of `Tensor` that applies an op.
///
/// The `Like` operands of the op are the parameters of the kinds [`Param::DataLike`] and
/// [`Param::Like`], in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name of the method or associated function.
    pub name: &'static str,
    /// The parameters in order. The receiver of a method is the first.
    pub params: &'static [Param],
    /// The names of the parameters. If it is empty, static arguments have the names of the op.
    pub names: &'static [&'static str],
    /// True if it is called as `Tensor::name(..)` rather than `x.name(..)`.
    pub assoc: bool,
    /// The number of results. A method with a [`Param::Count`] returns as many as the caller says.
    pub results: usize,
}

impl Method {
    /// Returns the method `x.name(..)`.
    pub const fn on_tensor(name: &'static str, params: &'static [Param]) -> Method {
        Method {
            name,
            params,
            names: &[],
            assoc: false,
            results: 1,
        }
    }

    /// Returns the associated function `Tensor::name(..)`.
    pub const fn on_type(name: &'static str, params: &'static [Param]) -> Method {
        Method {
            name,
            params,
            names: &[],
            assoc: true,
            results: 1,
        }
    }

    /// Adds that the method returns a tuple of `results` tensors.
    pub const fn with_results(mut self, results: usize) -> Method {
        self.results = results;
        self
    }

    /// Adds the names of the parameters.
    pub const fn named(mut self, names: &'static [&'static str]) -> Method {
        self.names = names;
        self
    }
}

/// Declares methods of `Tensor` that apply an op, in the file of the op.
///
/// ```text
/// methods! { softmax {
///     /// `exp(x) / sum(exp(x))` along an axis, without overflow.
///     fn softmax(x: Data, axis: Static);
/// } }
/// ```
///
/// A parameter has the kind of a [`Param`], or the kind `DType`: a static argument of that type. The
/// first parameter is the receiver. `Data + Like` is an operand that is also a `Like` operand.
///
/// This defines the table `METHODS` for the macro, and a macro with the name of the op, from which
/// the crate `gradloom` makes the methods. Their documentation has a runnable example.
macro_rules! methods {
    ($op:ident { $(
        $(#[$doc:meta])* fn $name:ident(
            $($param:ident: $kind:ident $(($value:tt))? $(+ $like:ident)?),*
        );
    )* }) => {
        const METHODS: &[super::Method] = &[$(super::Method {
            name: stringify!($name),
            params: &[$(param!($kind $(($value))? $(+ $like)?)),*],
            names: &[$(stringify!($param)),*],
            assoc: false,
            results: 1,
        }),*];
        methods! { @ $dollar $op {
            $($(#[$doc])* fn $name($($param: $kind $(($value))? $(+ $like)?),*);)*
        } }
    };
    (@ $d:tt dollar $op:ident { $($methods:tt)* }) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $op {
            ($d callback:ident $d op:ident methods) => {
                $d callback! { $d op $($methods)* }
            };
        }
    };
}

macro_rules! param {
    (DType) => {
        super::Param::Static
    };
    (Data + Like) => {
        super::Param::DataLike
    };
    ($kind:ident $(($value:tt))?) => {
        super::Param::$kind $(($value))?
    };
}

/// A parameter of a [`Method`].
///
/// The static arguments of the op are filled in the order of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// A tensor whose values are read.
    Data,
    /// A tensor whose values are read, and which is a `Like` operand, too.
    DataLike,
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
