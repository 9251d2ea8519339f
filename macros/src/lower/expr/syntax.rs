//! Syntactic queries on host code.

use proc_macro2::Ident;
use std::collections::BTreeSet;
use syn::Expr;
use syn::visit::Visit;

/// Host code that may assign to locals.
pub(in crate::lower) trait HostAssignments {
    fn assigned(&self) -> Vec<Ident>;
}

macro_rules! assigns {
    ($($ty:ident: $visit:ident,)*) => {$(
        impl HostAssignments for syn::$ty {
            fn assigned(&self) -> Vec<Ident> {
                let mut found = AssignedLocals::default();
                found.$visit(self);
                found.names
            }
        }
    )*};
}
assigns! {
    ExprIf: visit_expr_if,
    ExprMatch: visit_expr_match,
    ExprForLoop: visit_expr_for_loop,
    ExprWhile: visit_expr_while,
    ExprLoop: visit_expr_loop,
    ExprBlock: visit_expr_block,
}

/// Returns the names that an expression assigns to.
pub(in crate::lower) fn assigned(expr: &Expr) -> Vec<Ident> {
    let mut found = AssignedLocals::default();
    found.visit_expr(expr);
    found.names
}

#[derive(Default)]
struct AssignedLocals {
    names: Vec<Ident>,
    seen: BTreeSet<String>,
}

impl AssignedLocals {
    fn target(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(p) => {
                if let Some(ident) = p.path.get_ident()
                    && self.seen.insert(ident.to_string())
                {
                    self.names.push(ident.clone());
                }
            }
            Expr::Tuple(t) => t.elems.iter().for_each(|e| self.target(e)),
            Expr::Array(a) => a.elems.iter().for_each(|e| self.target(e)),
            Expr::Paren(p) => self.target(&p.expr),
            Expr::Field(f) => self.target(&f.base),
            Expr::Index(i) => self.target(&i.expr),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for AssignedLocals {
    fn visit_expr_assign(&mut self, e: &'ast syn::ExprAssign) {
        self.target(&e.left);
        syn::visit::visit_expr_assign(self, e);
    }
    fn visit_expr_binary(&mut self, e: &'ast syn::ExprBinary) {
        if crate::lower::stmt::is_compound(&e.op) {
            self.target(&e.left);
        }
        syn::visit::visit_expr_binary(self, e);
    }
    fn visit_expr_method_call(&mut self, e: &'ast syn::ExprMethodCall) {
        if super::inline::CHANGES.contains(&&*e.method.to_string()) {
            self.target(&e.receiver);
        }
        syn::visit::visit_expr_method_call(self, e);
    }
    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Returns whether an expression is a branch, a loop or an exit.
pub(in crate::lower) fn is_control(expr: &Expr) -> bool {
    match expr {
        Expr::If(_) | Expr::Match(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => true,
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Block(b) => b.label.is_some(),
        Expr::Macro(m) => is_panic(&m.mac),
        _ => false,
    }
}

/// Returns whether an expression contains a branch, a loop, an exit or a closure.
pub(in crate::lower) fn has_control(expr: &Expr) -> bool {
    struct Control(bool);
    impl<'ast> Visit<'ast> for Control {
        fn visit_expr(&mut self, e: &'ast Expr) {
            self.0 |= is_control(e) || matches!(e, Expr::Closure(_));
            syn::visit::visit_expr(self, e);
        }
        fn visit_stmt_macro(&mut self, m: &'ast syn::StmtMacro) {
            self.0 |= is_panic(&m.mac);
        }
        fn visit_item(&mut self, _: &'ast syn::Item) {}
    }
    let mut found = Control(false);
    found.visit_expr(expr);
    found.0
}

/// Returns whether a macro diverges.
pub(in crate::lower) fn is_panic(mac: &syn::Macro) -> bool {
    let name = mac.path.segments.last().map(|s| s.ident.to_string());
    let name = name.unwrap_or_default();
    ["panic", "unreachable", "unimplemented", "todo"].contains(&name.as_str())
}

/// Returns whether an expression contains `return` or `?`.
pub(in crate::lower) fn has_return(expr: &Expr) -> bool {
    struct Returns(bool);
    impl<'ast> Visit<'ast> for Returns {
        fn visit_expr_return(&mut self, _: &'ast syn::ExprReturn) {
            self.0 = true;
        }
        fn visit_expr_try(&mut self, _: &'ast syn::ExprTry) {
            self.0 = true;
        }
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_item(&mut self, _: &'ast syn::Item) {}
    }
    let mut found = Returns(false);
    found.visit_expr(expr);
    found.0
}

/// Returns whether control can leave an expression, for the end of the function or for a loop
/// around it.
pub(in crate::lower) fn exits(expr: &Expr) -> bool {
    struct Exits {
        found: bool,
        loops: usize,
        labels: Vec<String>,
    }
    impl Exits {
        fn leaves(&mut self, label: &Option<syn::Lifetime>) {
            self.found |= match label {
                Some(label) => !self.labels.contains(&label.ident.to_string()),
                None => self.loops == 0,
            };
        }
        fn within(
            &mut self,
            label: &Option<syn::Label>,
            is_loop: bool,
            visit: impl FnOnce(&mut Self),
        ) {
            let labelled = label.as_ref().map(|l| l.name.ident.to_string());
            let n = self.labels.len();
            self.labels.extend(labelled);
            self.loops += usize::from(is_loop);
            visit(self);
            self.loops -= usize::from(is_loop);
            self.labels.truncate(n);
        }
    }
    impl<'ast> Visit<'ast> for Exits {
        fn visit_expr_return(&mut self, _: &'ast syn::ExprReturn) {
            self.found = true;
        }
        fn visit_expr_await(&mut self, _: &'ast syn::ExprAwait) {
            self.found = true;
        }
        fn visit_expr_break(&mut self, e: &'ast syn::ExprBreak) {
            self.leaves(&e.label);
        }
        fn visit_expr_continue(&mut self, e: &'ast syn::ExprContinue) {
            self.leaves(&e.label);
        }
        fn visit_expr_for_loop(&mut self, e: &'ast syn::ExprForLoop) {
            self.within(&e.label, true, |v| syn::visit::visit_expr_for_loop(v, e));
        }
        fn visit_expr_while(&mut self, e: &'ast syn::ExprWhile) {
            self.within(&e.label, true, |v| syn::visit::visit_expr_while(v, e));
        }
        fn visit_expr_loop(&mut self, e: &'ast syn::ExprLoop) {
            self.within(&e.label, true, |v| syn::visit::visit_expr_loop(v, e));
        }
        fn visit_expr_block(&mut self, e: &'ast syn::ExprBlock) {
            self.within(&e.label, false, |v| syn::visit::visit_expr_block(v, e));
        }
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
        fn visit_item(&mut self, _: &'ast syn::Item) {}
    }
    let mut exits = Exits {
        found: false,
        loops: 0,
        labels: Vec::new(),
    };
    exits.visit_expr(expr);
    exits.found
}

pub(in crate::lower) fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(b) => has_let(&b.left) || has_let(&b.right),
        Expr::Paren(p) => has_let(&p.expr),
        _ => false,
    }
}

pub(in crate::lower) fn peel(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(p) => peel(&p.expr),
        Expr::Group(g) => peel(&g.expr),
        other => other,
    }
}

/// Returns the expression inside parentheses and references.
pub(in crate::lower) fn peel_references(expr: &Expr) -> &Expr {
    match peel(expr) {
        Expr::Reference(r) => peel_references(&r.expr),
        expr => expr,
    }
}
