//! Facts about a traced function that are known at compile time.

use crate::Cost;

/// Compile-time description of a traced function: `<dense as Traced>::Saved` are its residuals.
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
    /// Type of the residuals: the intermediate values that reverse mode saves.
    type Saved;
    /// Program in text form.
    const PROGRAM: &'static str;
    /// Hash of the source. Functions that compute different results have different hashes.
    ///
    /// It covers:
    ///
    /// - The tokens of the body, and the types, attributes and order of the parameters. Names of
    ///   locals and parameters, comments and layout do not count. The name of a local counts if a
    ///   macro call other than `vec!`, `assert!` or `format!` mentions it.
    /// - The options `record`, `pure` and `returns(..)` of `#[traced]`.
    /// - The values of constants and statics with upper-case names, if their type is a number,
    ///   `bool`, `char`, `&str`, `DType`, or an array, slice or `Option` of these.
    /// - The names, but not the values, of other constants, of constants in patterns and in items
    ///   of the body, and of `Self::NAME` in a generic impl block. If the body contains `use` or
    ///   `cfg`, this is so for all constants.
    /// - The hashes of all traced functions, associated functions and methods that it calls. Below a
    ///   function with control flow, a call path is followed through at most seven further functions
    ///   with control flow.
    ///
    /// It does not cover items that are known only by name: functions that are not traced, macros,
    /// fields and types, associated constants of types other than `Self`, and methods that a
    /// function with type or constant parameters calls.
    const HASH: [u8; 32];
    /// Cost of the function and of its pullback.
    const COST: Cost;
    /// Named values of the function, in program order.
    const POINTS: &'static [Point];
    /// Descriptions of the loops that are compiled with the function.
    ///
    /// They exist in builds without debug assertions.
    const KERNELS: &'static [&'static str];
    /// Reason why every call is recorded, in this function or in a traced function that it calls.
    ///
    /// `None` if repeated calls reuse their plan and record nothing.
    ///
    /// Not known, and so not part of the reason: methods that a function with type or constant
    /// parameters calls, constants of its type parameters, and skipped fields of arguments whose
    /// type is not `Eq` and `Clone`. `report()` names those calls.
    const RECORDED: Option<&'static str>;
}

/// Named value of a traced function: an entry of `f::POINTS`.
///
/// A function that is recorded at run time has no points, because its program is not known at
/// compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Name in the source. Later values of the same name have a number appended, as in the program.
    pub name: &'static str,
    /// File that contains the name.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// True if reverse mode saves the value for the pullback.
    pub saved: bool,
}
