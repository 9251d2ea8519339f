//! Assembles a struct of residuals: its fields, their values, and the locals that the pullback
//! binds.

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
    made: ResidualParts,
    names: BTreeSet<String>,
    /// Lists of tensors and of avals, if there are too many for fields.
    lists: Option<[ResidualList; 2]>,
    /// Variables of which the pullback has only the aval, with the locals that hold it.
    pub(crate) avals: Vec<(Var, Ident)>,
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

/// Values that share one field, with their locals.
#[derive(Default)]
struct ResidualList {
    values: Vec<Ident>,
    locals: Vec<Ident>,
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
            made: ResidualParts::default(),
            names: BTreeSet::new(),
            lists: (residuals.len() > MOST_FIELDS).then(Default::default),
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
                builder.add(
                    &name,
                    ours!(#rt::CompanionPullback),
                    doc,
                    value.to_token_stream(),
                    local,
                );
            } else if shape_only {
                let local = format_ident!("{name}_like", span = Span::mixed_site());
                builder.avals.push((to, local.clone()));
                builder.aval(value, local);
            } else {
                builder.tensor(value, pullback.ident(to));
            }
        }
        let mut seen = BTreeSet::new();
        for attr in vjp.pullback.eqns.iter().flat_map(|e| &e.attrs) {
            if let Some(ident) = low.statics.get(attr)
                && seen.insert(*attr)
            {
                let name = unraw(ident);
                let doc = format!("The static argument `{name}`.");
                let value = ident.to_token_stream();
                builder.add(&name, ours!(#rt::Static), doc, value, Some(ident.clone()));
            }
        }
        builder
    }

    fn tensor(&mut self, value: Ident, local: Ident) {
        let (rt, name) = (self.rt, unraw(&value));
        match &mut self.lists {
            Some([tensors, _]) => tensors.push(value, local),
            None => {
                let (doc, init) = (format!("`{name}`."), ours!(#rt::share_tensor(&#value)));
                self.add(&name, ours!(#rt::Tensor), doc, init, Some(local));
            }
        }
    }

    fn aval(&mut self, value: Ident, local: Ident) {
        let (rt, name) = (self.rt, unraw(&value));
        match &mut self.lists {
            Some([_, likes]) => likes.push(value, local),
            None => {
                let doc = format!("The dtype and the shape of `{name}`.");
                let init = ours!(::core::clone::Clone::clone(#value.aval()));
                let field = format!("{name}_like");
                self.add(&field, ours!(#rt::Aval), doc, init, Some(local));
            }
        }
    }

    /// Adds a field that locates the leaves of an input within its parameter.
    pub(crate) fn at(&mut self, var: Var, source: &Source, primal: &Emitter) -> Ident {
        let rt = self.rt;
        let name = format!("at_{}", unraw(&primal.ident(var)));
        let doc = "Position of these leaves in the parameter.".to_owned();
        self.add(&name, ours!(#rt::LeafRange), doc, primal.find(source), None)
    }

    /// Adds a field under a unique name, and returns its local in the pullback: `local`, or the
    /// field's name.
    pub(crate) fn add(
        &mut self,
        name: &str,
        ty: TokenStream,
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
        self.made.fields.push((field.clone(), ty, doc));
        self.made.inits.push(ours!(#field: #value));
        self.made.binds.push(ours!(#field: #local));
        field
    }

    /// Adds one field for all values of a list.
    fn list(
        &mut self,
        name: &str,
        doc: &str,
        ty: TokenStream,
        init: TokenStream,
        list: ResidualList,
    ) {
        let (rt, values, locals) = (self.rt, list.values, list.locals);
        if values.is_empty() {
            return;
        }
        let names: Vec<String> = values.iter().map(|v| format!("`{}`", unraw(v))).collect();
        let doc = format!("{doc}{}.", names.join(", "));
        let field = self.add(name, ty, doc, ours!(#init(&[#(&#values),*])), None);
        let elements = ours!(let [#(#locals),*] = #rt::elements(#field););
        self.made.elements.extend(elements);
    }

    pub(crate) fn finish(mut self) -> ResidualParts {
        let rt = self.rt;
        if let Some([tensors, likes]) = self.lists.take() {
            let (ty, init) = (ours!(#rt::List<#rt::Tensor>), ours!(#rt::share_tensors));
            self.list("tensors", "", ty, init, tensors);
            let (ty, init) = (ours!(#rt::List<#rt::Aval>), ours!(#rt::avals_all));
            self.list("likes", "The dtypes and the shapes of ", ty, init, likes);
        }
        self.made
    }
}

impl ResidualList {
    fn push(&mut self, value: Ident, local: Ident) {
        self.values.push(value);
        self.locals.push(local);
    }
}
