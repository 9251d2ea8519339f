//! Functions of golden cases, written with our ops, and the macro that declares them.

use gradloom::{Tensor, Tree};

/// The function of a case.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    /// Name of the case.
    pub(crate) name: &'static str,
    /// The function, for transforms of closures.
    pub(crate) plain: fn(&[Tensor]) -> Vec<Tensor>,
    /// The same body as a `#[traced]` function, unless the family marks it as `plain`.
    pub(crate) traced: Option<TracedFunction>,
}

/// A `#[traced]` function and its companions, on lists of tensors.
#[derive(Clone, Copy)]
pub(crate) struct TracedFunction {
    /// The function.
    pub(crate) call: fn(&[Tensor]) -> Vec<Tensor>,
    /// The function on lanes, given the axis of the lanes in each argument.
    pub(crate) vmap: fn(&[Option<i32>], &[Tensor]) -> Vec<Tensor>,
    /// Its derivatives, if it has differentiable arguments.
    pub(crate) derivatives: Option<Derivatives>,
}

/// Values and their derivatives.
pub(crate) type Lists = (Vec<Tensor>, Vec<Tensor>);

/// Returns a gradient and its change, given arguments, the cotangent of the result, and tangents.
pub(crate) type Hvp = fn(&[Tensor], &Tensor, &[Tensor]) -> Lists;

/// The companions of a function.
#[derive(Clone, Copy)]
pub(crate) struct Derivatives {
    /// Whether the companions differentiate with respect to each argument.
    pub(crate) differentiable: &'static [bool],
    /// Returns the results and the cotangents of the differentiable arguments.
    pub(crate) vjp: fn(&[Tensor], &[Tensor]) -> Lists,
    /// Returns the results and their tangents.
    pub(crate) jvp: fn(&[Tensor], &[Tensor]) -> Lists,
    /// Returns the gradient of `sum(result * cotangent)` and its change along tangents, if the
    /// function has one tensor as result.
    pub(crate) hvp: Option<Hvp>,
}

/// Returns the leaves of a tree.
pub(crate) fn leaves(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.clone()));
    out
}

/// Returns a tree with the structure of `like` and the given leaves.
pub(crate) fn with_leaves<T: Tree>(like: &T, leaves: &[Tensor]) -> T {
    let mut leaves = leaves.iter();
    like.map(&mut |_| leaves.next().expect("a tensor for each leaf").clone())
}

/// Declares the functions of a family, as the list `FUNCTIONS`.
///
/// A line is `name(arguments) { body }`, or `name(arguments) -> Type { body }` if the result is not
/// a single tensor. The arguments have the type `&Tensor`. Those that are not differentiated have
/// the attribute `#[nodiff]`. Each function is compiled twice: as it is, and with `#[traced]`. Under
/// `@plain { .. }` stand functions that only closures can express, without `#[traced]`.
#[macro_export]
macro_rules! goldens {
    (
        $($(#[doc = $doc:literal])* $name:ident($($(#[$attr:ident])? $arg:ident),*) $(-> $result:ty)? { $($body:tt)* })*
        $(@plain { $($p_name:ident($($p_arg:ident),*) $(-> $p_result:ty)? { $($p_body:tt)* })* })?
    ) => {
        $(
            #[allow(clippy::too_many_arguments)]
            mod $name {
                #[allow(unused_imports)]
                use super::*;
                $crate::goldens! { @body [$($arg)*] [$($result)?] { $($body)* } }
                $crate::goldens! { @traced [$($(#[$attr])? $arg,)*] [$($result)?] { $($body)* } }
                $crate::goldens! { @derivatives [$($result)?] [$($arg)*] flags[] diff[] rest[$([$($attr)?] $arg,)*] }
            }
        )*
        $($(
            mod $p_name {
                #[allow(unused_imports)]
                use super::*;
                $crate::goldens! { @body [$($p_arg)*] [$($p_result)?] { $($p_body)* } }
            }
        )*)?

        pub(crate) const FUNCTIONS: &[$crate::function::Function] = &[
            $($crate::function::Function {
                name: stringify!($name),
                plain: $name::plain_of_list,
                traced: Some($crate::function::TracedFunction {
                    call: $name::traced_of_list,
                    vmap: $name::lanes_of_list,
                    derivatives: $name::DERIVATIVES,
                }),
            },)*
            $($($crate::function::Function {
                name: stringify!($p_name),
                plain: $p_name::plain_of_list,
                traced: None,
            },)*)?
        ];
    };

    (@body [$($arg:ident)*] [] $body:tt) => {
        $crate::goldens! { @body [$($arg)*] [gradloom::Tensor] $body }
    };
    (@body [$($arg:ident)*] [$result:ty] { $($body:tt)* }) => {
        fn plain($($arg: &gradloom::Tensor),*) -> $result { $($body)* }

        pub(super) fn plain_of_list(args: &[gradloom::Tensor]) -> Vec<gradloom::Tensor> {
            let [$($arg),*] = args else { panic!("{} arguments", args.len()) };
            $crate::function::leaves(&plain($($arg),*))
        }
    };

    (@traced [$($(#[$attr:ident])? $arg:ident,)*] [] { $($body:tt)* }) => {
        $crate::goldens! { @traced [$($(#[$attr])? $arg,)*] [gradloom::Tensor] { $($body)* } }

        #[gradloom::traced(order = 2, allow(recorded_call, unused_parameter, zero_gradient))]
        #[allow(clippy::let_and_return)]
        pub(super) fn weighted($($(#[$attr])? $arg: &gradloom::Tensor,)* #[nodiff] weights: &gradloom::Tensor) -> gradloom::Tensor {
            let result = { $($body)* };
            (result * weights).sum(..)
        }
    };
    (@traced [$($(#[$attr:ident])? $arg:ident,)*] [$result:ty] { $($body:tt)* }) => {
        #[gradloom::traced(allow(recorded_call, unused_parameter, zero_gradient))]
        pub(super) fn function($($(#[$attr])? $arg: &gradloom::Tensor),*) -> $result { $($body)* }

        pub(super) fn traced_of_list(args: &[gradloom::Tensor]) -> Vec<gradloom::Tensor> {
            let [$($arg),*] = args else { panic!("{} arguments", args.len()) };
            $crate::function::leaves(&function($($arg),*))
        }

        #[allow(unused_parens)]
        pub(super) fn lanes_of_list(axes: &[Option<i32>], args: &[gradloom::Tensor]) -> Vec<gradloom::Tensor> {
            let axes = {
                let [$($arg),*] = axes else { panic!("{} axes", axes.len()) };
                ($(*$arg),*)
            };
            let [$($arg),*] = args else { panic!("{} arguments", args.len()) };
            $crate::function::leaves(&function::vmap(axes, $($arg),*))
        }
    };

    // Collects the differentiable arguments.
    (@derivatives $result:tt $all:tt flags[$($flag:tt)*] diff[$($diff:ident)*] rest[[nodiff] $arg:ident, $($rest:tt)*]) => {
        $crate::goldens! { @derivatives $result $all flags[$($flag)* false] diff[$($diff)*] rest[$($rest)*] }
    };
    (@derivatives $result:tt $all:tt flags[$($flag:tt)*] diff[$($diff:ident)*] rest[[] $arg:ident, $($rest:tt)*]) => {
        $crate::goldens! { @derivatives $result $all flags[$($flag)* true] diff[$($diff)* $arg] rest[$($rest)*] }
    };
    (@derivatives $result:tt $all:tt flags[$($flag:tt)*] diff[] rest[]) => {
        pub(super) const DERIVATIVES: Option<$crate::function::Derivatives> = None;
    };
    (@derivatives $result:tt [$($arg:ident)*] flags[$($flag:tt)*] diff[$($diff:ident)*] rest[]) => {
        pub(super) const DERIVATIVES: Option<$crate::function::Derivatives> =
            Some($crate::function::Derivatives {
                differentiable: &[$($flag),*],
                vjp: |args, cts| {
                    let [$($arg),*] = args else { panic!("{} arguments", args.len()) };
                    let (y, pullback) = function::vjp($($arg),*);
                    let ct = $crate::function::with_leaves(&y, cts);
                    let ct_args = pullback(&ct);
                    ($crate::function::leaves(&y), $crate::function::leaves(&ct_args))
                },
                #[allow(unused_parens)]
                jvp: |args, tangents| {
                    let [$($arg),*] = args else { panic!("{} arguments", args.len()) };
                    let args = ($($arg),*);
                    let [$($diff),*] = tangents else { panic!("{} tangents", tangents.len()) };
                    let (y, dy) = function::jvp(args, ($($diff),*));
                    ($crate::function::leaves(&y), $crate::function::leaves(&dy))
                },
                hvp: $crate::goldens! { @hvp $result [$($arg)*] [$($diff)*] },
            });
    };
    (@hvp [] [$($arg:ident)*] [$($diff:ident)*]) => {
        Some(
            #[allow(unused_parens)]
            |args, ct, tangents| {
                let [$($arg),*] = args else { panic!("{} arguments", args.len()) };
                let args = ($($arg,)* ct);
                let [$($diff),*] = tangents else { panic!("{} tangents", tangents.len()) };
                let (gradient, change) = weighted::hvp(args, ($($diff),*));
                (vec![$(gradient.$diff),*], vec![$(change.$diff),*])
            },
        )
    };
    (@hvp [$result:ty] $all:tt $diff:tt) => { None };
}
