//! Markers named like the transforms, as companions are named like traced functions.
//!
//! They tell the macro that `grad` in a body is the one of this library.

use crate::tree::marks;

marks! {
    associative_scan checkpoint cond custom_jvp custom_vjp fori_loop grad hessian hvp jacfwd jacrev jvp linear_transpose linearize map scan switch value_and_grad vjp vmap while_loop
}
