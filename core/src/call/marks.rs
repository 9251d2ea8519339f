//! Markers named like the transforms, as companions are named like traced functions.
//!
//! They tell the macro that `grad` in a body is the one of this library.

use crate::call::facts::{Fact, Facts, NoFacts};

macro_rules! marks {
    ($($name:ident)*) => {$(
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        pub enum $name {
            __TRACED,
        }
        impl Facts for $name {
            const LEVEL_0: Fact = NoFacts::LEVEL_0;
        }
    )*};
}
marks! { grad hessian hvp jacfwd jacrev jvp value_and_grad vjp }
