//! What `#[traced]` says of a function besides its companions.

use crate::Cost;

/// A traced function: `<dense as Traced>::Saved` is what its pullback keeps.
///
/// ```
/// use gradloom::Traced;
/// use gradloom::prelude::*;
///
/// #[traced]
/// fn norm(x: &Tensor) -> Tensor {
///     let total = x.square().sum(..);
///     total.sqrt()
/// }
///
/// fn kept<T: Traced>() -> Vec<&'static str> {
///     T::POINTS.iter().filter(|point| point.saved).map(|point| point.name).collect()
/// }
/// println!("{}", norm::PROGRAM);
/// assert!(norm::PROGRAM.contains("sqrt"));
/// assert_eq!(norm::RECORDED, None);
/// println!("{:?}", kept::<norm>());
/// ```
pub trait Traced {
    /// The residuals: the values between arguments and result that reverse mode keeps.
    type Saved;
    /// The program in its text form.
    const PROGRAM: &'static str;
    /// A hash of the source, which tells apart functions that compute different things.
    ///
    /// It covers:
    ///
    /// - The tokens of the body, and the types, attributes and order of the parameters. Names of locals and parameters, comments
    ///   and layout do not count; a local that a macro call other than `vec!`, `assert!` or `format!` mentions counts by its name.
    /// - The options `record`, `pure` and `returns(..)` of `#[traced]`.
    /// - The values of constants and statics with a name in capitals, if their type is a number, `bool`, `char`, `&str`, `DType`, or
    ///   an array, slice or `Option` of these. Others count by their names, as do constants in patterns and in items
    ///   of the body, `Self::NAME` in a generic impl block, and all constants where the body has a `use` or `cfg`.
    /// - The hashes of all traced functions, associated functions and methods that it calls. A function with control flow
    ///   covers its callees over seven further functions with control flow on one path of calls.
    ///
    /// It does not cover what only a name stands for: functions that are not traced, macros, fields and types, the callees
    /// of a body that is recorded at run time, and methods that a function with type or constant parameters calls.
    const HASH: [u8; 32];
    /// What the function and its pullback cost.
    const COST: Cost;
    /// The named values of the function, in the order of the program.
    const POINTS: &'static [Point];
    /// What the loops compute that are compiled with the function, in builds without debug assertions.
    const KERNELS: &'static [&'static str];
    /// Why each call of the function is recorded, in its own body or in a traced function that it calls. `None`, if a call like
    /// one before finds its plan and records nothing.
    ///
    /// Callees of a body that is recorded at run time are not known, and neither are methods that a function with type or
    /// constant parameters calls.
    const RECORDED: Option<&'static str>;
}

/// A named value of a traced function: an entry of `f::POINTS`.
///
/// A function that is recorded when it runs has none: its values have names only in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The user's name. Of values of one name, those after the first have a number, as in the program.
    pub name: &'static str,
    /// The file in which it is named.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// Whether reverse mode keeps it for the pullback.
    pub saved: bool,
}
