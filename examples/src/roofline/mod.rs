//! Measures every op of the op table, its derivatives and compositions against the limits of the machine.
//!
//! [`Limits`] measures the limits, [`Templates`] makes cases from the op table, and [`measure`] times them. A *cell* is
//! one case: an op or a composition, a transform, a dtype, an axis, a layout and a size. [`report`](summary) prints
//! the cells, and [`heat_map`] draws them.

mod cells;
mod compositions;
mod formula;
mod layout;
mod limits;
mod measure;
mod picture;
mod report;
mod template;
mod work;

pub use cells::{Cell, Measured, Options, Outcome, Size, Table, measure_all as measure};
pub use compositions::{COMPOSITIONS, Composition};
pub use formula::Transform;
pub use layout::Layout;
pub use limits::{Limits, Machine, Place};
pub use picture::heat_map;
pub use report::{summary, tab_separated};
pub use template::Templates;
pub use work::{Bound, Work};
