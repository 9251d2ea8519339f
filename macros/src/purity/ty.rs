//! Types of values, as far as purity depends on them.

use super::CallPosition;
use crate::method_table::{NUMBERS, class};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::rc::Rc;
use syn::{ExprClosure, ItemFn, Type};

/// Type of a value. A reference has the type that it refers to.
#[derive(Clone, Debug)]
pub(super) enum Ty {
    Tensor,
    Scalar,
    Text,
    Key,
    /// Range of numbers.
    Range,
    List(Box<Val>),
    /// Map ordered by key.
    Map(Box<Val>, Box<Val>),
    Option(Box<Val>),
    Tuple(Vec<Val>),
    Iter(Box<Val>),
    /// Closure, judged when it is called.
    Closure(Rc<Closure>),
    /// Function in the body, judged when it is called.
    Function(Rc<ItemFn>),
    /// Function known to be pure, with its result.
    Pure(Box<Val>),
    /// Pullback of a traced function.
    Pullback(Option<TokenStream>),
    /// Function returned by a transform, judged when it is called.
    Transform(String, Box<Val>),
    /// Functions of which one is called, judged when it is.
    Branches(Vec<Val>),
    /// Tensor or number: the result of arithmetic on these operands, or on operands that rustc knows
    /// in the body only.
    Arithmetic(Option<Vec<TokenStream>>),
    /// Type that the macro does not know.
    Opaque,
}

/// Closure with the scopes at its definition.
#[derive(Debug)]
pub(super) struct Closure {
    pub(super) source: ExprClosure,
    pub(super) scopes: Vec<Scope>,
}

/// Locals of a block.
pub(super) type Scope = BTreeMap<String, Val>;

/// Abstract value: the known type, and an expression for asking rustc.
#[derive(Clone, Debug)]
pub(super) struct Val {
    pub(super) ty: Ty,
    /// Expression of the same type that is valid outside of the body.
    pub(super) probe: Option<Probe>,
    /// Place in the copy of the body where the value is used.
    pub(super) at: Option<CallPosition>,
}

/// Expression through which rustc is asked for a type.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) tokens: TokenStream,
    pub(super) fidelity: Fidelity,
    /// Number of field accesses from a parameter.
    pub(super) depth: usize,
}

/// Relation of a probe's type to the type of the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fidelity {
    /// The types are equal.
    Exact,
    /// The types are equal up to references.
    Behind,
    /// The type is the one that the macro expects the value to have. Only questions about its class
    /// are allowed, because the macro may be wrong.
    Soft,
}

/// Maximum number of tokens of a question.
///
/// A probe repeats those of its operands, so a chain of locals that are each used twice would grow
/// exponentially.
const MOST_TOKENS: usize = 2000;

impl Probe {
    /// Returns a probe of the exact type, unless it is too long.
    pub(super) fn exact(tokens: TokenStream) -> Option<Probe> {
        (n_tokens(&tokens) <= MOST_TOKENS).then_some(Probe {
            tokens,
            fidelity: Fidelity::Exact,
            depth: 9,
        })
    }
}

fn n_tokens(tokens: &TokenStream) -> usize {
    let each = tokens.clone().into_iter().map(|token| match token {
        TokenTree::Group(group) => 2 + n_tokens(&group.stream()),
        _ => 1,
    });
    each.sum()
}

impl From<Ty> for Val {
    fn from(ty: Ty) -> Val {
        Val {
            ty,
            probe: None,
            at: None,
        }
    }
}

impl Val {
    pub(super) fn unknown() -> Val {
        Ty::Opaque.into()
    }

    pub(super) fn nothing() -> Val {
        Ty::Tuple(Vec::new()).into()
    }

    pub(super) fn list(elem: Val) -> Val {
        Ty::List(Box::new(elem)).into()
    }

    pub(super) fn iter(elem: Val) -> Val {
        Ty::Iter(Box::new(elem)).into()
    }

    pub(super) fn option(elem: Val) -> Val {
        Ty::Option(Box::new(elem)).into()
    }

    pub(super) fn with(mut self, probe: Option<Probe>) -> Val {
        self.probe = probe;
        self
    }

    /// Returns the value as it is used at a place in the body.
    pub(super) fn at(mut self, at: CallPosition) -> Val {
        self.at = Some(at);
        self
    }

    /// Returns a value of which only the place of another one is known.
    pub(super) fn at_place_of(other: &Val) -> Val {
        Val {
            at: other.at,
            ..Val::unknown()
        }
    }

    /// Returns whether rustc has to be asked about a part of the value, but cannot be by a probe.
    pub(super) fn is_unprobed(&self) -> bool {
        match &self.ty {
            Ty::Opaque => self.firm().is_none(),
            Ty::List(elem) | Ty::Option(elem) | Ty::Iter(elem) => elem.is_unprobed(),
            Ty::Map(k, v) => k.is_unprobed() || v.is_unprobed(),
            Ty::Tuple(parts) => parts.iter().any(Val::is_unprobed),
            _ => false,
        }
    }

    /// Returns the value with a probe, also for the parts of a tuple.
    pub(super) fn with_parts(mut self, probe: Option<Probe>) -> Val {
        if let (Ty::Tuple(parts), Some(probe)) = (&mut self.ty, &probe) {
            for (i, part) in parts.iter_mut().enumerate() {
                let (e, i) = (&probe.tokens, syn::Index::from(i));
                let probe = Probe {
                    tokens: ours!((#e).#i),
                    depth: probe.depth + 1,
                    ..probe.clone()
                };
                *part = std::mem::replace(part, Val::unknown()).with_parts(Some(probe));
            }
        }
        self.with(probe)
    }

    /// Returns whether it is a function that is judged when it is called.
    pub(super) fn is_judged_later(&self) -> bool {
        matches!(
            self.ty,
            Ty::Closure(_) | Ty::Function(_) | Ty::Transform(..) | Ty::Branches(_)
        )
    }

    /// Returns whether it is a function.
    pub(super) fn is_function(&self) -> bool {
        self.is_judged_later() || matches!(self.ty, Ty::Pure(_) | Ty::Pullback(_))
    }

    /// Returns the tokens of the probe.
    pub(super) fn tokens(&self) -> Option<&TokenStream> {
        self.probe.as_ref().map(|probe| &probe.tokens)
    }

    /// Returns the tokens of a probe with exactly this type.
    pub(super) fn exact(&self) -> Option<&TokenStream> {
        let probe = self
            .probe
            .as_ref()
            .filter(|probe| probe.fidelity == Fidelity::Exact);
        probe.map(|probe| &probe.tokens)
    }

    /// Returns the tokens of a probe with this type, up to references.
    pub(super) fn firm(&self) -> Option<&TokenStream> {
        let probe = self
            .probe
            .as_ref()
            .filter(|probe| probe.fidelity != Fidelity::Soft);
        probe.map(|probe| &probe.tokens)
    }

    /// Returns the bit of the type's class, if the macro knows it.
    pub(super) fn class(&self) -> Option<u32> {
        Some(match &self.ty {
            Ty::Tensor => class::TENSOR,
            Ty::Scalar => class::SCALAR,
            Ty::Text => class::TEXT,
            Ty::Key => class::KEY,
            Ty::Range => class::RANGE,
            Ty::List(_) => class::LIST,
            Ty::Map(..) => class::MAP,
            Ty::Option(_) => class::OPTION,
            Ty::Tuple(_) => class::TUPLE,
            Ty::Iter(_) => class::ITER,
            Ty::Closure(_)
            | Ty::Function(_)
            | Ty::Pure(_)
            | Ty::Transform(..)
            | Ty::Branches(_)
            | Ty::Pullback(_) => return None,
            Ty::Arithmetic(_) | Ty::Opaque => return None,
        })
    }

    /// Adds what is known of another value of the same type.
    pub(super) fn unify(&mut self, other: &Val) {
        if matches!(self.ty, Ty::Opaque) {
            // The macro's own knowledge is worth more than a probe.
            if !matches!(other.ty, Ty::Opaque) || self.probe.is_none() {
                *self = other.clone();
            }
            return;
        }
        match (&mut self.ty, &other.ty) {
            (Ty::List(a) | Ty::Iter(a), Ty::List(b) | Ty::Iter(b))
            | (Ty::Option(a), Ty::Option(b)) => a.unify(b),
            (Ty::Map(a, c), Ty::Map(b, d)) => {
                a.unify(b);
                c.unify(d);
            }
            (Ty::Tuple(a), Ty::Tuple(b)) => a.iter_mut().zip(b).for_each(|(a, b)| a.unify(b)),
            (Ty::Arithmetic(_), Ty::Tensor | Ty::Scalar) => *self = other.clone(),
            _ => {}
        }
        if self.probe.is_none() {
            self.probe = other.probe.clone();
        }
    }
}

/// Returns the type that a written type denotes.
pub(super) fn written(ty: &Type) -> Ty {
    let boxed = |ty: &Type| Box::new(Val::from(written(ty)));
    match ty {
        Type::Reference(r) => written(&r.elem),
        Type::Paren(p) => written(&p.elem),
        Type::Group(g) => written(&g.elem),
        Type::Slice(s) => Ty::List(boxed(&s.elem)),
        Type::Array(a) => Ty::List(boxed(&a.elem)),
        Type::Tuple(t) => Ty::Tuple(t.elems.iter().map(|ty| written(ty).into()).collect()),
        Type::Path(p) if p.qself.is_none() => {
            let Some(last) = p.path.segments.last() else {
                return Ty::Opaque;
            };
            let args: Vec<&Type> = match &last.arguments {
                syn::PathArguments::AngleBracketed(args) => {
                    let types = args.args.iter().filter_map(|arg| match arg {
                        syn::GenericArgument::Type(ty) => Some(ty),
                        _ => None,
                    });
                    types.collect()
                }
                _ => Vec::new(),
            };
            let name = last.ident.to_string();
            match (&*name, &args[..]) {
                (name, []) if NUMBERS.contains(&name) => Ty::Scalar,
                ("DType" | "Ordering" | "Duration" | "RangeFull", []) => Ty::Scalar,
                ("str" | "String", []) => Ty::Text,
                ("Tensor", []) => Ty::Tensor,
                ("Key", []) => Ty::Key,
                ("Vec" | "VecDeque", [ty]) => Ty::List(boxed(ty)),
                ("BTreeMap", [k, v]) => Ty::Map(boxed(k), boxed(v)),
                ("Option", [ty]) | ("Result", [ty, ..]) => Ty::Option(boxed(ty)),
                ("Box", [ty]) => match written(ty) {
                    Ty::Opaque => Ty::Opaque,
                    known => known,
                },
                ("Range" | "RangeInclusive", [ty]) => match written(ty) {
                    Ty::Scalar => Ty::Range,
                    _ => Ty::Opaque,
                },
                _ => Ty::Opaque,
            }
        }
        _ => Ty::Opaque,
    }
}
