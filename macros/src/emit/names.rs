//! Names of the emitted items, and the lints of rustc that these names violate.

use crate::input::{Func, Owner, text};
use proc_macro2::{Ident, TokenStream};
use syn::{GenericParam, PathArguments, Type};

/// Names of all items emitted for a function.
pub(crate) struct ItemNames {
    pub(crate) vjp: Ident,
    pub(crate) jvp: Ident,
    pub(crate) forward: Ident,
    pub(crate) grad: Ident,
    pub(crate) value_and_grad: Ident,
    pub(crate) hvp: Ident,
    pub(crate) vmap: Ident,
    pub(crate) program: Ident,
    pub(crate) hash: Ident,
    pub(crate) cost: Ident,
    pub(crate) points: Ident,
    pub(crate) kernels: Ident,
    pub(crate) recorded: Ident,
    /// Facts without callees.
    pub(crate) own_facts: Ident,
    /// Functions that return the marker type, and the one that returns the markers of the callees.
    pub(crate) facts: Ident,
    pub(crate) typed: Ident,
    pub(crate) callees: Ident,
    /// Marker type of a method.
    pub(crate) marker: Ident,
    /// Reason of a function with callees, as text.
    pub(crate) why: Ident,
    pub(crate) internal_fwd: Ident,
    /// Function that starts a caller's reverse mode with respect to the public parameters only.
    pub(crate) internal_own: Ident,
    /// `forward` with respect to all parameters that callers may differentiate, and its struct.
    pub(crate) callers_forward: Ident,
    pub(crate) callers_saved: Ident,
    pub(crate) internal_jvp: Ident,
    pub(crate) internal_hvp: Ident,
    pub(crate) annotations: Ident,
    /// Function that queries rustc for types.
    pub(crate) answers: Ident,
    /// Constant that is true if rustc confirms all queries.
    pub(crate) pure: Ident,
    /// Copy of the body that queries rustc for types.
    pub(crate) spots: Ident,
    /// Functions that register the compiled loops of all companions, and of those in reverse mode,
    /// in forward mode and of second order.
    pub(crate) loops: Ident,
    pub(crate) reverse_loops: Ident,
    pub(crate) forward_loops: Ident,
    pub(crate) second_loops: Ident,
    pub(crate) saved: Ident,
    pub(crate) grads: Ident,
    /// Function that the tests of `check` call, and their module.
    pub(crate) check: Ident,
    pub(crate) checks: Ident,
}

impl ItemNames {
    pub(crate) fn new(func: &Func) -> ItemNames {
        let span = func.sig.ident.span();
        let name = func.name();
        let camel: String = name.split('_').map(capital).collect();
        let (owner, lower, upper, hidden) = match &func.owner {
            None => (String::new(), String::new(), String::new(), "__".to_owned()),
            Some(owner) => (
                type_name(owner),
                format!("{name}_"),
                format!("{}_", name.to_uppercase()),
                format!("__traced_{name}_"),
            ),
        };
        let ident = |name: String| Ident::new(&name, span);
        ItemNames {
            vjp: ident(format!("{lower}vjp")),
            jvp: ident(format!("{lower}jvp")),
            forward: ident(if func.owner.is_some() {
                format!("{lower}saved")
            } else {
                "saved".to_owned()
            }),
            grad: ident(format!("{lower}grad")),
            value_and_grad: ident(format!("{lower}value_and_grad")),
            hvp: ident(format!("{lower}hvp")),
            vmap: ident(format!("{lower}vmap")),
            program: ident(format!("{upper}PROGRAM")),
            hash: ident(format!("{upper}HASH")),
            cost: ident(format!("{upper}COST")),
            points: ident(format!("{upper}POINTS")),
            kernels: ident(format!("{upper}KERNELS")),
            recorded: ident(format!("{upper}RECORDED")),
            own_facts: ident(format!("__{upper}OWN")),
            facts: ident(format!("{hidden}facts")),
            typed: ident(format!("{hidden}typed")),
            callees: ident(format!("{hidden}callees")),
            marker: ident(format!("__{owner}{camel}Facts")),
            why: ident(format!("__{upper}WHY")),
            internal_fwd: ident(format!("{hidden}fwd")),
            internal_own: ident(format!("{hidden}own")),
            callers_forward: ident(format!("{hidden}saved")),
            callers_saved: ident(format!("__{owner}{camel}Saved")),
            internal_jvp: ident(format!("{hidden}jvp")),
            internal_hvp: ident(format!("{hidden}hvp")),
            loops: ident(format!("{hidden}loops")),
            reverse_loops: ident(format!("{hidden}reverse_loops")),
            forward_loops: ident(format!("{hidden}forward_loops")),
            second_loops: ident(format!("{hidden}second_loops")),
            annotations: ident(format!("__{upper}ANNOTATIONS")),
            answers: ident(format!("{hidden}answers")),
            pure: ident(format!("__{upper}PURE")),
            spots: ident(format!("{hidden}spots")),
            saved: ident(format!("{owner}{camel}Saved")),
            grads: ident(format!("{owner}{camel}Grads")),
            check: ident(format!("__{}{name}_check", snake(&owner))),
            checks: ident(format!("{}{name}_checks", snake(&owner))),
        }
    }
}

fn capital(part: &str) -> String {
    let mut chars = part.chars();
    chars
        .next()
        .map(|c| c.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

/// Returns `linear_` for `Linear`, and an empty string for an empty name.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    if !out.is_empty() {
        out.push('_');
    }
    out
}

/// Returns the name of the type of an impl block, with the types in it that are not parameters:
/// `LayerF32` for `impl Layer<f32>`, and `Layer` for `impl<T> Layer<T>`.
fn type_name(owner: &Owner) -> String {
    let Type::Path(p) = &owner.self_ty else {
        return String::new();
    };
    let Some(last) = p.path.segments.last() else {
        return String::new();
    };
    let mut name = last.ident.to_string();
    if let PathArguments::AngleBracketed(args) = &last.arguments {
        let params = owner.generics.params.iter().map(|param| match param {
            GenericParam::Type(param) => param.ident.to_string(),
            GenericParam::Const(param) => param.ident.to_string(),
            GenericParam::Lifetime(param) => param.lifetime.to_string(),
        });
        let params: Vec<String> = params.collect();
        for arg in &args.args {
            let arg = text(arg);
            if !params.contains(&arg) && !arg.starts_with('\'') {
                let words = arg.split(|c: char| !c.is_alphanumeric());
                name.extend(words.map(capital));
            }
        }
    }
    name
}

/// Allows lints that generated code cannot follow, because it uses the user's names and types.
pub(crate) fn allow() -> TokenStream {
    ours! {
        #[allow(
            warnings, unused, nonstandard_style, non_shorthand_field_patterns, missing_docs,
            missing_debug_implementations, unreachable_pub, unused_qualifications, unused_results, clippy::all,
            clippy::pedantic, arithmetic_overflow, unconditional_panic
        )]
    }
}
