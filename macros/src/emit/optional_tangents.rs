//! Handles tangents and cotangents for which only running the host code tells whether they are
//! zero.
//!
//! A zero is not a tensor of zeros, because zero times infinity is not zero. If it is not known at
//! compile time whether a value is zero, it is an `Option` in the emitted code, and `None` is zero.

use super::program_text::is_long;
use super::statements::{Emitter, is_many};
use gradloom_ir::op::TermSign;
use gradloom_ir::{Eqn, Op, SecondaryMap, Var};
use proc_macro2::{Ident, TokenStream};
use quote::quote_spanned;
use std::slice;

impl Emitter<'_> {
    /// Declares that values may be zero, and that the variables in `linear` are linear in them.
    pub(crate) fn with_zeros(&mut self, linear: impl IntoIterator<Item = Var>) {
        let linear = linear.into_iter().map(|v| (v, ()));
        self.linear = Some(linear.collect::<SecondaryMap<Var, ()>>());
    }

    /// Declares that a linear variable is an `Option` in the emitted code.
    pub(crate) fn zeroable(&mut self, var: Var) {
        self.maybe.insert(var, ());
        if let Some(linear) = &mut self.linear {
            linear.insert(var, ());
        }
    }

    /// Records which results of a stretch's equations are linear, and which may be zero; none of
    /// these is a call.
    pub(crate) fn zeroable_eqns(&mut self, eqns: &[Eqn]) {
        for eqn in eqns {
            self.linear_eqn(eqn);
            if eqn.data().iter().any(|v| self.maybe.contains(*v)) {
                eqn.outs.iter().for_each(|v| self.zeroable(*v));
            }
        }
    }

    /// Records that the results of an equation are linear, if an operand is.
    fn linear_eqn(&mut self, eqn: &Eqn) {
        if let Some(linear) = &mut self.linear
            && eqn.data().iter().any(|v| linear.contains(*v))
        {
            linear.extend(eqn.outs.iter().map(|v| (*v, ())));
        }
    }

    /// Returns the statement for an equation that reads values that may be zero.
    ///
    /// Returns `None` for other equations, which are emitted as usual. Also records that the
    /// results of calls may be zero.
    pub(crate) fn zeroable_eqn(&mut self, eqn: &Eqn) -> Option<TokenStream> {
        let linear = self.linear.as_ref()?;
        if matches!(eqn.op, Op::CallPull | Op::CallJvp) {
            let outs = match eqn.op {
                Op::CallJvp => &eqn.outs[eqn.outs.len() / 2..],
                _ => &eqn.outs[..],
            };
            for out in outs {
                if !self.lists.contains(*out) {
                    self.zeroable(*out);
                }
            }
            return None;
        }
        let mut operands: Vec<usize> = Vec::new();
        for (i, v) in eqn.data().iter().enumerate() {
            let seen = operands.iter().any(|j| eqn.data()[*j] == *v);
            if linear.contains(*v) && !seen {
                operands.push(i);
            }
        }
        if operands.is_empty() {
            return self.zero_like(eqn);
        }
        let any = operands.iter().any(|i| self.maybe.contains(eqn.data()[*i]));
        if !any {
            self.linear_eqn(eqn);
            return None;
        }
        let tokens = (!is_long(self.program, self.low)).then(|| self.option_of(eqn, &operands));
        for out in &eqn.outs {
            self.zeroable(*out);
        }
        // A closure takes rustc longer than a listing of one equation.
        Some(tokens.unwrap_or_else(|| self.stretch(slice::from_ref(eqn), |_| true)))
    }

    /// Returns whether a variable is linear in values that may be zero.
    pub(crate) fn is_linear(&self, var: Var) -> bool {
        self.linear.as_ref().is_some_and(|l| l.contains(var))
    }

    /// Returns a variable as an `Option` of a reference.
    pub(crate) fn option(&self, var: Var) -> TokenStream {
        let ident = self.ident(var);
        match self.maybe.contains(var) {
            true => ours!(#ident.as_ref()),
            false => ours!(::core::option::Option::Some(&#ident)),
        }
    }

    /// Returns `zeros_like(x)` for an `x` that may be zero itself: the zeros are `None` if `x` is.
    fn zero_like(&mut self, eqn: &Eqn) -> Option<TokenStream> {
        let like = *eqn.likes().iter().find(|v| self.maybe.contains(**v))?;
        let (like, out, value) = (self.ident(like), self.ident(eqn.outs[0]), self.value(eqn));
        self.zeroable(eqn.outs[0]);
        let span = self.span(eqn);
        Some(quote_spanned!(span=> let #out = #like.as_ref().map(|#like| #value);))
    }

    fn option_of(&self, eqn: &Eqn, operands: &[usize]) -> TokenStream {
        let span = self.span(eqn);
        let rt = super::statements::at(self.rt, span);
        let bind = self.bind(eqn);
        let outs: Vec<Ident> = eqn.outs.iter().map(|v| self.ident(*v)).collect();
        let option = |i: usize| self.option(eqn.data()[i]);
        if let Some([_, second]) = eqn.op.def().facts().terms {
            let function = match second {
                TermSign::Plus => ours!(sum),
                TermSign::Minus => ours!(difference),
            };
            let (x, y, out) = (option(0), option(1), &outs[0]);
            return quote_spanned!(span=> #bind #out = #rt::#function(#x, #y););
        }
        let value = self.value(eqn);
        let names: Vec<Ident> = operands
            .iter()
            .map(|i| self.ident(eqn.data()[*i]))
            .collect();
        let given: Vec<TokenStream> = operands.iter().map(|i| option(*i)).collect();
        let given = match (&*given, eqn.op.def().facts().aval_of) {
            ([one], _) => one.clone(),
            (all, Some(aval_of)) => {
                let like = |i: &usize| self.like(eqn.args[aval_of(self.program, eqn, *i)]);
                let likes = operands.iter().map(like);
                ours!(#rt::fill_zeros([#(#all),*], ::core::option::Option::Some([#(#likes),*])))
            }
            (all, None) => ours!(#rt::fill_zeros([#(#all),*], ::core::option::Option::None)),
        };
        let pattern = match &*names {
            [one] => ours!(#one),
            names => ours!([#(#names),*]),
        };
        match &*outs {
            [out] if !is_many(eqn.op) => {
                quote_spanned!(span=> #bind #out = #given.map(|#pattern| #value);)
            }
            outs => {
                let nothing = outs.iter().map(|_| ours!(::core::option::Option::None));
                quote_spanned! {span=>
                    #bind [#(#outs),*] = match #given {
                        ::core::option::Option::Some(#pattern) => #value.map(::core::option::Option::Some),
                        ::core::option::Option::None => [#(#nothing),*],
                    };
                }
            }
        }
    }
}
