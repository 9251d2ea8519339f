//! Memory of tensors: buffers and their pool, layouts, element types, scratch.

pub(crate) mod aligned_vec;
pub mod buffer;
pub mod data;
pub mod element;
pub(crate) mod fault;
pub mod half_floats;
pub(crate) mod huge_pages;
pub mod layout;
pub mod pool;
pub mod scratch;
pub(crate) mod words;

pub use aligned_vec::ALIGN;
pub use buffer::Buffer;
pub use data::{Data, DataMut};
pub use element::Element;
pub use layout::{Layout, numel};
