//! Methods that the op table declares.

use super::{Operand, Tensor, one, plain};
use crate::{DType, IntoStatic};
use gradloom_ir::{Op, Static};

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        /// Elementwise unary ops.
        ///
        /// The result has the shape and dtype of the operand. Integers are accepted where the op is
        /// defined for them.
        ///
        /// ```
        /// # use gradloom::Tensor;
        /// let x = Tensor::from([-4.0f32, 0.0, 9.0]);
        /// assert_eq!(x.relu().sqrt().to_vec::<f32>(), [0.0, 0.0, 3.0]);
        /// assert_eq!(Tensor::from([-4i64, 9]).abs().to_vec::<i64>(), [4, 9]);
        /// ```
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// If the op does not accept the dtype.
                #[track_caller]
                pub fn $name(&self) -> Tensor {
                    plain(Op::$op, &[self])
                }
            )*
        }
    };
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
        /// Elementwise binary ops and comparisons, with NumPy broadcasting.
        ///
        /// A number on the right takes the dtype of the tensor, as in `x.maximum(0.0)`, but a float
        /// beside integers is an `f64`. The dtypes of two tensors are promoted by
        /// [`DType::promoted`]. The result has that dtype, or `bool` for a comparison.
        ///
        /// ```
        /// # use gradloom::Tensor;
        /// let x = Tensor::from([[1.0f32], [4.0]]);
        /// let y = Tensor::from([2.0f32, 3.0]);
        /// assert_eq!(x.maximum(&y).to_vec::<f32>(), [2.0, 3.0, 4.0, 4.0]);
        /// assert_eq!(x.pow(0.5).to_vec::<f32>(), [1.0, 2.0]);
        /// assert_eq!(x.lt(2.5).to_vec::<bool>(), [true, false]);
        /// ```
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// # Panics
                ///
                /// If the shapes do not broadcast, the dtypes cannot be promoted, the op does not
                /// accept the dtype, or the number does not fit the dtype.
                #[track_caller]
                pub fn $name(&self, other: impl Operand) -> Tensor {
                    other.apply(Op::$op, self.clone())
                }
            )*
        }
    };
}

/// Defines the methods that the file of an op declares.
macro_rules! declared_methods {
    ($op:ident $($(#[$doc:meta])* fn $name:ident($x:ident: $($params:tt)*);)*) => {
        impl Tensor {
            $(declared_method! { $op [$(#[$doc])*] $name $x $($params)* })*
        }
    };
}

/// Defines one method. The receiver is bound to the name of the first parameter.
///
/// After `@` stand the parameters, static arguments, data operands and `Like` operands so far, and
/// then the parameters that are left.
macro_rules! declared_method {
    ($op:ident $doc:tt $name:ident $x:ident Data + Like $($rest:tt)*) => {
        declared_method! {
            @ [] [] [AsRef::<Tensor>::as_ref($x),] [$x.aval(),] $op $doc $name $x $($rest)*
        }
    };
    ($op:ident $doc:tt $name:ident $x:ident Data $($rest:tt)*) => {
        declared_method! { @ [] [] [AsRef::<Tensor>::as_ref($x),] [] $op $doc $name $x $($rest)* }
    };
    ($op:ident $doc:tt $name:ident $x:ident Like, $param:ident: Static) => {
        declared_method! { like [$param.into_static()] [$param: impl IntoStatic] $op $doc $name $x }
    };
    ($op:ident $doc:tt $name:ident $x:ident Like, $param:ident: Number($n:tt)) => {
        declared_method! { like [Static::Int($n)] [] $op $doc $name $x }
    };
    (like [$static:expr] [$($param:tt)*] $op:ident [$(#[$doc:meta])*] $name:ident $x:ident) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self, $($param)*) -> Tensor {
            one(Op::$op, [$static], &[], &[self.aval()]).repeated_over(self.aval())
        }
    };
    (@ [$($params:tt)*] $statics:tt [$($data:tt)*] [$($likes:tt)*]
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: Data + Like $($rest:tt)*
    ) => {
        declared_method! {
            @ [$($params)* $param: impl AsRef<Tensor>,] $statics
            [$($data)* $param.as_ref(),] [$($likes)* $param.as_ref().aval(),]
            $op $doc $name $x $($rest)*
        }
    };
    (@ [$($params:tt)*] $statics:tt [$($data:tt)*] $likes:tt
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: Data $($rest:tt)*
    ) => {
        declared_method! {
            @ [$($params)* $param: impl AsRef<Tensor>,] $statics [$($data)* $param.as_ref(),] $likes
            $op $doc $name $x $($rest)*
        }
    };
    (@ [$($params:tt)*] $statics:tt $data:tt [$($likes:tt)*]
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: Like $($rest:tt)*
    ) => {
        declared_method! {
            @ [$($params)* $param: impl AsRef<Tensor>,] $statics $data
            [$($likes)* $param.as_ref().aval(),]
            $op $doc $name $x $($rest)*
        }
    };
    (@ [$($params:tt)*] [$($statics:tt)*] $data:tt $likes:tt
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: Static $($rest:tt)*
    ) => {
        declared_method! {
            @ [$($params)* $param: impl IntoStatic,] [$($statics)* $param.into_static(),]
            $data $likes $op $doc $name $x $($rest)*
        }
    };
    (@ [$($params:tt)*] [$($statics:tt)*] $data:tt $likes:tt
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: DType $($rest:tt)*
    ) => {
        declared_method! {
            @ [$($params)* $param: DType,] [$($statics)* $param.into_static(),]
            $data $likes $op $doc $name $x $($rest)*
        }
    };
    (@ $params:tt [$($statics:tt)*] $data:tt $likes:tt
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: Switch($on:tt) $($rest:tt)*
    ) => {
        declared_method! {
            @ $params [$($statics)* Static::Bool($on),] $data $likes $op $doc $name $x $($rest)*
        }
    };
    (@ $params:tt [$($statics:tt)*] $data:tt $likes:tt
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: Number($n:tt) $($rest:tt)*
    ) => {
        declared_method! {
            @ $params [$($statics)* Static::Int($n),] $data $likes $op $doc $name $x $($rest)*
        }
    };
    (@ $params:tt [$($statics:tt)*] $data:tt $likes:tt
        $op:ident $doc:tt $name:ident $x:ident, $param:ident: All $($rest:tt)*
    ) => {
        declared_method! {
            @ $params [$($statics)* Static::All,] $data $likes $op $doc $name $x $($rest)*
        }
    };
    (@ [$($params:tt)*] [$($statics:tt)*] [$($data:tt)*] [$($likes:tt)*]
        $op:ident [$(#[$doc:meta])*] $name:ident $x:ident
    ) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self, $($params)*) -> Tensor {
            let $x = self;
            one(Op::$op, [$($statics)*], &[$($data)*], &[$($likes)*])
        }
    };
}

gradloom_ir::for_each_unary!(unary_methods);
gradloom_ir::for_each_binary!(binary_methods);
gradloom_ir::for_each_methods!(declared_methods);
