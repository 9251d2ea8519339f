//! Emits the facts known at compile time as constants: the costs of a function.

use super::cx::Cx;
use super::names::allow;
use super::staged::Reverse;
use crate::lower::Body;
use gradloom_ir::ad::Vjp;
use gradloom_ir::{Cost, Poly, Program, Var, cost, pass};
use proc_macro2::{Literal, TokenStream};
use std::collections::BTreeSet;

/// Costs of a function and of its pullback.
pub(super) struct Costs {
    pub(super) value: Cost,
    pub(super) pullback: Cost,
    /// Bytes of the residuals.
    pub(super) saved: Option<Poly>,
    /// Number of residuals that only the derivative computes.
    pub(super) derived: usize,
}

impl Costs {
    /// Returns the costs of a program and of its derivative.
    pub(super) fn new(program: &Program, vjp: &Vjp) -> Costs {
        let bytes = |v| cost::bytes(vjp.primal.aval(v));
        Costs {
            value: cost::of_program(&pass::simplify(program.clone())),
            pullback: cost::of_program(&vjp.pullback),
            derived: residuals(vjp).count() - kept(program, vjp).len(),
            saved: residuals(vjp).try_fold(Poly::ZERO, |sum, v| sum.plus(&bytes(v)?)),
        }
    }
}

/// Returns the variables of `program` whose values are residuals.
///
/// Residuals that only the derivative computes are left out: their numbers may clash with variables
/// in other blocks.
pub(super) fn kept(program: &Program, vjp: &Vjp) -> Vec<Var> {
    let bound = program.eqns.iter().flat_map(|e| &e.outs);
    let bound: BTreeSet<Var> = program.params.iter().chain(bound).copied().collect();
    residuals(vjp).filter(|v| bound.contains(v)).collect()
}

fn residuals(vjp: &Vjp) -> impl Iterator<Item = Var> {
    let residuals = vjp.primal.outs[vjp.n_outs..].iter().zip(&vjp.shape_only);
    residuals
        .filter(|(_, shape_only)| !**shape_only)
        .map(|(v, _)| *v)
}

/// Constants of a function other than its derivatives.
pub(super) struct Facts {
    /// Associated constants beside the companions.
    pub(super) constants: TokenStream,
    /// Size methods of the struct of residuals.
    pub(super) sizes: TokenStream,
}

impl Cx<'_> {
    /// Returns the costs and the named values, as far as they are known.
    pub(super) fn facts(&self, body: &Body, reverse: Option<&Reverse>) -> Facts {
        let costs = reverse.and_then(|r| r.costs.as_ref());
        let points = self.points(body, reverse.map_or(&[], |r| &r.kept));
        let (p, n, func) = (self.p, self.names, self.func);
        let user = &func.sig.ident;
        let (head, vis) = self.associated();
        let (cost_name, points_name, saved) = (&n.cost, &n.points, &n.saved);
        let value = match costs {
            None => ours!(#p::Cost::UNKNOWN),
            Some(costs) => {
                let (value, pullback) = (self.work(&costs.value), self.work(&costs.pullback));
                let saved = self.formula(&costs.saved);
                ours!(#p::Cost { value: #value, pullback: #pullback, saved: #saved })
            }
        };
        let cost_doc = match costs {
            None => format!("Costs of `{user}`, which are not known at compile time."),
            Some(costs) => format!(
                "Costs of `{user}`.\n\n- value: {}\n- pullback: {}\n- saved: {} bytes",
                words(&costs.value),
                words(&costs.pullback),
                word(&costs.saved)
            ),
        };
        let points_doc = format!("The named values of `{user}`.");
        let constants = ours! {
            #head
            #[doc = #cost_doc]
            #vis const #cost_name: #p::Cost = #value;

            #head
            #[doc = #points_doc]
            #vis const #points_name: &'static [#p::Point] = #points;
        };
        let bytes = match costs {
            None => ours!(::core::option::Option::None),
            Some(costs) => self.formula(&costs.saved),
        };
        let (attrs, allow) = (&func.attrs, allow());
        let sizes = ours! {
            #(#attrs)*
            #allow
            impl #saved {
                /// Returns the bytes of the residuals for these lengths of the named dims, if the shapes are known.
                #[inline]
                pub fn bytes_for(dims: &[(&str, u64)]) -> ::core::option::Option<u64> {
                    let bytes: ::core::option::Option<#p::Formula> = #bytes;
                    bytes?.eval(dims)
                }
            }
        };
        Facts { constants, sizes }
    }

    fn work(&self, cost: &Cost) -> TokenStream {
        let p = self.p;
        let flops = self.formula(&cost.flops);
        let transcendentals = self.formula(&cost.transcendentals);
        let bytes = self.formula(&cost.bytes);
        ours!(#p::Work { flops: #flops, transcendentals: #transcendentals, bytes: #bytes })
    }

    fn formula(&self, poly: &Option<Poly>) -> TokenStream {
        let p = self.p;
        let Some(poly) = poly else {
            return ours!(::core::option::Option::None);
        };
        let terms = poly.terms().iter().map(|term| {
            let coefficient = Literal::i128_unsuffixed(term.coefficient);
            let dims = term.names.iter().map(|name| name.as_str());
            ours!(#p::Term { coefficient: #coefficient, dims: &[#(#dims),*] })
        });
        ours!(::core::option::Option::Some(#p::Formula::new(&[#(#terms),*])))
    }
}

pub(super) fn words(cost: &Cost) -> String {
    let (flops, functions) = (word(&cost.flops), word(&cost.transcendentals));
    let bytes = word(&cost.bytes);
    format!("{flops} flops, {functions} transcendentals, {bytes} bytes")
}

pub(super) fn word(poly: &Option<Poly>) -> String {
    poly.as_ref()
        .map_or_else(|| "?".to_owned(), |poly| format!("`{poly}`"))
}
