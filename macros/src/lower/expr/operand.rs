//! Converts values to operands and static arguments of equations.

use super::op::{is_number, is_text};
use crate::input::text;
use crate::lower::host;
use crate::lower::{Abort, Cx, Host, LowerResult, Value};
use gradloom_ir::{Attr, Op, Static, StaticArg, StaticKind, Var};
use proc_macro2::{Ident, Span};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

impl Cx<'_> {
    /// Returns the variable of a value that is an operand; a number takes the dtype of `like`.
    pub(in crate::lower) fn tensor(&mut self, value: Value, like: Option<Var>) -> LowerResult<Var> {
        match value {
            Value::Tensor { var, .. } => Ok(var),
            Value::Place(place) => self.leaf(&place, like),
            Value::Host(host) if is_text(&host.expr) => self.recorded("text", host.expr.span()),
            Value::Host(host) => {
                if let (Some(like), true) = (like, is_number(&host)) {
                    let span = host.expr.span();
                    let value = match host::literal(&host.expr) {
                        Some(number) => self.builder.b.attr(number),
                        None => {
                            let arg = StaticKind::Number.named("value");
                            self.static_by("number_arg", host, arg, span)
                        }
                    };
                    return self
                        .emit(Op::Scalar, &[value], vec![], vec![like], 1, span)
                        .map(|v| v[0]);
                }
                self.constant(&host, like)
            }
            Value::Tuple(_) => Err(Abort::Recorded("a tuple is used as a tensor".to_owned())),
            Value::Closure(_) => Err(Abort::Recorded("a closure is used as a tensor".to_owned())),
            // rustc reports that it has no value.
            Value::Uninit(_) | Value::Never => Err(Abort::Recorded(
                "a value that is not initialised".to_owned(),
            )),
            Value::Poison => Err(Abort::Error),
        }
    }

    /// Returns a static argument; a value that is not a literal is bound to a local.
    pub(in crate::lower) fn statik(&mut self, host: Host, arg: StaticArg, span: Span) -> Attr {
        self.static_by("static_arg", host, arg, span)
    }

    /// Returns a static argument that a function of the run time converts.
    fn static_by(&mut self, by: &str, host: Host, arg: StaticArg, span: Span) -> Attr {
        if let Some(known) = host::literal_static(&host.expr) {
            return self.builder.b.attr(known);
        }
        let value = match self.dims_of_list(&host) {
            Some(dims) if matches!(arg.kind, StaticKind::Shape | StaticKind::Reshape) => {
                Static::Dims(text(&host.expr), dims)
            }
            _ => Static::Host(text(&host.expr)),
        };
        let attr = self.builder.b.attr(value);
        let ident = self.host_ident(&Ident::new(arg.name, Span::mixed_site()));
        let (rt, expr) = (&self.rt, &host.expr);
        let by = Ident::new(by, span);
        let call = quote_spanned!(span=> #rt::#by);
        self.builder
            .push_host(host.reads, quote!(let #ident = #call(#expr);));
        self.builder
            .static_hosts
            .insert(attr, self.builder.hosts.len() - 1);
        self.builder.statics.insert(attr, ident);
        attr
    }
}
