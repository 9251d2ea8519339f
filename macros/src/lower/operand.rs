//! Converts values to operands and static arguments of equations.

use super::host;
use super::op::is_text;
use super::{Cx, Host, R, Stop, Value};
use crate::parse::text;
use gradloom_ir::{Attr, Op, Static, StaticArg, StaticKind, Var};
use proc_macro2::{Ident, Span};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Returns the variable of a value that is an operand; a number takes the dtype of `like`.
    pub(super) fn tensor(&mut self, value: Value, like: Option<Var>) -> R<Var> {
        match value {
            Value::Tensor { var, .. } => Ok(var),
            Value::Place(place) => self.leaf(&place, like),
            Value::Host(host) if is_text(&host.expr) => self.recorded("text", host.expr.span()),
            Value::Host(host) => {
                if let (Some(like), true) =
                    (like, host.number || host::literal(&host.expr).is_some())
                {
                    let span = host.expr.span();
                    // A number literal is a float until it takes the dtype of the tensor.
                    let value = match host::literal(&host.expr).and_then(|s| s.float()) {
                        Some(x) => self.b.attr(x),
                        None => self.statik(host, StaticKind::Number.named("value"), span),
                    };
                    return self
                        .emit(Op::Scalar, &[value], vec![], vec![like], 1, span)
                        .map(|v| v[0]);
                }
                Ok(self.constant(&host, like))
            }
            Value::Tuple(_) => Err(Stop::Recorded("a tuple is used as a tensor".to_owned())),
            Value::Closure(_) => Err(Stop::Recorded("a closure is used as a tensor".to_owned())),
            // rustc reports that it has no value.
            Value::Uninit(_) | Value::Never => {
                Err(Stop::Recorded("a value that is not initialised".to_owned()))
            }
            Value::Poison => Err(Stop::Error),
        }
    }

    /// Returns a static argument; a value that is not a literal is bound to a local.
    pub(super) fn statik(&mut self, host: Host, arg: StaticArg, span: Span) -> Attr {
        if let Some(known) = host::literal(&host.expr) {
            return self.b.attr(known);
        }
        let value = match self.lens(&host) {
            Some(lens) if matches!(arg.kind, StaticKind::Shape | StaticKind::Reshape) => {
                Static::Dims(text(&host.expr), lens)
            }
            _ => Static::Host(text(&host.expr)),
        };
        let attr = self.b.attr(value);
        let ident = self.host_ident(&Ident::new(arg.name, Span::mixed_site()));
        let (private, expr) = (&self.krate, &host.expr);
        let call = quote_spanned!(span=> #private::statik);
        self.push_host(host.reads, quote!(let #ident = #call(#expr);));
        self.static_hosts.insert(attr, self.hosts.len() - 1);
        self.statics.insert(attr, ident);
        attr
    }
}
