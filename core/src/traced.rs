//! What `#[traced]` says of a function besides its companions.

/// A traced function: `<dense as Traced>::Saved` is what its pullback keeps.
pub trait Traced {
    /// The residuals: the values between arguments and result that reverse mode keeps.
    type Saved;
    /// The program in its text form.
    const PROGRAM: &'static str;
    /// A hash of the program. Functions of different programs have different hashes.
    const HASH: [u8; 32];
}
