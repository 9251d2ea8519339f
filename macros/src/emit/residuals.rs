//! Assembles the residuals of a program: the fields of a struct, or the values of a step; and the
//! locals that the pullback binds.

use super::statements::Emitter;
use crate::input::unraw;
use crate::program::{LoweredProgram, Source};
use gradloom_ir::{Op, Var, ad};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};
use std::collections::BTreeSet;

/// Number of tensors above which they are elements of a list: each field costs compile time.
const MOST_FIELDS: usize = 100;

/// Name, type and documentation of a field.
pub(crate) type Field = (Ident, TokenStream, String);

/// Residuals of a program.
pub(crate) struct ResidualBuilder<'a> {
    rt: &'a TokenStream,
    residuals: Vec<Residual>,
    names: BTreeSet<String>,
    /// Number of variables among the residuals.
    n_vars: usize,
    /// Variables of which the pullback has only the aval, with the locals that hold it.
    pub(crate) avals: Vec<(Var, Ident)>,
}

struct Residual {
    kind: ResidualKind,
    /// Name of its field.
    field: Ident,
    doc: String,
    /// Its value. For tensors and avals it is the local with the tensor.
    value: TokenStream,
    /// Its local in the pullback.
    local: Ident,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ResidualKind {
    Tensor,
    Aval,
    Static,
    /// Pullback of a call.
    Call,
    /// Position of an input within its parameter.
    Place,
}

/// Parts of a struct of residuals.
#[derive(Default)]
pub(crate) struct ResidualParts {
    pub(crate) fields: Vec<Field>,
    /// `field: value`.
    pub(crate) inits: Vec<TokenStream>,
    /// `field: local`, for the pullback.
    pub(crate) binds: Vec<TokenStream>,
    /// Statements after these bindings that bind the elements of lists.
    pub(crate) elements: TokenStream,
}

/// Name of the field with the avals of the result.
pub(crate) fn of_result() -> Ident {
    Ident::new("result", Span::mixed_site())
}

/// Name of the field with the positions of the results, if there are several and some are trees.
pub(crate) fn positions_of_results() -> Ident {
    Ident::new("results", Span::mixed_site())
}

/// Returns the names that no residual has.
fn reserved() -> BTreeSet<String> {
    let fields = [of_result(), positions_of_results()];
    fields.iter().map(Ident::to_string).collect()
}

impl<'a> ResidualBuilder<'a> {
    /// Collects the residuals of a program and the static arguments that its pullback reads.
    pub(crate) fn new(
        vjp: &ad::Vjp,
        low: &LoweredProgram,
        rt: &'a TokenStream,
        primal: &Emitter,
        pullback: &Emitter,
    ) -> ResidualBuilder<'a> {
        let residuals = &vjp.primal.outs[vjp.n_outs..];
        let mut builder = ResidualBuilder {
            rt,
            residuals: Vec::new(),
            names: reserved(),
            n_vars: residuals.len(),
            avals: Vec::new(),
        };
        let calls = vjp.primal.eqns.iter().filter(|e| e.op == Op::CallFwd);
        let calls: BTreeSet<Var> = calls.filter_map(|e| e.outs.last()).copied().collect();
        let params = vjp.pullback.params.iter().zip(&vjp.shape_only);
        for (&from, (&to, &shape_only)) in residuals.iter().zip(params) {
            let value = primal.ident(from);
            let name = unraw(&value);
            if calls.contains(&from) {
                let doc = "The residuals of a call.".to_owned();
                let local = Some(pullback.ident(to));
                let value = value.to_token_stream();
                builder.add(ResidualKind::Call, &name, doc, value, local);
            } else if shape_only {
                let local = format_ident!("{name}_like", span = Span::mixed_site());
                builder.avals.push((to, local.clone()));
                let (name, doc) = (name_of_aval(&name), doc_of_aval(&format!("`{name}`")));
                builder.aval(&name, doc, value, Some(local));
            } else {
                let (doc, local) = (format!("`{name}`."), Some(pullback.ident(to)));
                let value = value.to_token_stream();
                builder.add(ResidualKind::Tensor, &name, doc, value, local);
            }
        }
        let mut seen = BTreeSet::new();
        for attr in vjp.pullback.eqns.iter().flat_map(|e| &e.attrs) {
            if let Some(ident) = low.statics.get(attr)
                && seen.insert(*attr)
            {
                let name = unraw(ident);
                let doc = format!("The static argument `{name}`.");
                let (value, local) = (ident.to_token_stream(), Some(ident.clone()));
                builder.add(ResidualKind::Static, &name, doc, value, local);
            }
        }
        builder
    }

    /// Adds the position of an input within its parameter, and returns its local in the pullback.
    pub(crate) fn at(&mut self, var: Var, source: &Source, primal: &Emitter) -> Ident {
        let name = format!("at_{}", unraw(&primal.ident(var)));
        let doc = "Position of these leaves in the parameter.".to_owned();
        self.add(ResidualKind::Place, &name, doc, primal.find(source), None)
    }

    fn aval(&mut self, name: &str, doc: String, value: Ident, local: Option<Ident>) -> Ident {
        let value = value.to_token_stream();
        self.add(ResidualKind::Aval, name, doc, value, local)
    }

    /// Adds a residual under a unique name, and returns its local in the pullback: `local`, or its
    /// name.
    fn add(
        &mut self,
        kind: ResidualKind,
        name: &str,
        doc: String,
        value: TokenStream,
        local: Option<Ident>,
    ) -> Ident {
        let mut unique = name.to_owned();
        while !self.names.insert(unique.clone()) {
            unique.push('_');
        }
        let field = crate::program::ours(&unique);
        let local = local.unwrap_or_else(|| field.clone());
        self.residuals.push(Residual {
            kind,
            field,
            doc,
            value,
            local: local.clone(),
        });
        local
    }

    /// Returns the number of positions added by [`ResidualBuilder::at`].
    pub(crate) fn n_places(&self) -> usize {
        self.of_kind(ResidualKind::Place).count()
    }

    /// Returns the parameters of a pullback, those that are residuals in the order of a step.
    pub(crate) fn step_params(&self, vjp: &ad::Vjp) -> Vec<Var> {
        let params = &vjp.pullback.params;
        let is_aval = |v: &&Var| self.avals.iter().any(|(aval, _)| aval == *v);
        let (residuals, cts) = params.split_at(vjp.primal.outs.len() - vjp.n_outs);
        let (avals, tensors): (Vec<&Var>, Vec<&Var>) = residuals.iter().partition(is_aval);
        tensors
            .into_iter()
            .chain(avals)
            .chain(cts)
            .copied()
            .collect()
    }

    fn of_kind(&self, kind: ResidualKind) -> impl Iterator<Item = &Residual> {
        self.residuals.iter().filter(move |r| r.kind == kind)
    }

    /// Returns the parts of a struct with a field for each residual.
    pub(crate) fn fields(self) -> ResidualParts {
        let rt = self.rt;
        let mut parts = ResidualParts::default();
        let lists = self.n_vars > MOST_FIELDS;
        for residual in &self.residuals {
            let (field, value, local) = (&residual.field, &residual.value, &residual.local);
            let (ty, value) = match residual.kind {
                ResidualKind::Tensor | ResidualKind::Aval if lists => continue,
                ResidualKind::Tensor => (ours!(#rt::Tensor), ours!(#rt::share_tensor(&#value))),
                ResidualKind::Aval => (
                    ours!(#rt::Aval),
                    ours!(::core::clone::Clone::clone(#value.aval())),
                ),
                ResidualKind::Static => (ours!(#rt::Static), value.clone()),
                ResidualKind::Call => (ours!(#rt::CompanionPullback), value.clone()),
                ResidualKind::Place => (ours!(#rt::LeafRange), value.clone()),
            };
            parts.fields.push((field.clone(), ty, residual.doc.clone()));
            parts.inits.push(ours!(#field: #value));
            let is_same = local == field;
            parts.binds.push(match is_same {
                true => ours!(#local),
                false => ours!(#field: #local),
            });
        }
        if lists {
            let (ty, init) = (ours!(#rt::List<#rt::Tensor>), ours!(#rt::share_tensors));
            self.list("tensors", "", ResidualKind::Tensor, (ty, init), &mut parts);
            let (ty, init) = (ours!(#rt::List<#rt::Aval>), ours!(#rt::avals_all));
            let doc = "The dtypes and the shapes of ";
            self.list("likes", doc, ResidualKind::Aval, (ty, init), &mut parts);
        }
        parts
    }

    /// Adds one field for all residuals of a kind.
    fn list(
        &self,
        name: &str,
        doc: &str,
        kind: ResidualKind,
        (ty, init): (TokenStream, TokenStream),
        parts: &mut ResidualParts,
    ) {
        let rt = self.rt;
        let values: Vec<&TokenStream> = self.of_kind(kind).map(|r| &r.value).collect();
        if values.is_empty() {
            return;
        }
        let named = self.of_kind(kind).map(|r| format!("`{}`", r.value));
        let doc = format!("{doc}{}.", named.collect::<Vec<_>>().join(", "));
        let mut unique = name.to_owned();
        while self.names.contains(&unique) {
            unique.push('_');
        }
        let field = crate::program::ours(&unique);
        let locals = self.of_kind(kind).map(|r| &r.local);
        parts.fields.push((field.clone(), ty, doc));
        parts.inits.push(ours!(#field: #init(&[#(&#values),*])));
        parts.binds.push(ours!(#field: #field));
        parts
            .elements
            .extend(ours!(let [#(#locals),*] = #rt::elements(#field);));
    }

    /// Returns the step of block `i` with the residuals, and the statements that bind them.
    pub(crate) fn step(self, i: usize) -> (TokenStream, TokenStream) {
        let (rt, step) = (self.rt, step_ident());
        let values = |kind| self.of_kind(kind).map(|r| &r.value);
        let (tensors, avals) = (values(ResidualKind::Tensor), values(ResidualKind::Aval));
        let mut value = ours!(#rt::Step::new(#i, &[#(&#tensors),*], &[#(&#avals),*]));
        let mut binds = TokenStream::new();
        for (kind, read, add) in [
            (ResidualKind::Tensor, ours!(tensors), None),
            (ResidualKind::Aval, ours!(likes), None),
            (
                ResidualKind::Static,
                ours!(statics),
                Some(ours!(with_statics)),
            ),
            (ResidualKind::Call, ours!(calls), Some(ours!(with_calls))),
            (ResidualKind::Place, ours!(places), Some(ours!(with_places))),
        ] {
            let values: Vec<&TokenStream> = values(kind).collect();
            if values.is_empty() {
                continue;
            }
            if let Some(add) = add {
                value.extend(ours!(.#add([#(#values),*])));
            }
            let locals = self.of_kind(kind).map(|r| &r.local);
            binds.extend(ours!(let [#(#locals),*] = #rt::elements(#step.#read());));
        }
        (value, binds)
    }
}

/// Returns the local that holds a step in the pullback.
pub(crate) fn step_ident() -> Ident {
    Ident::new("step", Span::mixed_site())
}

fn name_of_aval(name: &str) -> String {
    format!("{name}_like")
}

fn doc_of_aval(of: &str) -> String {
    format!("The dtype and the shape of {of}.")
}
