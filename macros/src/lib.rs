//! `#[traced]` and `#[derive(Tree)]`.
//!
//! Parse, lower, differentiate, expand. Lowering reports every error of the body; expansion cannot fail. On an error
//! the user's item is emitted all the same.

mod annotation;
mod args;
mod check;
mod derive_tree;
mod digest;
mod dim;
mod dump;
mod expand;
#[cfg(test)]
mod expansion_time;
#[cfg(test)]
mod generated;
mod generic;
mod half_typed;
mod known;
mod lower;
#[cfg(test)]
mod mutations;
mod order;
mod parse;
mod purity;
mod report;
#[cfg(test)]
mod tests;
mod traced;
mod warn;

use proc_macro::TokenStream;

/// Differentiates a function, or the methods of an impl block, while rustc compiles it.
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
/// # What is emitted
///
/// The function stays as it is. Beside `fn dense` stand:
///
/// - `dense::vjp(args..)`: the result, and a pullback from its cotangent to those of the parameters: a tuple, or the bare
///   value where one parameter is differentiated.
/// - `dense::jvp((args..), (tangents..))`: the result and its tangent. Parameters that are not differentiated have no
///   tangent; one argument or tangent alone stands bare.
/// - `dense::grad(args..)` and `dense::value_and_grad(args..)`, where the result is one tensor: a `DenseGrads`, with a public
///   field for each differentiated parameter (`this` for `self`). At run time it has to be of rank 0. `DenseGrads` is a `Tree`, so
///   all gradients can be evaluated or scaled at once, and `Clone` and `Debug` where its fields are.
/// - `dense::saved(args..)`: the result and a `DenseSaved`, what reverse mode keeps between the two passes.
/// - `dense::PROGRAM`: the program as text.
/// - `dense::HASH`: a hash of the source, of the constants that it names and of its traced callees. `gradloom::Traced::HASH`
///   says what it distinguishes.
/// - `dense::COST`: operations and bytes of the value and of the pullback, and the bytes that are kept between them, as
///   formulas in the named dims; `None` where they are not known. `DenseSaved::bytes_for(&[("B", 64)])` is the last for
///   given lengths.
/// - `dense::POINTS`: the named values, each with its file, line and column, and whether reverse mode keeps it.
/// - `dense::KERNELS`: what the loops compute that are compiled with the function and its derivatives.
/// - `dense::RECORDED`: why each call is recorded, in `dense` or in a function that it calls; `None`, if a call like one before
///   finds its plan.
///
/// Their documentation, which editors show at a call, has the shapes, what is kept, the costs and the program.
///
/// For the method `forward` of `Linear` they are associated items: `Linear::forward_vjp`, `forward_jvp`, `forward_grad`,
/// `forward_value_and_grad`, `forward_saved`, `FORWARD_PROGRAM`, `FORWARD_HASH`, `FORWARD_COST`, `FORWARD_POINTS`, `FORWARD_KERNELS`, `FORWARD_RECORDED`, and the structs `LinearForwardGrads` and
/// `LinearForwardSaved`. In an impl block the methods that take tensors, or a receiver, and whose result is written with `Tensor` are traced. A method that
/// returns another tree, as in `-> Self`, is traced if it has a `#[traced]` of its own; the others stay alone.
/// Methods of a trait cannot be traced; have them call an inherent method.
///
/// # Parameters and results
///
/// A parameter is what its written type says:
///
/// - `Tensor` and `&Tensor` are tensors.
/// - Numbers, `bool`, `char`, strings, `DType`, `Key`, ranges, and lists or tuples of them are static: part of the program.
///   But calls that differ in the words of their keys run the same plan.
/// - Every other type is a tree of tensors: `#[derive(Tree)]` types, `Vec<Tensor>`, arrays, tuples, type parameters
///   with the bound `Tree`. A slice `&[Tensor]` is none: it has no owned form for the gradient.
///
/// The function returns a tensor, a tuple or another tree, or a `Result` of one: then what does not fit comes back as `Err`
/// from the function and from its companions.
///
/// An attribute on a parameter says more:
///
/// - `#[nodiff]`: the public companions take no derivative with respect to it. A gradient that a caller computes through a call
///   of the function is not cut: `a.forward(x)` passes it on to what `x` is computed from, whatever `forward` says of `x`.
/// - `#[shape(B, 784, _)]`, on a tensor: its shape, of numbers, names, sums and products of them such as `2 * B + 1`, and unknown
///   dims. `#[shape(f32; B, 784)]` says the dtype as well, and `#[shape(f32; ..)]` the dtype alone. What is wrong for all values
///   of the names is an error of rustc. Each call is checked: axes with one name have one length, in the results too.
/// - `#[fixed]`: a static value of a type of your own.
///
/// `#[save]` and `#[recompute]` on a `let` say whether reverse mode keeps that value or computes it again.
///
/// # Loops and branches
///
/// The companions hold the loops, branches and exits of the body: `for` over ranges, slices, parts of trees and what `iter`,
/// `enumerate`, `zip`, `rev`, `skip`, `take` and the like make of them; `while` and `loop`, on host values and on values that have
/// been computed, as in `while error.item::<f64>() > 1e-9`; `if`, `if let`, `match`; `break`, `continue`, labels, `return`, `?`;
/// locals that are assigned to in them; closures that are called in place. What steers control flow is a constant to the
/// derivative. `PROGRAM` shows it all: `h := h_1` is an assignment to a local.
///
/// `#[checkpoint(every = k)]` on a loop has reverse mode keep what each `k`-th turn starts from, and run the turns between
/// again. The loop may `break`, and does not leave the function or a loop around it; host values that it reads are `Clone`, `Send`,
/// `Sync` and own what they refer to.
///
/// # What is recorded at run time instead
///
/// A body that cannot be taken apart at compile time is run and recorded by the companions: one with a local `Vec` of tensors,
/// with iterators that take closures, with calls of values, or of a function that returns a struct. The derivatives are the
/// same, and `PROGRAM` says why and names the line.
///
/// A function that the body calls on tensors has to be traced, too, unless the body is recorded.
///
/// # Warnings
///
/// The macro warns of code that runs and is probably not meant, at the token that makes it so. All but the last of these
/// warnings need a body that is differentiated at compile time:
///
/// - `unused_parameter`: no result depends on the values of a differentiated parameter. `_` before its name says that this
///   is meant.
/// - `zero_gradient`: all that a result has of a parameter goes through `argmax`, comparisons, integers, `stop_gradient`
///   and the like.
/// - `nan_gradient`: an operand of `select` is the result of `log`, `sqrt`, a quotient and the like, whose slope may be
///   infinite where `select` does not take it.
/// - `large_residual`: reverse mode keeps a value that has more elements than all arguments together, where the shapes are
///   known.
/// - `recorded_call`: each call of the function is recorded, because the body does more than compute, or because it calls a
///   traced function that does. The warning names the reason and what to write instead. `#[traced(record)]` does not warn. Where types depend on
///   an instance (the function or its impl block has type parameters) a warning for a callee, a constant or an argument is
///   not possible, and in a body that is recorded callees are not known: `RECORDED` and `gradloom::events` tell what is recorded there.
///
/// For rustc they are uses of a deprecated item: `#[allow(deprecated)]` on the function silences them all, and
/// `#![deny(warnings)]` makes errors of them.
///
/// # Options
///
/// - `#[traced(record)]` has the body recorded even if it is straight-line, so that it may call functions that are not traced.
/// - `#[traced(pure)]` says that the body only computes: for arguments of the same shapes, structure and static values it records
///   the same operations each time, and does nothing else that has to happen at each call. Then a call like one before does not run
///   the body, whatever host code it has. A build with debug assertions checks one such call of 16, and panics if the body records
///   something else (`gradloom::testing::check_every_call`). Without `pure`, that is so where all of the host code is known to be pure, and
///   `dense::RECORDED` says what is not. A step of training is one plan if it is a function of its own:
///
///   ```text
///   #[traced(pure, record)]
///   fn step(model: &Mlp, #[nodiff] state: &SgdState<Mlp>, #[nodiff] x: &Tensor) -> (Mlp, SgdState<Mlp>, Tensor) {
///       let (value, grads) = loss::value_and_grad(model, x);
///       let (model, state) = Sgd::default().step(model, &grads.model, state);
///       (model, state, value)
///   }
///   ```
/// - `#[traced(returns(B, 10))]` says the shape of the result, with a dtype where one is known, as in `returns(f32; B, 10)`. Of
///   a tuple each part has parentheses, or is `_`: `returns((B, 10), (), _)`. A method in a traced impl block has an
///   attribute `#[traced(returns(..))]` of its own.
/// - `#[traced(check)]` emits tests beside the function: a module `dense_checks` (`linear_forward_checks` for a method) in
///   which evaluation as one graph is compared with evaluation op by op, the companions with the derivatives that
///   the run time takes, `vjp` with `jvp`, and `jvp` with differences. Arguments are sampled in the shapes of
///   `#[shape(..)]`, trees by `gradloom::testing::Sample`. `check(..)` says the rest: `range(x = 0.5..2.0)` for a domain,
///   `classes(labels = 10)` for integers, `value(n = 3)` for a static parameter or any other, `dims(T = 4)` for a named dim,
///   and `skip(finite_differences)` leaves a test out. The expressions may use named dims, as in `value(shape = [B, 2])`.
///   A function inside another function cannot be checked, because the test harness does not see it.
/// - `#[traced(order = 2)]` adds a companion where the result is one tensor: `dense::hvp((args..), (tangents..))`
///   takes what `jvp` takes and returns two `DenseGrads`, the gradient and its change along the tangents (the product of the
///   Hessian with them); for a method it is `forward_hvp`. A straight line of operations is differentiated twice at
///   compile time; where the body calls traced functions or has control flow, the run time differentiates the companion.
///   `order = 1` is the default. Any other order is that of closures that call companions.
/// - `#[traced(allow(name, ..))]` silences a warning.
/// - `#[traced(crate = path)]` says where the run time is, if its dependency has been renamed.
///
/// `GRADLOOM_DUMP=dense cargo build` prints the program of `dense`, its derivatives and the code while they are compiled.
#[proc_macro_attribute]
pub fn traced(args: TokenStream, item: TokenStream) -> TokenStream {
    traced::expand(args.into(), item.into()).into()
}

/// Makes a struct or an enum a tree of tensors: a type whose leaves are tensors, such as a model.
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
/// Each field is a tree itself: a tensor, a `Vec`, an array, a tuple, an `Option`, a `Box`, a `BTreeMap`, or a type that
/// derives `Tree`. The type has to be `Clone`, and may be generic. Leaves are visited in the order of the fields; their paths,
/// such as `layers[0].w`, stand in messages.
///
/// - `#[tree(skip)]` on a field: it is no part of the tree; it is cloned.
/// - `#[tree(crate = path)]` on the type says where the run time is, if its dependency has been renamed.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn tree(input: TokenStream) -> TokenStream {
    derive_tree::derive(input.into()).into()
}
