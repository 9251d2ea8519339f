//! Expansions of `#[traced]`: accepted forms, companions, constants, warnings.

// Written as users write first.
#![allow(
    clippy::assign_op_pattern,
    clippy::needless_borrowed_reference,
    clippy::unnecessary_unwrap,
    clippy::useless_vec
)]

/// Makes a test of each body, whose parameter is a `Model` of the module.
///
/// The module has a function `argument`, which makes one.
macro_rules! bodies_of_model {
    ($($name:ident |$m:ident| $body:block)*) => {$(
        #[test]
        #[allow(unused, clippy::all)]
        fn $name() {
            #[traced(allow(unused_parameter, recorded_call))]
            fn f($m: &Model) -> Tensor $body
            fn plain($m: &Model) -> Tensor $body
            let companions = Companions {
                call: &|m| f(m),
                vjp: &|m, ct| {
                    let (y, pullback) = f::vjp(m);
                    (y, pullback(ct))
                },
                jvp: &|m, dm| f::jvp(m, dm),
            };
            for _ in 0..2 {
                companions.agree_with_transforms(&plain, &argument()).unwrap();
            }
        }
    )*};
}

mod companions;
mod constants;
mod function_forms;
mod functions_by_name;
mod held;
mod local_trees;
mod mixed_dtypes;
mod natural;
mod natural_code;
mod natural_keys;
mod natural_patterns;
mod natural_state;
mod natural_sums;
mod natural_transforms;
mod operators;
mod parameters;
mod plain_bodies;
mod returned_trees;
mod rules;
mod traits;
pub mod user_code;
mod vmap;
mod warnings;
