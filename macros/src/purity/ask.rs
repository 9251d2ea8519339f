//! Formulates questions about types, which rustc answers.

use super::apply::traced_name;
use super::ty::{Probe, Val};
use super::{Impurity, PurityVisitor, Remedy};
use crate::input::{text, unraw};
use crate::method_table::{BY_NAME, NUMBERS, class};
use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;
use syn::{Expr, ExprMethodCall, Path};

/// Question to rustc, with the reason for impurity if the answer is no.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// Expression whose type is the answer.
    pub(crate) tokens: TokenStream,
    /// Reason why the body may have side effects, if the answer is no.
    pub(crate) why: String,
    /// The user's token that the question is about.
    pub(crate) span: Span,
    /// Marker methods for types that do not have them: their defaults answer "no".
    pub(crate) marks: Vec<Ident>,
    /// The called function or method, if the question is whether it is traced.
    pub(crate) callee: Option<String>,
}

/// Place of an expression: the position of a token before it, and the index of an argument.
///
/// Receivers have the index 0, and arguments count from 1, after an opening parenthesis.
pub(crate) type CallPosition = ((usize, usize), usize);

/// Returns the place of an expression.
pub(crate) fn place(span: Span, index: usize) -> CallPosition {
    (super::position(span), index)
}

/// What rustc is asked about the type of an expression; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    /// Whether it is a reference that a `Deref` of the user's may convert.
    Moved,
    /// Its class.
    Class,
    /// Its class, where rustc may know the type at the end of the body only.
    Operand,
    /// Whether its keys are known in all their parts, if it is a map or a set.
    Keys,
    /// Whether it is known in all its parts.
    Parts,
    /// Whether it is the type of the standard library whose function is called by its path.
    Owner,
    /// Whether it is a custom function that sets `PURE`.
    Custom,
}

/// Question about the type of an expression, asked at its place in a copy of the body.
#[derive(Clone, Debug)]
pub(crate) struct SpotQuestion {
    pub(crate) at: CallPosition,
    pub(crate) asked: Asked,
    /// Classes of the types for which the answer is yes.
    pub(crate) mask: u32,
    /// The same question outside of the body, if the macro has an expression of the type.
    pub(crate) probe: Option<TokenStream>,
    /// Reason why the body may have side effects, if the answer is no.
    pub(crate) why: String,
    /// The user's token that the question is about.
    pub(crate) span: Span,
}

impl Asked {
    /// Returns the question about the type of a reference.
    pub(crate) fn of(self, e: &TokenStream, mask: u32, rt: &TokenStream) -> TokenStream {
        match self {
            Asked::Moved => ours!((&&&&#rt::Probe(#e)).moved::<#mask>()),
            Asked::Class | Asked::Operand => ours!((&&&&&#rt::Probe(#e)).class::<#mask>()),
            Asked::Keys => ours!((&&#rt::Probe(#e)).keys::<#mask>()),
            Asked::Parts | Asked::Owner => ours!((&&#rt::Probe(#e)).known::<#mask>()),
            Asked::Custom => ours!((&&&#rt::Probe(#e)).custom()),
        }
    }
}

impl SpotQuestion {
    /// Returns the question outside of the body, or the reason why the body may have side effects.
    pub(crate) fn question(self) -> Result<Question, Impurity> {
        let SpotQuestion { why, span, .. } = self;
        match self.probe {
            Some(tokens) => Ok(Question {
                tokens,
                why,
                span,
                marks: Vec::new(),
                callee: None,
            }),
            None => Err(Impurity { why, span }),
        }
    }
}

/// Item that a path names.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Importable {
    Function,
    Type,
}

/// Returns the name of the marker method of a traced method.
pub(crate) fn mark_of(method: &str) -> Ident {
    format_ident!("__traced_{method}_mark", span = Span::call_site())
}

/// Returns the name of the hook of a method of a traced trait, which runs before each call.
pub(crate) fn hook_of(method: &str) -> Ident {
    format_ident!("__traced_{method}_hook", span = Span::call_site())
}

/// Returns the name of the hook of a function of a traced trait, whose type names the function.
pub(crate) fn function_hook_of(function: &str) -> Ident {
    format_ident!(
        "__traced_{function}_function_hook",
        span = Span::call_site()
    )
}

/// Returns whether a marker is a hook of a trait.
pub(crate) fn is_hook(mark: &Ident) -> bool {
    mark.to_string().ends_with("_hook")
}

impl PurityVisitor<'_> {
    pub(super) fn ask(&mut self, tokens: TokenStream, why: String, span: Span) {
        self.ask_once(Question {
            tokens,
            why,
            span,
            marks: Vec::new(),
            callee: None,
        });
    }

    /// Asks whether a function or a method is traced.
    pub(super) fn ask_callee(
        &mut self,
        tokens: TokenStream,
        what: &str,
        span: Span,
        marks: Vec<Ident>,
    ) {
        let why = self.reason(what, span, "it is not traced", Remedy::Trace);
        let callee = what.trim_end_matches("()").trim_start_matches('.');
        self.ask_once(Question {
            tokens,
            why,
            span,
            marks,
            callee: Some(callee.to_owned()),
        });
    }

    fn ask_once(&mut self, question: Question) {
        if self.asked.insert(question.tokens.to_string()) {
            self.questions.push(question);
        }
    }

    /// Returns the questions about traced functions and methods.
    pub(super) fn callees(&self) -> Vec<Question> {
        let asked = self.questions.iter().filter(|q| q.callee.is_some());
        asked.cloned().collect()
    }

    /// Asks whether the type of a value is in one of the classes `mask`.
    ///
    /// Returns whether the question can be asked, by a probe or at the place of the value.
    pub(super) fn ask_class(
        &mut self,
        val: &Val,
        mask: u32,
        asked: Asked,
        what: &str,
        span: Span,
    ) -> bool {
        const WHY: &str = "a type in it may be neither from the standard library nor from gradloom";
        if let (None, Some(at), true) = (val.firm(), val.at, self.entered.is_empty()) {
            self.ask_at(val, at, (asked, mask), what, span, WHY);
            return true;
        }
        let Some(e) = val.tokens() else {
            return false;
        };
        // The value may be a reference to one of the type of the probe.
        let asked = match val.exact() {
            Some(_) => asked,
            None => asked.max(Asked::Class),
        };
        let tokens = asked.of(&ours!(&#e), mask, self.rt);
        let why = self.reason(what, span, WHY, Remedy::Move);
        self.ask(tokens, why, span);
        true
    }

    /// Asks at the place of a value whether its type is in one of the classes `mask`.
    ///
    /// Functions in the body are not copied, so there rustc is asked by a probe.
    pub(super) fn ask_at(
        &mut self,
        val: &Val,
        at: CallPosition,
        (asked, mask): (Asked, u32),
        what: &str,
        span: Span,
        why: &str,
    ) {
        if !self.entered.is_empty() {
            if !self.ask_class(val, mask, asked, what, span) {
                self.found(what, span, why, Remedy::Move);
            }
            return;
        }
        let rt = self.rt;
        let probe = |asked: Asked, mask| {
            let e = val.tokens()?;
            Some(asked.max(Asked::Class).of(&ours!(&#e), mask, rt))
        };
        if let Some(spot) = self.spots.iter_mut().find(|spot| spot.at == at) {
            // A probe is asked about one value, and there may be several at a place.
            let text = |probe: &Option<TokenStream>| probe.as_ref().map(TokenStream::to_string);
            if text(&spot.probe) != text(&probe(asked, mask)) {
                spot.probe = None;
            }
            spot.mask &= mask;
            spot.asked = spot.asked.max(asked);
            return;
        }
        let why = self.reason(what, span, why, Remedy::Move);
        self.spots.push(SpotQuestion {
            at,
            asked,
            mask,
            probe: probe(asked, mask),
            why,
            span,
        });
    }

    /// Asks whether a function such as `Vec::new`, by whose path the macro knows its result, is one
    /// of a type of the standard library.
    pub(super) fn ask_owner(&mut self, at: CallPosition, owner: &str, what: &str, span: Span) {
        let why = "it may be a function of a type of another crate with this name";
        // The types that programs use most are known by their names where rustc cannot be asked.
        let settled = BY_NAME.contains(&owner);
        let val = match settled {
            true => Val::unknown().with(Probe::exact(ours!(0i32))),
            false => Val::unknown(),
        };
        if !settled || self.entered.is_empty() {
            self.ask_at(&val, at, (Asked::Owner, !0), what, span, why);
        }
    }

    /// Asks whether a custom function sets `PURE`; `function` is the argument of the call.
    ///
    /// Where rustc cannot be asked, the call notes the answer at run time.
    pub(super) fn ask_custom(&mut self, val: &Val, function: &Expr, what: &str, span: Span) {
        let Some(at) = val.at.filter(|_| self.entered.is_empty()) else {
            return;
        };
        if self.spots.iter().any(|spot| spot.at == at) {
            return;
        }
        let name = text(function);
        let name = name.trim_start_matches(['&', ' ']);
        let why = format!("`{name}` is not known to be a custom function with `PURE`");
        self.spots.push(SpotQuestion {
            at,
            asked: Asked::Custom,
            mask: !0,
            probe: None,
            why: self.reason(what, span, &why, Remedy::Custom),
            span,
        });
    }

    /// Asks whether the result of arithmetic on these operands is a tensor, as it is if one of them
    /// is.
    pub(super) fn ask_any_tensor(
        &mut self,
        result: &Val,
        operands: &Option<Vec<TokenStream>>,
        what: &str,
        span: Span,
    ) {
        let (rt, mask) = (self.rt, class::TENSOR);
        let Some(operands) = operands else {
            if !self.ask_class(result, mask, Asked::Class, what, span) {
                self.found(what, span, "its type is not known", Remedy::Move);
            }
            return;
        };
        let answers = operands
            .iter()
            .map(|e| ours!((&&&&&#rt::Probe(&#e)).class::<#mask>()));
        let answers = answers.reduce(|a, b| ours!(#rt::either(#a, #b)));
        let why = self.reason(
            what,
            span,
            "a type in it may be neither from the standard library nor from gradloom",
            Remedy::Move,
        );
        if let Some(tokens) = answers {
            self.ask(tokens, why, span);
        }
    }

    /// Asks whether a value has a traced method of this name.
    pub(super) fn ask_method(&mut self, val: &Val, method: &str, what: &str, span: Span) -> bool {
        let (Some(e), rt) = (val.tokens(), self.rt) else {
            return false;
        };
        // The element of an `Option<&Layer>` is a reference to a reference, for which the fallback of
        // the marker would be nearer than the marker.
        let e = match val.exact() {
            Some(_) => e.clone(),
            None => (0..2).fold(ours!(&#e), |e, _| ours!((&&#rt::Probe(#e)).peel())),
        };
        let mark = mark_of(method);
        self.ask_callee(ours!((#e).#mark()), what, span, vec![mark]);
        true
    }

    /// Judges a method that is pure if it is traced, or if the questions that `standard` asks are
    /// answered with yes. Returns the value of `standard`.
    pub(super) fn either(
        &mut self,
        call: &ExprMethodCall,
        receiver: &Val,
        args: &[Val],
        what: &str,
        standard: impl FnOnce(&mut Self) -> Val,
    ) -> Val {
        let (impure, asked) = (self.impure.take(), self.asked.clone());
        let (questions, spots) = (std::mem::take(&mut self.questions), self.spots.clone());
        let val = standard(self);
        let standard = std::mem::replace(&mut self.questions, questions);
        let unknown = std::mem::replace(&mut self.impure, impure).is_some();
        self.asked = asked;
        if unknown {
            self.spots = spots;
        }
        let span = call.method.span();
        self.passed_on(&call.args, args, what, span);
        let Some(e) = receiver.exact() else {
            return val;
        };
        let (rt, mark) = (self.rt, mark_of(traced_name(&unraw(&call.method))));
        let own = ours!((#e).#mark());
        let all = standard.iter().map(|question| question.tokens.clone());
        let tokens = match all.reduce(|a, b| ours!(#rt::both(#a, #b))) {
            _ if unknown => own,
            Some(all) => ours!(#rt::either(#own, #all)),
            // The same questions have been asked before.
            None => return val,
        };
        let mut marks: Vec<Ident> = standard.into_iter().flat_map(|q| q.marks).collect();
        marks.push(mark);
        self.ask_callee(tokens, what, span, marks);
        val
    }

    /// Asks whether a value is a tree of the user's whose `Tree` is derived.
    pub(super) fn ask_tree(&mut self, val: &Val, what: &str, span: Span) -> bool {
        let Some(e) = val.tokens() else {
            return false;
        };
        let rt = self.rt;
        let why = "its receiver may not be a tree with a derived `Tree`";
        let why = self.reason(what, span, why, Remedy::Promise);
        self.ask(ours!((&&&#rt::Probe(&#e)).tree()), why, span);
        // Options, arrays and iterators have a method `map` of their own.
        let mask = class::PLAIN | class::TENSOR | class::VEC | class::TREE_MAP | class::TUPLE;
        self.ask_class(val, mask, Asked::Class, what, span)
    }

    /// Asks whether a type written in the signature has a traced associated function of this name.
    pub(super) fn ask_associated(&mut self, ty: &TokenStream, name: &str, what: &str, span: Span) {
        let (rt, mark) = (self.rt, mark_of(name));
        self.ask_callee(ours!(<#ty>::#mark(#rt::some())), what, span, vec![mark]);
    }

    /// Lets rustc refuse a path that is called and is not a constructor.
    pub(super) fn ask_constructor(&mut self, path: &Path, what: &str, span: Span) {
        let rt = self.rt;
        let constructor = ours!({
            #[allow(unreachable_patterns)]
            let _ = || match #rt::some() { #path(..) => {} _ => {} };
            0i32
        });
        let val = Val::from(super::Ty::Scalar).with(Probe::exact(constructor));
        self.ask_class(&val, class::SCALAR, Asked::Class, what, span);
    }

    /// Asks whether a path is a traced function.
    ///
    /// A traced function has a type of the same path beside it, and a marker in that type.
    pub(super) fn ask_function(&mut self, path: &Path, what: &str, span: Span) -> bool {
        let Some(path) = self.importable(path, Importable::Function) else {
            return false;
        };
        let rt = self.rt;
        let tokens = ours! {{
            use #rt::unmarked::*;
            {
                use #path as __Traced;
                {
                    use __Traced::*;
                    (&&#rt::Probe(&__TRACED)).marked()
                }
            }
        }};
        self.ask_callee(tokens, what, span, Vec::new());
        true
    }

    /// Asks whether a path such as `f` in `f::vjp` is a traced function.
    ///
    /// It may be a module with a function named `vjp` instead.
    pub(super) fn ask_companion(&mut self, owner: &Path, what: &str, span: Span) -> bool {
        let Some(owner) = self.importable(owner, Importable::Function) else {
            return false;
        };
        let rt = self.rt;
        let tokens = ours! {{
            use #rt::unmarked::*;
            {
                use #owner::*;
                (&&#rt::Probe(&__TRACED)).marked()
            }
        }};
        self.ask_callee(tokens, what, span, Vec::new());
        true
    }

    /// Returns a path in a form that `use` accepts outside of the body.
    pub(super) fn importable(&self, path: &Path, kind: Importable) -> Option<Path> {
        if self.is_hidden(path) {
            return None;
        }
        let mut path = path.clone();
        let first = path.segments.first().map(|s| unraw(&s.ident))?;
        if first == "Self" {
            return None;
        }
        for segment in &mut path.segments {
            // Associated functions cannot be imported.
            let name = unraw(&segment.ident);
            segment.arguments = syn::PathArguments::None;
            if kind == Importable::Type {
                continue;
            }
            if name.starts_with(char::is_uppercase) || name == "str" || NUMBERS.contains(&&*name) {
                return None;
            }
        }
        Some(path)
    }
}
