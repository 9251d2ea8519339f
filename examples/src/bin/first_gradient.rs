//! The README's example.
fn main() {}
