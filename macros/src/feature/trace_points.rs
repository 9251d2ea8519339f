//! Trace points: the code that writes the named values of a body to disk, for the feature `trace`.
//!
//! The body of the user's function gets a statement after each `let` and assignment of a tensor, a
//! scope for its own part of the names, and a counter in each loop. Nothing else is emitted, and
//! without the feature nothing at all. A plan that is found does not run the body.
//!
//! rustc selects the code of a statement by the type of the value, so the type has to be known where
//! the statement stands. A value gets one only if it is computed from tensors, as far as can be
//! seen: by a method with the name of an op, by arithmetic, by a call that takes a tensor, or by a block, a branch or
//! a struct of these.

use crate::emit::shadow::are_emitted;
use crate::input::{Func, Kind, unraw};
use gradloom_ir::{Composite, Op};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, Pat, Stmt, UnOp};

/// Methods of iterators with a name of an op, whose result has a type that only its use tells.
const OF_ITERATORS: [&str; 2] = ["sum", "product"];

/// Adds trace points to the body of a function.
pub(crate) fn instrument(func: &Func, block: &mut Block, rt: &TokenStream) {
    if !are_emitted() {
        return;
    }
    let mut counter = IdentCounter::default();
    counter.count(block.to_token_stream());
    let params = func
        .params
        .iter()
        .filter(|p| matches!(p.kind, Kind::Tensor | Kind::Tree));
    let mut points = PointVisitor {
        rt,
        mentions: counter.0,
        tensors: params.map(|p| unraw(&p.ident)).collect(),
        methods: &methods(),
    };
    points.visit_block_mut(block);
    let name = segment(func);
    let scope = ours!(let _scope = #rt::enter_function(#name););
    // Clippy wants items before statements.
    let items = block
        .stmts
        .iter()
        .take_while(|stmt| matches!(stmt, Stmt::Item(_)))
        .count();
    block
        .stmts
        .insert(items, Stmt::Expr(Expr::Verbatim(scope), None));
}

/// Returns the part of the path for a function: `dense`, `attention` for `Attention::forward`, and
/// `attention.scores` for `Attention::scores`.
fn segment(func: &Func) -> String {
    let name = func.name();
    let Some(owner) = &func.owner else {
        return name;
    };
    let syn::Type::Path(path) = &owner.self_ty else {
        return name;
    };
    let Some(last) = path.path.segments.last() else {
        return name;
    };
    let owner = snake_case(&unraw(&last.ident));
    match &*name {
        "forward" => owner,
        name => format!("{owner}.{name}"),
    }
}

/// Returns a name of a type as that of a function: `MultiHead` becomes `multi_head`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut follows_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && follows_lower {
            snake.push('_');
        }
        follows_lower = !c.is_uppercase();
        snake.extend(c.to_lowercase());
    }
    snake
}

/// Returns the names of the methods that compute a tensor.
fn methods() -> BTreeSet<&'static str> {
    let ops = Op::ALL.iter().flat_map(|op| op.def().methods());
    let ops = ops.map(|method| method.name);
    let composites = Composite::ALL.iter().map(|method| method.name);
    ops.chain(composites)
        .chain(["i", "set", "add_at"])
        .collect()
}

/// Counts how often a body mentions each name.
#[derive(Default)]
struct IdentCounter(BTreeMap<String, usize>);

impl IdentCounter {
    fn count(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.count(group.stream()),
                proc_macro2::TokenTree::Ident(ident) => {
                    *self.0.entry(unraw(&ident)).or_default() += 1;
                }
                _ => {}
            }
        }
    }
}

struct PointVisitor<'a> {
    rt: &'a TokenStream,
    mentions: BTreeMap<String, usize>,
    /// Names of locals and parameters that are tensors.
    tensors: BTreeSet<String>,
    methods: &'a BTreeSet<&'static str>,
}

impl PointVisitor<'_> {
    /// Returns whether an expression is a local that is a tensor, or computes one from tensors.
    fn is_tensor(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(path) => {
                let ident = path.path.get_ident();
                ident.is_some_and(|ident| self.tensors.contains(&unraw(ident)))
            }
            Expr::Paren(e) => self.is_tensor(&e.expr),
            Expr::Group(e) => self.is_tensor(&e.expr),
            Expr::Reference(e) => self.is_tensor(&e.expr),
            Expr::Field(e) => self.is_tensor(&e.base),
            Expr::Index(e) => self.is_tensor(&e.expr),
            Expr::Try(e) => self.is_tensor(&e.expr),
            Expr::Unary(e) => matches!(e.op, UnOp::Neg(_)) && self.is_tensor(&e.expr),
            Expr::Binary(e) => {
                let arithmetic = matches!(
                    e.op,
                    BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_)
                );
                arithmetic && (self.is_tensor(&e.left) || self.is_tensor(&e.right))
            }
            Expr::MethodCall(call) => {
                let name = unraw(&call.method);
                let of_iterator = OF_ITERATORS.contains(&&*name) && call.args.is_empty();
                self.methods.contains(&*name) && !of_iterator
                    || name == "clone" && self.is_tensor(&call.receiver)
                    || call.args.iter().any(|arg| self.is_tensor(arg))
            }
            Expr::Call(call) => {
                self.is_op(&call.func)
                    || !is_empty_container(&call.func)
                        && call.args.iter().any(|arg| self.is_tensor(arg))
            }
            Expr::Block(e) => self.ends_in_tensor(&e.block),
            Expr::If(e) => {
                let otherwise = e.else_branch.as_ref();
                self.ends_in_tensor(&e.then_branch)
                    || otherwise.is_some_and(|(_, branch)| self.is_tensor(branch))
            }
            Expr::Match(e) => e.arms.iter().any(|arm| self.is_tensor(&arm.body)),
            Expr::Struct(e) => e.fields.iter().any(|field| self.is_tensor(&field.expr)),
            Expr::Tuple(e) => !e.elems.is_empty() && e.elems.iter().all(|x| self.is_tensor(x)),
            _ => false,
        }
    }

    /// Returns whether an expression is made of parts of a tensor or a tree, such as `layers.iter().zip(&caches)`.
    fn is_of_parts(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Paren(e) => self.is_of_parts(&e.expr),
            Expr::Reference(e) => self.is_of_parts(&e.expr),
            Expr::Try(e) => self.is_of_parts(&e.expr),
            Expr::Tuple(e) => e.elems.iter().any(|x| self.is_of_parts(x)),
            Expr::MethodCall(call) => {
                let mut parts = std::iter::once(&*call.receiver).chain(&call.args);
                parts.any(|part| self.is_of_parts(part))
            }
            _ => self.is_tensor(expr),
        }
    }

    /// Notes that a pattern binds parts of a value.
    fn bind_parts(&mut self, pat: &Pat, of: &Expr) {
        let are_tensors = self.is_of_parts(of);
        self.forget(pat);
        if are_tensors {
            self.tensors.extend(bound(pat).iter().map(unraw));
        }
    }

    /// Returns whether a path is that of an op, such as `Tensor::stack`.
    fn is_op(&self, func: &Expr) -> bool {
        let Expr::Path(path) = func else {
            return false;
        };
        let mut names = path
            .path
            .segments
            .iter()
            .rev()
            .map(|part| unraw(&part.ident));
        let (name, ty) = (names.next(), names.next());
        ty.is_some_and(|ty| ty == "Tensor")
            && name.is_some_and(|name| self.methods.contains(&*name))
    }

    fn ends_in_tensor(&self, block: &Block) -> bool {
        let Some((Stmt::Expr(last, None), stmts)) = block.stmts.split_last() else {
            return false;
        };
        let mut inside = PointVisitor {
            mentions: BTreeMap::new(),
            tensors: self.tensors.clone(),
            ..*self
        };
        for stmt in stmts {
            inside.names_of(stmt);
        }
        inside.is_tensor(last)
    }

    /// Appends the names that a pattern binds to tensors.
    fn tensors_of(&self, pat: &Pat, expr: &Expr, found: &mut Vec<Ident>) {
        match (pat, expr) {
            (Pat::Tuple(pat), Expr::Tuple(expr)) if pat.elems.len() == expr.elems.len() => {
                for (pat, expr) in pat.elems.iter().zip(&expr.elems) {
                    self.tensors_of(pat, expr, found);
                }
            }
            (Pat::Type(pat), _) if is_tensor_type(&pat.ty) => found.extend(bound(&pat.pat)),
            _ if self.is_tensor(expr) => found.extend(bound(pat)),
            _ => {}
        }
    }

    /// Returns the statement that writes a value.
    fn point(&self, ident: &Ident) -> Stmt {
        let (rt, name, at) = (self.rt, unraw(ident), ident.span().start());
        let line = Literal::usize_unsuffixed(at.line);
        let column = Literal::usize_unsuffixed(at.column + 1);
        // `file!` returns the file of its call site, so the call has the user's span.
        let file = quote_spanned!(ident.span()=> ::core::file!());
        let point = ours! {
            {
                use #rt::{TracePoint as _, TracePointOfRef as _, UntracedPoint as _};
                (&&&#rt::PointArg(&#ident)).trace_point(#name, (#file, #line, #column));
            }
        };
        Stmt::Expr(Expr::Verbatim(point), None)
    }

    /// Forgets the names of a pattern, which may bind other things.
    fn forget(&mut self, pat: &Pat) {
        for name in bound(pat) {
            self.tensors.remove(&unraw(&name));
        }
    }

    /// Returns the names that a statement binds to tensors, and notes them.
    fn names_of(&mut self, stmt: &Stmt) -> Vec<Ident> {
        match stmt {
            Stmt::Local(local) => {
                let mut found = Vec::new();
                if let Some(init) = &local.init {
                    self.tensors_of(&local.pat, &init.expr, &mut found);
                }
                let is_alias = local.init.as_ref().is_some_and(|init| is_place(&init.expr));
                self.forget(&local.pat);
                self.tensors.extend(found.iter().map(unraw));
                // A point is a use, so a value that is not used otherwise would lose its warning.
                let used = |name: &Ident| self.mentions.get(&unraw(name)).is_some_and(|n| *n > 1);
                let named = |name: &Ident| !unraw(name).starts_with('_');
                found.retain(|name| !is_alias && named(name) && used(name));
                found
            }
            Stmt::Expr(Expr::Assign(e), Some(_)) if self.is_tensor(&e.right) => {
                self.assigned(&e.left)
            }
            Stmt::Expr(Expr::Binary(e), Some(_)) if is_compound(&e.op) => self.assigned(&e.left),
            _ => Vec::new(),
        }
    }

    /// Returns the name of a local that is assigned to, if it is a tensor.
    fn assigned(&self, left: &Expr) -> Vec<Ident> {
        match left {
            Expr::Path(path) if self.is_tensor(left) => {
                path.path.get_ident().cloned().into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns a loop that counts its iterations.
    fn counted(&self, mut expr: Expr) -> Expr {
        let rt = self.rt;
        let turns = Ident::new("turns", Span::mixed_site());
        let body = match &mut expr {
            Expr::ForLoop(e) => &mut e.body,
            Expr::While(e) => &mut e.body,
            Expr::Loop(e) => &mut e.body,
            _ => return expr,
        };
        let next = Expr::Verbatim(ours!(#turns.next();));
        body.stmts.insert(0, Stmt::Expr(next, None));
        let begin = Expr::Verbatim(ours!(let mut #turns = #rt::point_loop();));
        Expr::Block(syn::ExprBlock {
            attrs: Vec::new(),
            label: None,
            block: Block {
                brace_token: syn::token::Brace::default(),
                stmts: vec![Stmt::Expr(begin, None), Stmt::Expr(expr, None)],
            },
        })
    }
}

impl VisitMut for PointVisitor<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let outer = self.tensors.clone();
        let stmts = std::mem::take(&mut block.stmts);
        for mut stmt in stmts {
            self.visit_stmt_mut(&mut stmt);
            let names = self.names_of(&stmt);
            block.stmts.push(stmt);
            block
                .stmts
                .extend(names.iter().map(|name| self.point(name)));
        }
        self.tensors = outer;
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        // Constants run at compile time.
        if matches!(expr, Expr::Const(_)) {
            return;
        }
        visit_mut::visit_expr_mut(self, expr);
        if matches!(expr, Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_)) {
            let found = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
            *expr = self.counted(found);
        }
    }

    /// The type of a parameter of a closure may not be known in its body.
    fn visit_expr_closure_mut(&mut self, closure: &mut syn::ExprClosure) {
        let outer = self.tensors.clone();
        closure.inputs.iter().for_each(|pat| self.forget(pat));
        visit_mut::visit_expr_closure_mut(self, closure);
        self.tensors = outer;
    }

    fn visit_expr_for_loop_mut(&mut self, e: &mut syn::ExprForLoop) {
        self.visit_expr_mut(&mut e.expr);
        let outer = self.tensors.clone();
        self.bind_parts(&e.pat, &e.expr);
        self.visit_block_mut(&mut e.body);
        self.tensors = outer;
    }

    fn visit_expr_match_mut(&mut self, e: &mut syn::ExprMatch) {
        self.visit_expr_mut(&mut e.expr);
        for arm in &mut e.arms {
            let outer = self.tensors.clone();
            self.bind_parts(&arm.pat, &e.expr);
            visit_mut::visit_arm_mut(self, arm);
            self.tensors = outer;
        }
    }

    /// The condition binds names for the branch.
    fn visit_expr_if_mut(&mut self, e: &mut syn::ExprIf) {
        let outer = self.tensors.clone();
        self.visit_expr_mut(&mut e.cond);
        self.visit_block_mut(&mut e.then_branch);
        self.tensors = outer;
        if let Some((_, otherwise)) = &mut e.else_branch {
            self.visit_expr_mut(otherwise);
        }
    }

    fn visit_expr_let_mut(&mut self, e: &mut syn::ExprLet) {
        self.visit_expr_mut(&mut e.expr);
        self.bind_parts(&e.pat, &e.expr);
    }

    /// Skips items of the body, which are not part of the function.
    fn visit_item_mut(&mut self, _: &mut syn::Item) {}
}

/// Returns whether a function makes an empty container, whose element type only its use tells: `Vec::with_capacity`.
fn is_empty_container(func: &Expr) -> bool {
    let Expr::Path(path) = func else {
        return false;
    };
    let last = path.path.segments.last();
    last.is_some_and(|part| part.ident == "with_capacity")
}

/// Returns whether an expression is another name for a value, or for a part of it.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(e) => is_place(&e.base),
        Expr::Index(e) => is_place(&e.expr),
        Expr::Reference(e) => is_place(&e.expr),
        Expr::Paren(e) => is_place(&e.expr),
        _ => false,
    }
}

/// Returns the names that a pattern binds.
fn bound(pat: &Pat) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
            self.0.push(pat.ident.clone());
            syn::visit::visit_pat_ident(self, pat);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_pat(pat);
    names.0
}

/// Returns whether an operator is `+=` or its like.
fn is_compound(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_)
    )
}

fn is_tensor_type(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Reference(of) => is_tensor_type(&of.elem),
        syn::Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|s| s.ident == "Tensor"),
        _ => false,
    }
}
