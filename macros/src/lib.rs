//! `#[traced]` and `#[derive(Tree)]`.
