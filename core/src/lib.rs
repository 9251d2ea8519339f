//! Differentiable tensor programs: derivatives at compile time, lazy evaluation with a plan cache.
//!
//! A [`Tensor`] is a cheap handle to an array that may not be computed yet. Operations on tensors
//! return promises. Reading a tensor computes it, together with everything it depends on, by a plan
//! that is cached for the next time:
//!
//! ```
//! use gradloom::prelude::*;
//! let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! let y = (&x * 2.0 + 1.0).sum(-1); // a promise
//! assert_eq!(y.shape(), [2]);       // its shape is known all the same
//! assert_eq!(y.to_vec::<f32>(), [8.0, 16.0]);
//! ```
//!
//! Reading a value also computes the values it depends on that the program still holds, such as the
//! model or the optimiser state behind a loss. Nothing is computed twice, and each iteration of a
//! loop that reads its loss takes the same time. [`evaluate`] computes several tensors by one plan
//! without reading them. A loop that reads nothing is computed in pieces, so its pending work is
//! bounded. Operands that do not fit panic at the line of the call.
//!
//! # Traced functions
//!
//! [`#[traced]`](macro@traced) differentiates a function while rustc compiles it. The derivatives
//! are available under the name of the function:
//!
//! ```
//! use gradloom::prelude::*;
//!
//! #[traced]
//! fn loss(#[shape(B, I)] x: &Tensor, #[shape(I)] w: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
//!     (x.matmul(w) - target).square().mean(..)
//! }
//!
//! let x = Tensor::from([[1.0f32, 0.0], [0.0, 1.0]]);
//! let w = Tensor::from([1.0f32, 2.0]);
//! let target = Tensor::from([0.0f32, 0.0]);
//! let (value, grads) = loss::value_and_grad(&x, &w, &target);
//! assert_eq!(value.item::<f32>(), 2.5);
//! assert_eq!(grads.w.to_vec::<f32>(), [1.0, 2.0]); // a field for each parameter
//! ```
//!
//! # Trees
//!
//! Arguments, results and gradients may be tuples, `Vec`s, maps and structs of tensors.
//! `#[derive(Tree)]` implements [`Tree`] for a model, and `#[traced]` works on its methods:
//!
//! ```
//! use gradloom::prelude::*;
//!
//! #[derive(Clone, Tree)]
//! struct Linear {
//!     w: Tensor,
//!     b: Tensor,
//! }
//!
//! #[traced]
//! impl Linear {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         x.matmul(&self.w) + &self.b
//!     }
//! }
//!
//! let [key, data] = Key::new(0).split_n();
//! let model = Linear { w: key.normal([3, 2], DType::F32), b: Tensor::zeros([2], DType::F32) };
//! let x = data.normal([4, 3], DType::F32);
//! assert_eq!(model.forward(&x).shape(), [4, 2]);
//! ```
//!
//! # Transforms
//!
//! [`vjp`], [`jvp`], [`grad`], [`value_and_grad`], [`hvp`], [`jacfwd`], [`jacrev`] and [`hessian`]
//! take closures, which they run and record. They nest, and the closures may call traced functions.
//! Several arguments are passed as a tuple:
//!
//! ```
//! use gradloom::prelude::*;
//! let x = Tensor::from(2.0f64);
//! let cube = |x: &Tensor| x * x * x;
//! assert_eq!(grad(cube)(&x).item::<f64>(), 12.0);
//! assert_eq!(grad(grad(cube))(&x).item::<f64>(), 12.0);
//! assert_eq!(hessian(cube)(&x).item::<f64>(), 12.0);
//! let product = |(x, y): &(Tensor, Tensor)| x * y;
//! let (dx, dy) = grad(product)(&(x, Tensor::from(5.0f64)));
//! assert_eq!((dx.item::<f64>(), dy.item::<f64>()), (5.0, 2.0));
//! ```
//!
//! # Training
//!
//! A [`Key`] gives random numbers once, see [`random`]. An optimiser maps parameters and their
//! gradients to the next parameters, see [`optim`]:
//!
//! ```
//! use gradloom::optim::Adam;
//! use gradloom::prelude::*;
//!
//! #[traced]
//! fn loss(w: &Tensor, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
//!     (x.matmul(w) - y).square().mean(..)
//! }
//!
//! let x = Key::new(0).normal([20, 2], DType::F32);
//! let y = x.matmul(&Tensor::from([1.0f32, -2.0]));
//!
//! let adam = Adam { lr: 0.1, ..Adam::default() };
//! let mut w = Tensor::zeros([2], DType::F32);
//! let mut state = adam.init(&w);
//! for _ in 0..200 {
//!     let grads = loss::grad(&w, &x, &y);
//!     (w, state) = adam.step(&w, &grads.w, &state);
//! }
//! assert!(loss(&w, &x, &y).item::<f32>() < 1e-3);
//! ```
//!
//! # Inspecting plans
//!
//! A step that repeats an earlier one plans nothing. [`events`] records what was traced, planned,
//! found in the [`cache`] and run, and [`explain`] prints the plan of a result:
//!
//! ```
//! use gradloom::events::{self, Event};
//! use gradloom::prelude::*;
//!
//! let step = |x: &Tensor| evaluate(&grad(|x: &Tensor| x.square().sum(..))(x));
//! step(&Tensor::from([1.0f32, 2.0]))?;
//! let (result, log) = events::record(|| step(&Tensor::from([3.0f32, 4.0])));
//! result?;
//! assert!(log.iter().any(|event| matches!(event, Event::Hit { .. })));
//! assert!(!log.iter().any(|event| matches!(event, Event::Planned { .. })));
//! # Ok::<(), Error>(())
//! ```
//!
//! # Overview
//!
//! - [`prelude`]: the items that most programs use.
//! - [`Tensor`] has the operations as methods. [`Tree`] is the trait of models, arguments and
//!   results. [`evaluate()`] computes several tensors together.
//! - [`macro@traced`] differentiates functions at compile time. [`grad`], [`vjp`], [`jvp`] and
//!   their relatives differentiate closures at run time.
//! - [`tree`](mod@tree): arithmetic on whole trees, norms, comparisons, summaries.
//! - [`sharding`]: meshes of devices, functions that they compute together, programs for each of them.
//! - [`optim`]: optimisers. [`random`]: random numbers.
//! - [`testing`] checks derivatives; `#[traced(check)]` generates tests that do.
//! - [`engine`]: eager evaluation with a graph, or op by op.
//! - [`events`], [`cache`], [`explain`]: observe and limit the plans of the run time.
//!   [`set_threads`]: sets the number of threads.
//! - `dump`, with the feature `trace`: writes tensors and the named values of traced functions to disk.
//! - [`release_memory`] frees the buffers that are cached for later results, and [`set_kept_memory`] limits them.
//!   [`set_memory_limit`]: limits the memory of an evaluation, by computing values again.
//! - [`report()`] tells how often traced functions were planned or recorded, why, and how long they
//!   ran.
//! - [`Error`]: the error type. An error is a panic at the line of the call, or an `Err` inside of
//!   a function that returns [`Result`] and is traced or differentiated.

#![forbid(unsafe_code)]

extern crate self as gradloom;

#[doc(hidden)]
#[path = "private/mod.rs"]
pub mod __private;
mod annotation;
mod aval;
mod backend;
pub mod cache;
mod call;
mod check;
mod composites;
mod cost;
pub mod custom;
pub mod defaults;
#[cfg(feature = "trace")]
pub mod dump;
mod element;
pub mod engine;
mod error;
mod evaluate;
pub mod events;
mod function;
mod graph;
mod observe;
pub mod optim;
mod param;
mod plan;
mod points;
mod profile;
mod raise;
pub mod random;
mod recycle;
pub mod report;
pub mod sharding;
mod statics;
mod tensor;
pub mod testing;
pub mod trace;
mod traced;
mod transform;
pub mod tree;

pub use __private::SavedCotangents;
pub use aval::Aval;
pub use cache::set_memory_limit;
pub use cost::{Cost, Formula, Term, Work};
pub use custom::{CustomFunction, FunctionContext, custom_call};
pub use element::Element;
pub use error::{
    AnnotationFault, Anomaly, BackwardFault, CustomFault, Error, Phase, PrefixFault, Result,
    ShardingFault, TraceFault, VmapFault,
};
pub use evaluate::{Targets, evaluate, explain};
pub use gradloom_ir::DType;
pub use gradloom_kernels::memory::pool::{release_memory, set_kept_memory};
pub use gradloom_kernels::threads::{set_threads, threads};
pub use gradloom_macros::{Tree, traced};
pub use half::{bf16, f16};
pub use observe::detect_anomaly;
pub use param::{Backward, GradFn, GradHook, NoGrad, Param, no_grad, with_grad_hook};
pub use profile::{KernelTime, Profile, profile};
pub use random::{FoldIn, Key};
pub use report::report;
pub use statics::IntoStatic;
pub use tensor::{
    AxisIndex, Branch, IntoAxisIndex, IntoIndex, IntoShape, NewAxis, Operand, RangeStep, Rest,
    Tensor,
};
pub use traced::{Point, Traced};
pub use transform::{
    AssociativeScan, Checkpoint, ForwardLevel, JacobianRows, JacobianTree, LaneAxes, LoopIndex,
    Loss, Outcome, Pullback, Pushforward, Scan, Vmap, VmapAxes, associative_scan, checkpoint, cond,
    custom_jvp, custom_vjp, fori_loop, grad, hessian, hvp, jacfwd, jacrev, jvp, linear_transpose,
    linearize, map, scan, switch, value_and_grad, vjp, vmap, while_loop,
};
pub use tree::Tree;

#[doc(hidden)]
pub use call::marks::*;

/// Items that most programs use: `use gradloom::prelude::*`.
///
/// [`Result`] has a type parameter for the error, so `Result<T, E>` still means the same where the
/// prelude is in scope.
pub mod prelude {
    pub use crate::optim::Optimiser;
    pub use crate::traced;
    pub use crate::{Aval, DType, Element, Error, Key, Result, Tensor, Tree};
    pub use crate::{evaluate, grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp, vmap};
}
