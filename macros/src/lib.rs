//! The macros `#[traced]` and `#[derive(Tree)]`.
//!
//! The steps are parsing, lowering, differentiation and expansion. Lowering reports every error of
//! the body; expansion cannot fail. The user's item is emitted even if there are errors.

/// `quote!` whose locals are hygienic: user code cannot see them, and they do not see the user's.
macro_rules! ours {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

mod derivative;
mod derive_tree;
mod digest;
mod emit;
mod feature;
mod input;
mod lower;
mod method_table;
mod program;
mod purity;
mod report;
#[cfg(test)]
mod tests;
mod traced;

use proc_macro::TokenStream;

/// Differentiates a function, or the methods of an impl block or of a trait, at compile time.
///
/// ```text
/// #[traced]
/// fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[nodiff] mask: &Tensor, rate: f64) -> Tensor {
///     (x.matmul(w) * mask * rate).tanh()
/// }
/// let (y, pullback) = dense::vjp(&x, &w, &mask, 0.5);
/// let (ct_x, ct_w) = pullback(&y.ones_like());
/// ```
///
/// # Emitted items
///
/// The function itself stays as it is. Its derivatives, the *companions*, are associated items of
/// an enum with the same name. For `fn dense` they are:
///
/// - `dense::vjp(args..)` returns the result and a pullback. The pullback takes the cotangent of
///   the result and returns those of the differentiated parameters: a tuple, or a single value if
///   there is one such parameter.
/// - `dense::jvp((args..), (tangents..))` returns the result and its tangent. Parameters that are
///   not differentiated have no tangent. A single argument or tangent is not wrapped in a tuple.
/// - `dense::grad(args..)` and `dense::value_and_grad(args..)` exist if the result is one tensor,
///   which must have rank 0 at run time. They return a `DenseGrads`, which has a public field for
///   each differentiated parameter (`this` for `self`). `DenseGrads` is a `Tree`, so all gradients
///   can be evaluated or scaled at once. It is `Clone` and `Debug` if its fields are.
/// - `dense::vmap(in_axes, args..)` returns the results for many examples, the *lanes*, along axis 0.
///   `in_axes` has an entry for each parameter that is a tensor, a tree or a key, in a tuple, as in
///   `dense::vmap((0, None, None), &xs, &w, &mask, 0.5)`: the axis of the lanes, or `None` if all
///   lanes share the value. One number is the axis in all of them, and `[("w", None)]` gives axes by
///   name, 0 for the rest. Static parameters have no entry. The axes come first, because the
///   arguments then stand as in a call of `dense`. `VmapAxes::new(in_axes).out_axes(1).axis_size(8)` in
///   the place of `in_axes` chooses axes of results and the number of lanes too.
/// - `dense::saved(args..)` returns the result and a `DenseSaved`, which holds the residuals of
///   reverse mode.
/// - `dense::PROGRAM` is the program as text.
/// - `dense::HASH` is a hash of the source, of the constants that it mentions, and of its traced
///   callees. See `gradloom::Traced::HASH` for what it distinguishes.
/// - `dense::COST` has the operations and bytes of the value and of the pullback, and the bytes of
///   the residuals, as formulas in the named dims. Unknown costs are `None`.
///   `DenseSaved::bytes_for(&[("B", 64)])` returns the bytes of the residuals for given lengths.
/// - `dense::POINTS` lists the named values with file, line and column, and whether each is a
///   residual.
/// - `dense::KERNELS` lists what the loops compute that are compiled with the function and its
///   derivatives.
/// - `dense::RECORDED` is the reason why each call is recorded, in `dense` or in a function that it
///   calls. It is `None` if calls can reuse plans.
///
/// The documentation of the companions, which editors show at a call, lists shapes, residuals,
/// costs and the program.
///
/// For the method `forward` of `Linear` the companions are associated items of `Linear`:
/// `Linear::forward_vjp`, `forward_jvp`, `forward_grad`, `forward_value_and_grad`, `forward_vmap`,
/// where the receiver has the first entry of the axes, `forward_saved`, `FORWARD_PROGRAM`, `FORWARD_HASH`, `FORWARD_COST`, `FORWARD_POINTS`, `FORWARD_KERNELS`,
/// `FORWARD_RECORDED`, and the structs `LinearForwardGrads` and `LinearForwardSaved`.
///
/// In an impl block, a method is traced if it takes a receiver or tensors, and its result type
/// mentions `Tensor`. A method that returns another tree, as in `-> Self`, is traced if it has its
/// own `#[traced]`. Other methods are left alone.
///
/// # Traits
///
/// An impl block of a trait is traced like any other. Its companions are inherent functions of the
/// type, if that is a type of the crate. `#[traced]` on a trait adds hidden functions with default
/// bodies, through which generic callers find out at run time whether an impl is traced. Calls of a
/// generic function can then reuse plans. They do not if the impl is not `#[traced]`.
///
/// # Parameters and results
///
/// The written type of a parameter decides how it is treated:
///
/// - `Tensor` and `&Tensor` are tensors.
/// - Numbers, `bool`, `char`, strings, `DType`, `Key`, ranges, and lists or tuples of them are
///   static: part of the program. Calls that differ only in the bits of a `Key` still share a plan.
/// - Every other type is a tree of tensors: `#[derive(Tree)]` types, `Vec<Tensor>`, arrays, tuples,
///   type parameters with the bound `Tree`. A slice `&[Tensor]` is not a tree, because it has no
///   owned form for the gradient.
///
/// The function returns a tensor, a tuple or another tree, or a `Result` of one. With a `Result`,
/// the function and its companions return errors of ops as `Err`.
///
/// Attributes on a parameter:
///
/// - `#[nodiff]`: the public companions do not differentiate with respect to it. Gradients that a
///   caller computes through a call of the function are not affected: `a.forward(x)` passes a
///   gradient on to the inputs of `x` even if `forward` declares `x` as `#[nodiff]`.
/// - `#[shape(B, 784, _)]`, on a tensor: its shape. A dim is a number, a name, a sum or product of
///   these such as `2 * B + 1`, or unknown. `#[shape(f32; B, 784)]` includes the dtype, and
///   `#[shape(f32; ..)]` gives only the dtype. A shape that is wrong for all values of the names is
///   a compile error. Each call is checked: axes with the same name must have the same length, in
///   the results too. `#[shape(B@data, 784)]` also names the mesh axes that split a dim when
///   `gradloom::sharding::sharded` divides the caller: an axis, a list such as `(data, model)`, or
///   `_` for a dim that propagation may split.
/// - `#[fixed]`: a static value of a user-defined type.
///
/// `#[save]` and `#[recompute]` on a `let` decide whether reverse mode saves that value or
/// recomputes it.
///
/// # Loops and branches
///
/// The companions support loops, branches and exits: `for` over ranges, slices, parts of trees, and
/// their adaptors `iter`, `enumerate`, `zip`, `rev`, `skip`, `take` and the like; `while` and
/// `loop`, on host values and on computed values, as in `while error.item::<f64>() > 1e-9`; `if`,
/// `if let`, `match`; `break`, `continue`, labels, `return`, `?`; assignments to locals in them;
/// closures that are called in place. Values that decide control flow are constants to the
/// derivative. `PROGRAM` shows the control flow: `h := h_1` is an assignment to a local.
///
/// `#[checkpoint(every = k)]` on a loop saves the loop state every `k` iterations, and recomputes
/// the rest in the backward pass. The loop may `break`, but must not leave the function or an outer
/// loop. Host values that it reads must be `Clone`, `Send` and `Sync`, and must not borrow.
///
/// # Bodies traced at run time
///
/// Bodies that the macro cannot analyse are traced at run time instead: for example bodies with a
/// local `Vec` of tensors, with iterator adaptors that take closures, with calls of function
/// values, or with calls of functions that return a struct. The derivatives are the same. `PROGRAM`
/// contains the reason and the line.
///
/// A function that the body calls on tensors must be `#[traced]` too, unless the body is traced at
/// run time.
///
/// # Warnings
///
/// The macro warns about valid code that is probably not intended, at the token in question. All
/// warnings except the last require a body that is differentiated at compile time:
///
/// - `unused_parameter`: no result depends on the values of a differentiated parameter. A leading
///   `_` in its name silences the warning.
/// - `zero_gradient`: the results depend on a parameter only through `argmax`, comparisons,
///   integers, `stop_gradient` and the like, or as labels or indices, whose gradient is an error.
/// - `nan_gradient`: an operand of `select` is the result of `log`, `sqrt`, a quotient or the like,
///   whose slope may be infinite where `select` does not select it.
/// - `large_residual`: a residual has more elements than all arguments together. The shapes must be
///   known.
/// - `recorded_call`: each call of the function is recorded, because the body or a traced callee
///   may have side effects. The warning contains the reason and a remedy. `#[traced(record)]`
///   silences it. Callees, constants and arguments do not cause the warning in generic functions
///   and impl blocks, nor do callees of a body that is traced at run time; see `RECORDED` and
///   `gradloom::events` for these.
///
/// To rustc, the warnings are uses of a deprecated item: `#[allow(deprecated)]` on the function
/// silences all of them, and `#![deny(warnings)]` turns them into errors.
///
/// # Options
///
/// - `#[traced(record)]` traces the body at run time even if it is straight-line, so that it may
///   call functions that are not traced.
/// - `#[traced(pure)]` declares that the body has no side effects: for arguments of the same
///   shapes, structure and static values it records the same ops each time, and does nothing else
///   that must happen at each call. A call with a known key then skips the body. Builds with debug
///   assertions check one in 16 such calls, and panic if the body records something else
///   (`gradloom::testing::check_every_call`). Without `pure`, calls skip the body if all of its
///   host code is known to be pure; `dense::RECORDED` shows the code that is not. A training step
///   becomes one plan if it is a function:
///
///   ```text
///   #[traced(pure, record)]
///   fn step(model: &Mlp, #[nodiff] state: &SgdState<Mlp>, #[nodiff] x: &Tensor) -> (Mlp, SgdState<Mlp>, Tensor) {
///       let (value, grads) = loss::value_and_grad(model, x);
///       let (model, state) = Sgd::default().step(model, &grads.model, state);
///       (model, state, value)
///   }
///   ```
/// - `#[traced(returns(B, 10))]` declares the shape of the result, optionally with a dtype, as in
///   `returns(f32; B, 10)`. In a tuple, each part is in parentheses or is `_`:
///   `returns((B, 10), (), _)`. A method in a traced impl block has its own attribute
///   `#[traced(returns(..))]`.
/// - `#[traced(check)]` emits tests beside the function, in a module `dense_checks`
///   (`linear_forward_checks` for a method). They compare evaluation as one graph with evaluation
///   op by op, the companions with the derivatives that the run time takes, `vjp` with `jvp`, and
///   `jvp` with finite differences. Tensor arguments are sampled in the shapes of `#[shape(..)]`,
///   trees by `gradloom::testing::Sample`. The parts of `check(..)` are `range(x = 0.5..2.0)` for a
///   domain, `classes(labels = 10)` for integers, `value(n = 3)` for a static parameter or any
///   other, `dims(T = 4)` for a named dim, and `skip(finite_differences)` to omit a test. The
///   expressions may use named dims, as in `value(shape = [B, 2])`. A function inside another
///   function cannot be checked, because the test harness does not see it.
/// - `#[traced(order = 2)]` adds a second-order companion if the result is one tensor.
///   `dense::hvp((args..), (tangents..))` takes the arguments of `jvp` and returns two
///   `DenseGrads`: the gradient, and the product of the Hessian with the tangents. For a method the
///   companion is `forward_hvp`. A straight-line body without calls of traced functions is
///   differentiated twice at compile time; otherwise the run time differentiates the reverse-mode
///   companion. `order = 1` is the default. For higher orders, differentiate closures that call
///   companions.
/// - `#[traced(allow(name, ..))]` silences warnings.
/// - `#[traced(crate = path)]` names the `gradloom` crate, if the dependency is renamed.
///
/// `GRADLOOM_DUMP=dense cargo build` prints the program of `dense`, its derivatives and the
/// expansion during compilation. `Mlp::forward` selects a method, and `all` everything.
#[proc_macro_attribute]
pub fn traced(args: TokenStream, item: TokenStream) -> TokenStream {
    on_a_large_stack(|| traced::expand(args.into(), item.into())).into()
}

/// Derives `Tree` for a struct or an enum: a type whose leaves are tensors, such as a model.
///
/// ```text
/// #[derive(Clone, Tree)]
/// struct Mlp {
///     layers: Vec<Linear>,
///     #[tree(skip)]
///     name: String,
/// }
/// ```
///
/// Each field is a tree itself: a tensor, a `Vec`, an array, a tuple, an `Option`, a `Box`, a
/// `BTreeMap`, or a type that derives `Tree`. The type must be `Clone`, and may be generic. Leaves
/// are visited in field order. Messages show their paths, such as `layers[0].w`.
///
/// - `#[tree(skip)]` on a field excludes it from the tree. Skipped fields are cloned.
/// - `#[nodiff]` on a field freezes its leaves: derivatives with respect to them are zero, optimisers
///   keep them, and they need not be floats.
/// - `#[tree(crate = path)]` on the type names the `gradloom` crate, if the dependency is renamed.
#[proc_macro_derive(Tree, attributes(tree, nodiff))]
pub fn tree(input: TokenStream) -> TokenStream {
    on_a_large_stack(|| derive_tree::derive(input.into())).into()
}

/// Bytes of the stack that an expansion runs on. Only the touched pages take memory.
const STACK: usize = 256 << 20;

/// Runs an expansion, which visits nested expressions recursively, on a stack of its own.
fn on_a_large_stack<T>(expand: impl FnOnce() -> T) -> T {
    stacker::grow(STACK, expand)
}
