//! Parses and expands one function or method.

use super::attributes::{misplaced, misspelt, strip_attributes};
use super::companions::{NO_TENSOR, companions, facts_of_builder};
use super::wrap_body::wrap_body;
use crate::digest::Digest;
use crate::emit::CachedCallEmitter;
use crate::emit::names::ItemNames;
use crate::emit::rule;
use crate::feature::lint;
use crate::feature::selftest::selftest_items;
use crate::feature::trace_points::instrument;
use crate::input;
use crate::input::Lint;
use crate::input::args::Args;
use crate::input::fallback;
use crate::input::{Func, Kind, Owner, Param};
use crate::lower;
use crate::program::Body;
use crate::report::Errors;
use gradloom_ir::Aval;
use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Block, ImplItemFn, ItemFn, Signature, Visibility};

/// Maximum number of lengths in a tuple that is a shape.
const LONGEST_TUPLE: usize = 8;

/// Function or method as the user wrote it.
pub(super) struct UserItem<'a> {
    vis: &'a Visibility,
    sig: &'a mut Signature,
    block: &'a mut Block,
    attrs: &'a mut Vec<Attribute>,
}

impl<'a> UserItem<'a> {
    pub(super) fn function(func: &'a mut ItemFn) -> Self {
        UserItem {
            vis: &func.vis,
            sig: &mut func.sig,
            block: &mut func.block,
            attrs: &mut func.attrs,
        }
    }

    pub(super) fn method(method: &'a mut ImplItemFn) -> Self {
        UserItem {
            vis: &method.vis,
            sig: &mut method.sig,
            block: &mut method.block,
            attrs: &mut method.attrs,
        }
    }

    /// Creates the item of a method of a trait with this default body.
    pub(super) fn default_method(
        sig: &'a mut Signature,
        attrs: &'a mut Vec<Attribute>,
        block: &'a mut Block,
    ) -> Self {
        UserItem {
            vis: &Visibility::Inherited,
            sig,
            block,
            attrs,
        }
    }

    /// Parses the signature, and removes the macro's attributes and misplaced ones.
    pub(super) fn read(&mut self, owner: Option<Owner>, errors: &mut Errors) -> Func {
        parenthesise(self.block);
        mixed_shapes(self.block);
        misplaced(self.attrs, errors);
        misspelt(self.block, errors);
        input::signature(self.vis, self.attrs, self.sig, owner, errors)
    }

    /// Leaves the function as it is, without companions.
    pub(super) fn leave(self) {
        strip_attributes(self.block);
    }
}

/// Expansion of one function.
pub(super) struct ItemExpansion {
    pub(super) body: Body,
    /// Items beside the function or the impl block.
    pub(super) items: TokenStream,
    /// Hidden method with the user's body, for the same impl block. A cached call does not run it.
    pub(super) beside: Option<TokenStream>,
    /// Items that cause warnings.
    pub(super) warnings: TokenStream,
}

/// Emits the companions, and wraps the user's body; `outer` are the attributes of the impl block.
pub(super) fn emit(
    func: &Func,
    written: UserItem<'_>,
    args: &Args,
    rt: &TokenStream,
    outer: &[Attribute],
    errors: &mut Errors,
) -> ItemExpansion {
    let UserItem {
        sig, block, attrs, ..
    } = written;
    let body = body(func, block, args, rt, errors);
    let mut plain = block.clone();
    strip_attributes(&mut plain);
    let calls = CachedCallEmitter::new(func, (block, &plain), &body, args, rt);
    let digest = Digest::new(func, block, args);
    let tokens = companions(func, &body, rt, &plain, &digest, &calls);
    let warnings = match errors.is_empty() {
        true => warnings(func, block, &body, args, outer, &tokens.causes),
        false => TokenStream::new(),
    };
    strip_attributes(block);
    if errors.is_empty() && fallback::unparsed(block).is_none() {
        instrument(func, block, rt);
    }
    if let Some(option) = &args.rule {
        rule::apply(option, func, block, rt, errors);
        // The body declares its own arguments.
        attrs.push(syn::parse_quote!(#[allow(unused_mut)]));
    }
    let beside = wrap_body(
        func,
        &calls,
        tokens.register,
        (sig, block, attrs),
        rt,
        errors,
    );
    attrs.push(used());
    if func.params.iter().any(borrows_a_vec) {
        attrs.push(syn::parse_quote!(#[allow(clippy::ptr_arg)]));
    }
    ItemExpansion {
        body,
        items: tokens.items,
        beside,
        warnings,
    }
}

/// Returns the facts of a method that makes a tree from no tensors, or a number, for its callers.
///
/// It runs as it is written; if it may have side effects, so may the call that is being recorded.
pub(super) fn builder(
    method: &mut ImplItemFn,
    owner: Owner,
    args: &Args,
    rt: &TokenStream,
) -> TokenStream {
    let mut copy = method.clone();
    let mut written = UserItem::method(&mut copy);
    let func = written.read(Some(owner), &mut Errors::default());
    let mut plain = written.block.clone();
    strip_attributes(&mut plain);
    let own = ItemNames::new(&func).own_facts;
    method.block.stmts.insert(
        0,
        syn::parse_quote! {
            if const { ::core::option::Option::is_some(&Self::#own.or(::core::option::Option::None)) } {
                #rt::impure();
            }
        },
    );
    facts_of_builder(&func, (written.block, &plain), args, rt)
}

/// Wraps the body of a method that has no companions.
pub(super) fn emit_body(
    func: &mut Func,
    written: UserItem<'_>,
    args: &Args,
    rt: &TokenStream,
    errors: &mut Errors,
) {
    let UserItem {
        sig, block, attrs, ..
    } = written;
    for param in func.params.iter_mut().filter(|p| p.aval != Aval::UNKNOWN) {
        errors.push(
            &param.ident,
            "the shapes of a method without companions are not checked; remove `#[shape(..)]`",
        );
        param.aval = Aval::UNKNOWN;
    }
    let body = Body::Recorded("it has no companions".to_owned());
    let mut plain = block.clone();
    strip_attributes(&mut plain);
    let calls = CachedCallEmitter::new(func, (block, &plain), &body, args, rt);
    strip_attributes(block);
    if errors.is_empty() && fallback::unparsed(block).is_none() {
        instrument(func, block, rt);
    }
    let beside = wrap_body(func, &calls, None, (sig, block, attrs), rt, errors);
    debug_assert!(beside.is_none(), "the body stays in place");
}

/// Returns the tests of `#[traced(check)]`.
pub(super) fn tests(
    funcs: &[&Func],
    args: &Args,
    rt: &TokenStream,
    errors: &mut Errors,
) -> TokenStream {
    let Some(check) = &args.selftest else {
        return TokenStream::new();
    };
    let mut wrong = Errors::default();
    let funcs = funcs.iter().copied().filter(|func| func.has_derivative());
    let funcs = &*Vec::from_iter(funcs);
    check.refuse_unknown(funcs, &mut wrong);
    let samplings = funcs
        .iter()
        .map(|func| (func, check.sampling(func, &mut wrong)));
    let samplings: Vec<_> = samplings.collect();
    // After an error only the user's item is emitted, without tests.
    let ready = errors.is_empty() && wrong.is_empty();
    errors.append(wrong);
    let tests = samplings.into_iter().filter_map(|(func, sampling)| {
        let sampling = sampling.filter(|_| ready)?;
        Some(selftest_items(func, &sampling, rt))
    });
    tests.collect()
}

/// Lowers the body.
fn body(
    func: &Func,
    block: &syn::Block,
    args: &Args,
    rt: &TokenStream,
    errors: &mut Errors,
) -> Body {
    if !func.takes_tensors() {
        return Body::Recorded(NO_TENSOR.to_owned());
    }
    if args.record && errors.is_empty() {
        return Body::Recorded("`#[traced(record)]` requests it".to_owned());
    }
    if args.rule.is_some() && errors.is_empty() {
        return Body::Recorded("it has a rule for its derivative".to_owned());
    }
    if fallback::unparsed(block).is_some() {
        return Body::Recorded("its body does not parse".to_owned());
    }
    lower::lower(func, block, rt, errors)
}

/// Returns the items that cause warnings; `attrs` are those of the impl block.
fn warnings(
    func: &Func,
    block: &syn::Block,
    body: &Body,
    args: &Args,
    attrs: &[Attribute],
    causes: &[lint::Cause],
) -> TokenStream {
    let attrs = attrs.iter().chain(&func.attrs).cloned();
    let attrs: Vec<Attribute> = attrs.collect();
    let mut found = lint::warnings(func, block, body, &args.allow);
    // `#[traced(record)]` expresses intent, and a body that does not parse is probably being typed.
    let is_meant = args.record || args.rule.is_some() || fallback::unparsed(block).is_some();
    if !is_meant && !args.allow.contains(&Lint::RecordedCall) {
        found.extend(lint::recorded_calls(func, causes));
    }
    lint::tokens(&found, &attrs)
}

/// Adds parentheses around expressions grouped by a `macro_rules!`, as in `x * $e`.
///
/// rustc discards such invisible groups in the output of an attribute macro, and operator
/// precedence would change the meaning.
fn parenthesise(block: &mut syn::Block) {
    struct GroupParenthesiser;
    impl syn::visit_mut::VisitMut for GroupParenthesiser {
        fn visit_expr_mut(&mut self, expr: &mut syn::Expr) {
            syn::visit_mut::visit_expr_mut(self, expr);
            let syn::Expr::Group(group) = expr else {
                return;
            };
            let inner = (*group.expr).clone();
            *expr = match inner {
                syn::Expr::Path(_)
                | syn::Expr::Lit(_)
                | syn::Expr::Paren(_)
                | syn::Expr::Tuple(_)
                | syn::Expr::Array(_)
                | syn::Expr::Call(_)
                | syn::Expr::MethodCall(_)
                | syn::Expr::Field(_)
                | syn::Expr::Index(_)
                | syn::Expr::Macro(_) => inner,
                inner => syn::parse_quote_spanned!(Span::mixed_site()=> (#inner)),
            };
        }
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut GroupParenthesiser, block);
}

/// Makes a tuple of an array of lengths with `-1` in it, as in `x.reshape([n, -1])`.
///
/// A length is a `usize`, so the array has no type, but a tuple of different integers is a shape.
fn mixed_shapes(block: &mut syn::Block) {
    struct ShapeRewriter;
    impl syn::visit_mut::VisitMut for ShapeRewriter {
        fn visit_expr_method_call_mut(&mut self, call: &mut syn::ExprMethodCall) {
            syn::visit_mut::visit_expr_method_call_mut(self, call);
            if call.method != "reshape" {
                return;
            }
            let Some(shape @ syn::Expr::Array(_)) = call.args.first_mut() else {
                return;
            };
            let syn::Expr::Array(array) = &*shape else {
                unreachable!("the shape is an array")
            };
            let mixed = array.elems.iter().any(is_negative)
                && !array
                    .elems
                    .iter()
                    .all(|e| is_negative(e) || matches!(e, syn::Expr::Lit(_)));
            if mixed && array.elems.len() <= LONGEST_TUPLE {
                let elems = &array.elems;
                *shape = syn::parse_quote_spanned!(array.bracket_token.span.join()=> (#elems));
            }
        }
    }
    fn is_negative(elem: &syn::Expr) -> bool {
        matches!(elem, syn::Expr::Unary(u) if matches!(u.op, syn::UnOp::Neg(_)) && matches!(&*u.expr, syn::Expr::Lit(_)))
    }
    syn::visit_mut::VisitMut::visit_block_mut(&mut ShapeRewriter, block);
}

/// Returns whether a parameter is a `&Vec` of trees.
///
/// It cannot be a slice, which has no owned form for the gradient.
fn borrows_a_vec(param: &Param) -> bool {
    let is_vec = |ty: &syn::Type| match ty {
        syn::Type::Path(p) => p.path.segments.last().is_some_and(|s| s.ident == "Vec"),
        _ => false,
    };
    param.kind == Kind::Tree && param.by_ref && is_vec(&param.owned)
}

/// Returns an attribute that allows the function to be unused, because only its companions may be
/// called.
fn used() -> Attribute {
    syn::parse_quote!(#[allow(dead_code)])
}
