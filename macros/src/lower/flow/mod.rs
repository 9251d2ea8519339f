//! Lowers control flow: branches, loops and exits, with the blocks between them.

pub(in crate::lower) mod assemble;
pub(in crate::lower) mod blocks;
pub(in crate::lower) mod branch;
pub(in crate::lower) mod checkpoint;
pub(in crate::lower) mod control;
pub(in crate::lower) mod exit;
pub(in crate::lower) mod iterate;
pub(in crate::lower) mod join;
pub(in crate::lower) mod loops;
pub(in crate::lower) mod slots;
