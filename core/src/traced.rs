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
    /// A hash of the program. Functions of different programs have different hashes.
    const HASH: [u8; 32];
    /// What the function and its pullback cost.
    const COST: Cost;
    /// The named values of the function, in the order of the program.
    const POINTS: &'static [Point];
    /// What the loops compute that are compiled with the function, in builds without debug assertions.
    const KERNELS: &'static [&'static str];
    /// Why each call of the function is recorded. `None`, if a call like one before finds its plan and records nothing.
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
