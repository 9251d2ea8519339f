//! `#[traced]` and `#[derive(Tree)]`.
//!
//! Parse, lower, differentiate, expand. Lowering reports every error of the body; expansion cannot fail. On an error
//! the user's item is emitted all the same.

mod derive_tree;
mod dump;
mod expand;
mod lower;
mod parse;
mod report;
#[cfg(test)]
mod tests;
mod traced;

use proc_macro::TokenStream;

/// Differentiates a function, or the methods of an impl block, while rustc compiles it.
///
/// The function stays as it is. Beside it stand its companions: `f::vjp`, `f::jvp`, `f::grad`, `f::value_and_grad`,
/// `f::saved`, `f::PROGRAM` and `f::HASH`; those of a method `forward` are `forward_vjp`, `forward_jvp`, `FORWARD_PROGRAM`
/// and so on. A body without control flow is differentiated at compile time; any other is run and recorded, and
/// `PROGRAM` says so.
///
/// Parameters of type `Tensor` or `&Tensor` are tensors. Numbers, `bool`, strings, `DType`, and lists of them are
/// static: part of the program. Every other type is a tree of tensors. An attribute on a parameter says more:
///
/// - `#[nodiff]`: no derivative is taken with respect to it.
/// - `#[shape(B, 784, _)]`: the shape, of numbers, names and unknown dims; it is checked at compile time.
/// - `#[fixed]`: a static value of a type of your own.
///
/// `#[save]` and `#[recompute]` on a `let` say whether reverse mode keeps that value or computes it again.
///
/// In an impl block the methods that take and return tensors are traced; the others stay alone.
/// `#[traced(record)]` has the body run and recorded even if it is straight-line, which lets it call functions that
/// are not traced. `#[traced(crate = path)]` says where the run time is, if its dependency has been renamed.
#[proc_macro_attribute]
pub fn traced(args: TokenStream, item: TokenStream) -> TokenStream {
    traced::expand(args.into(), item.into()).into()
}

/// Makes a struct or an enum a tree of tensors: a type whose leaves are tensors, such as a model.
///
/// Each field is a tree itself: a tensor, a `Vec`, an array, a tuple, an `Option`, a `Box`, a `BTreeMap`, or a type that
/// derives `Tree`. A field marked `#[tree(skip)]` is no part of the tree; it is cloned.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn tree(input: TokenStream) -> TokenStream {
    derive_tree::derive(input.into()).into()
}
