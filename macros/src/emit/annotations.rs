//! Emits the table of a function's annotations and the calls that check it.
//!
//! The checks run at the start of the user's function and of its companions, and on their results. Tensors with mesh axes
//! in their annotations are placed after the checks.

use super::names::ItemNames;
use crate::input::{Func, Kind, OutShape, Param, SplitArg};
use gradloom_ir::{Aval, Dim, Poly, Symbol};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::ToTokens;
use syn::{Block, Expr, FnArg, Index, Pat, ReturnType, Stmt};

/// Annotation checks of one function.
pub(crate) struct Checks<'a> {
    func: &'a Func,
    rt: &'a TokenStream,
    /// The table, and the name of the constant that holds it.
    table: TokenStream,
    name: TokenStream,
    n_lengths: usize,
    /// The annotated arguments.
    arguments: Vec<&'a Param>,
    /// Paths of the annotated tensors in the result, and whether mesh axes split them.
    results: Vec<(Vec<Index>, bool)>,
}

/// Length that several axes may share, with the axis that binds it.
struct Length {
    dim: Dim,
    of_result: bool,
    index: usize,
    axis: usize,
}

/// Place that a panic in the user's function reports, as the user wrote it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum PanicPlace {
    /// The function has `#[track_caller]`.
    Caller,
    Function,
}

/// Place of the body of the user's function.
#[derive(Clone, Copy)]
pub(crate) enum BodyPlace {
    /// In the function.
    Inside,
    /// In a function of its own, which the function calls.
    Aside,
}

impl<'a> Checks<'a> {
    /// Returns the checks of `func`, or `None` if nothing is annotated.
    pub(crate) fn new(func: &'a Func, rt: &'a TokenStream) -> Option<Checks<'a>> {
        // An argument bound by a pattern has no name by which the user's function could check it.
        let annotated = func
            .params
            .iter()
            .filter(|p| p.kind == Kind::Tensor && p.aval != Aval::UNKNOWN && !p.pattern);
        let params: Vec<_> = annotated.collect();
        let mut paths = Vec::new();
        leaves(&func.output.shape, &mut Vec::new(), &mut paths);
        let declared = func.declared.iter().zip(paths).enumerate();
        let declared: Vec<_> = declared
            .filter(|(_, (d, _))| d.aval != Aval::UNKNOWN)
            .collect();
        if params.is_empty() && declared.is_empty() {
            return None;
        }
        let mut lengths = Vec::new();
        let avals: Vec<&Aval> = params.iter().map(|p| &p.aval).collect();
        bind(&avals, false, &mut lengths);
        let result_avals: Vec<&Aval> = declared.iter().map(|(_, (d, _))| &d.aval).collect();
        let n_of_arguments = lengths.len();
        bind(&result_avals, true, &mut lengths);
        let argument_rows = params.iter().map(|param| {
            let what = format!("`{}`", param.name);
            row(
                rt,
                &what,
                (&param.aval, &param.splits[..]),
                &lengths[..n_of_arguments],
            )
        });
        let result_rows = declared.iter().map(|(i, (d, _))| {
            let what = match func.declared.len() {
                1 => "the result".to_owned(),
                _ => format!("result {i}"),
            };
            row(rt, &what, (&d.aval, &d.splits[..]), &lengths)
        });
        let length_rows = lengths.iter().map(|length| {
            let (text, of_result, index, axis) = (
                length.dim.to_string(),
                length.of_result,
                length.index,
                length.axis,
            );
            ours!(#rt::Length { text: #text, of_result: #of_result, index: #index, axis: #axis })
        });
        let (function, user) = (func.name(), &func.sig.ident);
        let constant = ItemNames::new(func).annotations;
        let table = ours! {
            #rt::Annotations {
                function: #function,
                lengths: &[#(#length_rows),*],
                arguments: &[#(#argument_rows),*],
                results: &[#(#result_rows),*],
            }
        };
        let results = declared.into_iter();
        let results = results.map(|(_, (d, path))| (path, !d.splits.is_empty()));
        Some(Checks {
            func,
            rt,
            table,
            name: match func.owner {
                Some(_) => ours!(Self::#constant),
                None => ours!(#user::#constant),
            },
            n_lengths: lengths.len(),
            results: results.collect(),
            arguments: params,
        })
    }

    /// Returns the associated constant with the table.
    pub(crate) fn item(&self) -> TokenStream {
        let (rt, table, name) = (self.rt, &self.table, ItemNames::new(self.func).annotations);
        ours! {
            #[doc(hidden)]
            const #name: #rt::Annotations = #table;
        }
    }

    /// Returns the statements that check and place the arguments.
    fn enter(&self) -> TokenStream {
        let (rt, name, n) = (self.rt, &self.name, self.n_lengths);
        let n = Literal::usize_unsuffixed(n);
        let arguments = self.arguments.iter().map(|p| super::cx::reference(p));
        let check = match self.results.is_empty() {
            true => ours!(#rt::check_call::<#n>(&#name, &[#(#arguments),*]);),
            false => {
                ours!(let lengths = #rt::check_arguments::<#n>(&#name, &[#(#arguments),*]);)
            }
        };
        let places = self.arguments.iter().enumerate();
        let places = places.filter(|(_, param)| !param.splits.is_empty());
        let places = places.map(|(i, param)| {
            let ident = &param.ident;
            let borrow = param.by_ref.then(|| ours!(&));
            let mutable = self.is_mutable(ident).then(|| ours!(mut));
            let i = Literal::usize_unsuffixed(i);
            // An argument by value is moved, so that its buffer can be donated.
            ours!(let #mutable #ident = #borrow #rt::place_argument(&#name, #i, #ident);)
        });
        ours!(#check #(#places)*)
    }

    /// Returns whether the user's function may assign to a parameter.
    fn is_mutable(&self, ident: &Ident) -> bool {
        let mut inputs = self.func.sig.inputs.iter();
        inputs.any(|input| {
            matches!(input, FnArg::Typed(typed) if matches!(&*typed.pat,
                Pat::Ident(pat) if pat.ident == *ident && pat.mutability.is_some()))
        })
    }

    /// Returns the statements that check and place the result; they follow the statements of `enter`. `whole` is
    /// the result, and `y` the result or a reference to it.
    fn leave(&self, y: &Ident, whole: &TokenStream) -> Option<TokenStream> {
        if self.results.is_empty() {
            return None;
        }
        let (rt, name) = (self.rt, &self.name);
        let results = self.results.iter().map(|(path, _)| ours!(&#y #(.#path)*));
        let places = self.results.iter().enumerate();
        let places = places.filter(|(_, (_, is_split))| *is_split);
        let places = places.map(|(i, (path, _))| {
            let part = match path.is_empty() {
                true => whole.clone(),
                false => ours!(#y #(.#path)*),
            };
            let i = Literal::usize_unsuffixed(i);
            ours!(#part = #rt::place_result(&#name, #i, &#part);)
        });
        Some(ours!(#rt::check_results(&#name, &lengths, &[#(#results),*]); #(#places)*))
    }

    /// Returns `mut` if a result is placed.
    fn mutable(&self) -> Option<TokenStream> {
        let is_placed = self.results.iter().any(|(_, is_split)| *is_split);
        is_placed.then(|| ours!(mut))
    }

    /// Wraps the body of a companion in the checks; the body's value is a tuple that starts with
    /// the result.
    ///
    /// The companion is `#[track_caller]` so that failed checks report the caller. The body is a
    /// closure, which does not inherit this, so its ops still report their own lines. The closure
    /// also contains any early return; `returns` is its type if the function returns `Result`.
    pub(crate) fn wrap_companion(&self, body: TokenStream, returns: &TokenStream) -> TokenStream {
        let (rt, enter, y) = (self.rt, self.enter(), Ident::new("y", Span::mixed_site()));
        let (leave, mutable) = (self.leave(&y, &ours!(#y)), self.mutable());
        let value = match (&self.func.output.result, &leave) {
            (None, _) => ours!(#rt::run(|| { #body })),
            // The body is in a closure already.
            (Some(_), None) => body,
            (Some(_), Some(_)) => {
                ours!(#rt::run(|| -> #returns { ::core::result::Result::Ok({ #body }) })?)
            }
        };
        match leave {
            None => ours!(#enter #value),
            Some(leave) => ours! {
                #enter
                let (#mutable #y, rest) = #value;
                #leave
                (#y, rest)
            },
        }
    }

    /// Adds the checks to the user's function.
    pub(crate) fn wrap_function(
        &self,
        block: &mut Block,
        panics_at: PanicPlace,
        body_at: BodyPlace,
    ) {
        let ReturnType::Type(_, ty) = &self.func.sig.output else {
            return;
        };
        let body = std::mem::take(&mut block.stmts);
        let enter = self.enter();
        let (rt, y) = (self.rt, Ident::new("y", Span::mixed_site()));
        let run = match body_at {
            BodyPlace::Aside => quote::quote!({ #(#body)* }),
            // The closure contains early returns, and lets ops report their own lines.
            BodyPlace::Inside => quote::quote!(#rt::run(|| -> #ty { #(#body)* })),
        };
        let whole = match self.func.output.result {
            None => ours!(#y),
            Some(_) => ours!(*#y),
        };
        let mutable = self.mutable();
        let checked = match self.leave(&y, &whole) {
            None if panics_at == PanicPlace::Caller || self.func.output.result.is_some() => {
                quote::quote!(#enter #(#body)*)
            }
            None => quote::quote!(#enter #run),
            Some(leave) => {
                let leave = match self.func.output.result {
                    None => leave,
                    Some(_) => {
                        ours!(if let ::core::result::Result::Ok(#y) = &#mutable #y { #leave })
                    }
                };
                ours!(#enter let #mutable #y = #run; #leave #y)
            }
        };
        block.stmts = vec![Stmt::Expr(Expr::Verbatim(checked), None)];
    }
}

/// Appends the paths of the tensors in a result to `found`.
fn leaves(shape: &OutShape, path: &mut Vec<Index>, found: &mut Vec<Vec<Index>>) {
    match shape {
        OutShape::Tuple(parts) => {
            for (i, part) in parts.iter().enumerate() {
                path.push(Index::from(i));
                leaves(part, path, found);
                path.pop();
            }
        }
        OutShape::Tensor | OutShape::Opaque => found.push(path.clone()),
    }
}

/// Finds the axes that bind the lengths in `avals`.
///
/// Plain names come first, then polynomials with a name that is not bound by itself.
fn bind(avals: &[&Aval], of_result: bool, lengths: &mut Vec<Length>) {
    for alone in [true, false] {
        for (index, aval) in avals.iter().enumerate() {
            for (axis, &dim) in aval.shape.dims().into_iter().flatten().enumerate() {
                let binds = match dim {
                    Dim::Named(_) => alone,
                    Dim::Poly(poly) => !alone && sum(&poly, lengths).is_none(),
                    Dim::Known(_) | Dim::Unknown => false,
                };
                if binds && !lengths.iter().any(|l| l.dim == dim) {
                    lengths.push(Length {
                        dim,
                        of_result,
                        index,
                        axis,
                    });
                }
            }
        }
    }
}

/// Returns a polynomial in terms of `lengths`, if all of its names are among them.
fn sum(poly: &Poly, lengths: &[Length]) -> Option<TokenStream> {
    let place = |name: &Symbol| lengths.iter().position(|l| l.dim == Dim::Named(*name));
    let terms = poly.terms().iter().map(|term| {
        let names = term.names.iter().map(place).collect::<Option<Vec<_>>>()?;
        let coefficient = Literal::i128_suffixed(term.coefficient);
        Some(ours!((#coefficient, &[#(#names),*])))
    });
    let terms = terms.collect::<Option<Vec<_>>>()?;
    Some(ours!(&[#(#terms),*]))
}

/// Returns the table row of one tensor.
fn row(
    rt: &TokenStream,
    what: &str,
    (aval, splits): (&Aval, &[SplitArg]),
    lengths: &[Length],
) -> TokenStream {
    let option = |value: Option<TokenStream>| match value {
        Some(value) => ours!(::core::option::Option::Some(#value)),
        None => ours!(::core::option::Option::None),
    };
    let dtype = option(aval.dtype.map(|dtype| {
        let variant = Ident::new(&format!("{dtype:?}"), Span::mixed_site());
        ours!(#rt::DType::#variant)
    }));
    let dims = option(aval.shape.dims().map(|dims| {
        let mut splits = splits.iter();
        let written: Vec<String> = dims
            .iter()
            .map(|d| {
                let split = splits
                    .next()
                    .filter(|split| split.is_open || !split.axes.is_empty());
                let split = split.map(ToString::to_string).unwrap_or_default();
                format!("{}{split}", d.to_string().replace('?', "_"))
            })
            .collect();
        let written = format!("({})", written.join(", "));
        let dims = dims.iter().map(|dim| {
            let bound = lengths.iter().position(|l| l.dim == *dim);
            match (dim, bound) {
                (_, Some(k)) => ours!(#rt::Expected::Bound(#k)),
                (Dim::Known(n), _) => ours!(#rt::Expected::Is(#n)),
                (Dim::Poly(poly), _) => {
                    let (text, terms) = (dim.to_string(), sum(poly, lengths));
                    terms.map_or_else(
                        || ours!(#rt::Expected::Any),
                        |terms| ours!(#rt::Expected::Sum(#text, #terms)),
                    )
                }
                (Dim::Named(_) | Dim::Unknown, _) => ours!(#rt::Expected::Any),
            }
        });
        let dims: Vec<TokenStream> = dims.collect();
        ours!((#written, &[#(#dims),*]))
    }));
    let splits = splits.iter().map(|split| {
        let (names, is_open) = (split.names(), split.is_open);
        ours!(#rt::DimSplit { axes: &[#(#names),*], is_open: #is_open })
    });
    ours!(#rt::Annotation { what: #what, dtype: #dtype, dims: #dims, splits: &[#(#splits),*] })
        .into_token_stream()
}
