//! Names of the warnings, which `#[traced(allow(..))]` silences.

/// Kind of a warning, silenced by `#[traced(allow(name))]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lint {
    /// No result depends on a parameter.
    UnusedParameter,
    /// A result depends on a parameter only through ops without a derivative.
    ZeroGradient,
    /// A gradient is NaN although `select` seems to prevent it.
    NanGradient,
    /// Reverse mode saves a residual that is larger than all arguments.
    LargeResidual,
    /// Each call of the function is recorded.
    RecordedCall,
}

impl Lint {
    pub(crate) const ALL: [Lint; 5] = [
        Lint::UnusedParameter,
        Lint::ZeroGradient,
        Lint::NanGradient,
        Lint::LargeResidual,
        Lint::RecordedCall,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Lint::UnusedParameter => "unused_parameter",
            Lint::ZeroGradient => "zero_gradient",
            Lint::NanGradient => "nan_gradient",
            Lint::LargeResidual => "large_residual",
            Lint::RecordedCall => "recorded_call",
        }
    }
}
