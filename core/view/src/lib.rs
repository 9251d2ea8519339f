//! Drawings of programs: Graphviz DOT, SVG, and a page for the browser.
//!
//! [`Page`] makes one self-contained HTML document with the graphs of a program and of its pullback,
//! the details of each value, and a plan. [`svg`] and [`dot`] draw a program without details. The
//! binary `gradloom-view` does the same for the text of a program.
//!
//! Everything that comes from a program is escaped.
//!
//! ```
//! use gradloom_view::{Metadata, Page, svg};
//!
//! let program: gradloom_ir::Program = "(x: f32[B, 3]) { y = tanh x return y }".parse()?;
//! let drawing = svg(&program);
//! assert!(drawing.contains("tanh x"));
//! let page = Page::new("tanh").forward(&program, Metadata::new()).html();
//! assert!(page.contains("tanh x"));
//! # Ok::<(), gradloom_ir::text::ParseError>(())
//! ```

mod dot;
mod escape;
mod graph;
mod info;
mod layout;
mod listing;
mod page;
mod sharding;
mod svg;

pub use dot::{dot, dot_of_listing};
pub use info::{Metadata, PlanStep, PlanTable, SourceLine, Statistics, VarInfo};
pub use listing::Listing;
pub use page::Page;
pub use svg::{svg, svg_of_listing};
