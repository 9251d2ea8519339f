//! Methods that are composed of ops.

use crate::tensor::compose as rt;
use crate::{DType, IntoStatic, Key, Operand, Tensor};

/// Returns the type of a parameter.
macro_rules! role {
    (Tensor) => { impl AsRef<Tensor> };
    (Operand) => { impl Operand };
    (Other) => { impl Operand };
    (Static) => { impl IntoStatic };
    (Counts) => { impl AsRef<[usize]> };
    (Pairs) => { (&[i64], &[i64]) };
    (Function) => { impl FnOnce(&Tensor) -> Tensor };
    (Float) => { f64 };
    (Int) => { i64 };
    (Count) => { usize };
    (Key) => { Key };
}

/// Makes a parameter the reference that a body expects.
macro_rules! bind {
    (Tensor $param:ident $x:ident) => {
        let $param = $param.as_ref();
    };
    (Operand $param:ident $x:ident) => {
        let $param = &$param.beside($x);
    };
    (Static $param:ident $x:ident) => {
        let $param = &$param.into_static();
    };
    (Counts $param:ident $x:ident) => {
        let $param = rt::counts($param);
    };
    (Pairs $param:ident $x:ident) => {
        let $param = rt::pairs($param);
    };
    ($role:ident $param:ident $x:ident) => {};
}

macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($x:ident: Tensor $(, $param:ident: $role:ident)* $(,)?) $body:block
    )*) => {
        /// Methods that are composed of ops.
        ///
        /// `#[traced]` lowers their calls as it lowers ops.
        impl Tensor {$(
            methods! { @ $(#[$doc])* $name $x [$($param $role)*] $body }
        )*}
    };
    (@ $(#[$doc:meta])* $name:ident $x:ident [$($param:ident $role:ident)*] $body:block) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self $(, $param: role!($role))*) -> Tensor {
            let $x = self;
            $(bind! { $role $param $x })*
            $body
        }
    };
}

gradloom_ir::for_each_composite!(methods);
