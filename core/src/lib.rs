//! Differentiable tensor programs.
