//! What the macro knows of the type of a value, as far as purity asks for it.

use crate::known::{NUMBERS, class};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::rc::Rc;
use syn::{ExprClosure, ItemFn, Type};

/// The type of a value. References are the types that they refer to.
#[derive(Clone, Debug)]
pub(super) enum Ty {
    Tensor,
    Scalar,
    Text,
    Key,
    /// A range of numbers.
    Range,
    List(Box<Val>),
    /// A map in the order of its keys.
    Map(Box<Val>, Box<Val>),
    Option(Box<Val>),
    Tuple(Vec<Val>),
    Iter(Box<Val>),
    /// A closure, which is judged where it is called.
    Closure(Rc<Closure>),
    /// A function inside of the body, judged where it is called.
    Function(Rc<ItemFn>),
    /// A function that is known to be pure, and what it gives.
    Pure(Box<Val>),
    /// The pullback of a traced function.
    Pullback(Option<TokenStream>),
    /// What a transform makes of a function, which is judged where that is called.
    Transform(String, Box<Val>),
    /// A tensor or a number, whatever arithmetic makes of these operands.
    Arithmetic(Vec<TokenStream>),
    /// A type that the macro does not know.
    Opaque,
}

/// A closure, and the locals where it stands.
#[derive(Debug)]
pub(super) struct Closure {
    pub(super) source: ExprClosure,
    pub(super) scopes: Vec<Scope>,
}

/// The locals of a block.
pub(super) type Scope = BTreeMap<String, Val>;

/// A value.
#[derive(Clone, Debug)]
pub(super) struct Val {
    pub(super) ty: Ty,
    /// An expression of the same type that stands outside of the body.
    pub(super) probe: Option<Probe>,
}

/// An expression by which rustc is asked for a type.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) tokens: TokenStream,
    pub(super) fidelity: Fidelity,
    /// The number of fields on the way from a parameter.
    pub(super) depth: usize,
}

/// How much of the type of a value the expression for it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fidelity {
    /// It has the type.
    Exact,
    /// It may be a reference where the value is none, or the other way round.
    Behind,
    /// If the value is not what the macro takes it for, it has a type of no use: it may be asked for its type, and no more.
    Soft,
}

/// The most tokens of a question. A local that is used twice by the next, and so on, would double them each time.
const MOST_TOKENS: usize = 2000;

impl Probe {
    /// The expression, unless it is too long to ask by.
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
        Val { ty, probe: None }
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

    /// The tokens that rustc may be asked by.
    pub(super) fn tokens(&self) -> Option<&TokenStream> {
        self.probe.as_ref().map(|probe| &probe.tokens)
    }

    /// The tokens of an expression that has this type, and not a reference to it.
    pub(super) fn exact(&self) -> Option<&TokenStream> {
        let probe = self
            .probe
            .as_ref()
            .filter(|probe| probe.fidelity == Fidelity::Exact);
        probe.map(|probe| &probe.tokens)
    }

    /// The tokens of an expression that has this type, or a reference to it.
    pub(super) fn firm(&self) -> Option<&TokenStream> {
        let probe = self
            .probe
            .as_ref()
            .filter(|probe| probe.fidelity != Fidelity::Soft);
        probe.map(|probe| &probe.tokens)
    }

    /// The bit of the class, if the macro knows it.
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
            | Ty::Pullback(_) => return None,
            Ty::Arithmetic(_) | Ty::Opaque => return None,
        })
    }

    /// Adds what another value of the same type says of it.
    pub(super) fn unify(&mut self, other: &Val) {
        if matches!(self.ty, Ty::Opaque) {
            // A list of rustc's answers is worth less than the macro's own knowledge.
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

/// What a written type says.
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
