//! Tensor expressions.

use super::scope::Ty;
use super::signature::{LAYER, Param, Ret, SHAPES, Shape};
use super::{Draft, MOST, MOST_OPS};

/// Syntactic form of an expression.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// A variable or field. True in `by_ref` if it is a reference.
    Place { by_ref: bool },
    /// A chain of method calls.
    Chain,
    /// An operator expression.
    Operator,
}

/// A tensor expression.
pub(super) struct Expr {
    text: String,
    form: Form,
    /// Upper bound of its magnitude.
    most: f64,
}

impl Expr {
    pub(super) fn place(text: String, by_ref: bool) -> Expr {
        Expr {
            text,
            form: Form::Place { by_ref },
            most: MOST,
        }
    }

    /// Returns the text as an operand of an operator, or as an argument.
    pub(super) fn operand(&self) -> String {
        match self.form {
            Form::Place { by_ref: true } | Form::Chain => self.text.clone(),
            Form::Place { by_ref: false } => format!("&{}", self.text),
            Form::Operator => format!("({})", self.text),
        }
    }

    /// Returns the text as a reference.
    pub(super) fn reference(&self) -> String {
        match self.form {
            Form::Place { .. } => self.operand(),
            Form::Chain => format!("&{}", self.text),
            Form::Operator => format!("&({})", self.text),
        }
    }

    /// Returns the text as an owned value.
    pub(super) fn owned(&self) -> String {
        match self.form {
            Form::Place { .. } => format!("{}.clone()", self.text),
            _ => self.text.clone(),
        }
    }

    /// Returns the text as the receiver of a method.
    pub(super) fn receiver(&self) -> String {
        match self.form {
            Form::Operator => format!("({})", self.text),
            _ => self.text.clone(),
        }
    }

    /// Replaces the placeholder `BY` with an argument.
    fn by(mut self, argument: &Expr) -> Expr {
        self.text = self.text.replace("BY", &argument.operand());
        self
    }

    fn method(&self, call: &str, most: f64) -> Expr {
        Expr {
            text: format!("«{}.{call}»", self.receiver()),
            form: Form::Chain,
            most,
        }
    }

    fn call(text: String, most: f64) -> Expr {
        Expr {
            text: format!("«{text}»"),
            form: Form::Chain,
            most,
        }
    }

    fn operator(text: String, most: f64) -> Expr {
        Expr {
            text: format!("«{text}»"),
            form: Form::Operator,
            most,
        }
    }
}

impl Draft<'_> {
    /// Writes a tensor expression of magnitude at most [`MOST`].
    pub(super) fn expr(&mut self, shape: Shape, depth: usize) -> Expr {
        let e = self.unbounded(shape, depth);
        self.bounded(e)
    }

    /// Picks a place that nothing assigns to, which a closure may borrow.
    pub(super) fn fixed_place(&mut self, shape: Shape) -> Option<Expr> {
        let places = self.scope.tensors(true);
        let places: Vec<_> = places.into_iter().filter(|p| p.2 == shape).collect();
        (!places.is_empty()).then(|| {
            let (text, by_ref, _) = self.rng.of(&places);
            Expr::place(text, by_ref)
        })
    }

    pub(super) fn bounded(&mut self, e: Expr) -> Expr {
        if e.most <= MOST {
            return e;
        }
        self.count();
        match self.rng.below(3) {
            0 if e.most <= 4.0 * MOST => Expr::operator(format!("{} * 0.25", e.operand()), MOST),
            1 if e.most <= 4.0 * MOST => e.method("sin()", 1.0),
            _ => e.method("tanh()", 1.0),
        }
    }

    fn count(&mut self) {
        self.ops += self.repeats;
    }

    fn leaf(&mut self, shape: Shape) -> Expr {
        let places = self.scope.tensors(false);
        let fitting: Vec<_> = places.iter().filter(|p| p.2 == shape).cloned().collect();
        if !fitting.is_empty() {
            let (text, by_ref, _) = self.recent(&fitting);
            return Expr::place(text, by_ref);
        }
        // Prefer a place that some op brings into the shape.
        let mut chosen = self.recent(&places);
        for _ in 0..4 {
            if !movements(chosen.2, shape).is_empty() {
                break;
            }
            chosen = self.rng.of(&places);
        }
        let (text, by_ref, from) = chosen;
        let place = Expr::place(text, by_ref);
        self.count();
        if let Some(moved) = self.moved(&place, from, shape) {
            return moved;
        }
        let mean = place.method("mean(..)", MOST);
        if shape.is_empty() {
            return mean;
        }
        self.count();
        mean.method(&format!("broadcast_to({shape:?})"), MOST)
    }

    /// Brings the elements into another shape, or returns `None` if no op does that.
    fn moved(&mut self, e: &Expr, from: Shape, to: Shape) -> Option<Expr> {
        let calls = movements(from, to);
        if calls.is_empty() {
            return None;
        }
        let call = self.rng.of(calls);
        let call = if call.is_empty() {
            format!("reshape({to:?})")
        } else {
            call.to_owned()
        };
        let n: usize = from.iter().product();
        let most = match call.split('(').next() {
            Some("sum") => e.most * n as f64,
            Some("logsumexp") => e.most + 2.2,
            Some("normalize") => 2.0 * n as f64,
            _ => e.most,
        };
        let moved = e.method(&call, most);
        self.count();
        Some(self.bounded(moved))
    }

    fn unbounded(&mut self, shape: Shape, depth: usize) -> Expr {
        if depth == 0 || self.ops > MOST_OPS {
            return self.leaf(shape);
        }
        self.count();
        match self.rng.below(20) {
            0..5 => self.unary(shape, depth),
            5..11 => self.binary(shape, depth),
            11..13 => self.matmul(shape, depth),
            13 | 14 => {
                let from = self.rng.of(&SHAPES);
                let e = self.expr(from, depth - 1);
                match self.moved(&e, from, shape) {
                    Some(moved) => moved,
                    None => self.unary(shape, depth),
                }
            }
            15 => self.joined(shape, depth),
            16 => self.select(shape, depth),
            17 => self.closure_call(shape, depth),
            _ => match self.call(&Ret::Tensor(shape), depth) {
                Some(text) => Expr::call(text, MOST),
                None => self.layer_call(shape, depth),
            },
        }
    }

    fn unary(&mut self, shape: Shape, depth: usize) -> Expr {
        let e = self.expr(shape, depth - 1);
        let b = e.most;
        match self.rng.below(18) {
            0 | 1 => e.method("sin()", 1.0),
            2 => e.method("cos()", 1.0),
            3 | 4 => e.method("tanh()", 1.0),
            5 => e.method("sigmoid()", 1.0),
            6 => e.method("erf()", 1.0),
            7 => e.method("square()", b * b),
            8 => e.method("gelu()", b),
            9 => e.method("softplus()", b + 0.7),
            10 => e.method("neg()", b),
            11 if b <= 1.0 => e.method("exp()", b.exp()),
            12 if b <= 1.0 => e.method("expm1()", b.exp()),
            // The divisor stays away from zero.
            13 => Expr::operator(
                format!("{} + 0.5", e.method("square()", b).text),
                b * b + 0.5,
            )
            .method(
                self.rng.of(&["sqrt()", "log()", "rsqrt()", "reciprocal()"]),
                MOST,
            ),
            14 => e.method("square()", b).method("log1p()", MOST),
            15 if !shape.is_empty() => e.method("softmax(-1)", 1.0),
            16 if !shape.is_empty() => e.method("log_softmax(-1)", 2.0 * b + 1.2),
            17 if !shape.is_empty() => e.method("normalize(-1, 0.5)", 2.0),
            _ => {
                let number = self.number();
                Expr::operator(format!("{} * {number}", e.operand()), 1.5 * b)
            }
        }
    }

    /// Returns a shape that broadcasts to `shape`.
    fn narrower(&mut self, shape: Shape) -> Shape {
        let narrower: &[Shape] = match shape {
            [] => &[&[]],
            [2] => &[&[2], &[2], &[]],
            [3] => &[&[3], &[3], &[]],
            [2, 2] => &[&[2, 2], &[2, 2], &[2], &[]],
            [2, 3] => &[&[2, 3], &[2, 3], &[3], &[]],
            [3, 2] => &[&[3, 2], &[3, 2], &[2], &[]],
            _ => &[&[3, 3], &[3, 3], &[3], &[]],
        };
        self.rng.of(narrower)
    }

    fn binary(&mut self, shape: Shape, depth: usize) -> Expr {
        let other = self.narrower(shape);
        let (mut a, mut b) = (self.expr(shape, depth - 1), self.expr(other, depth - 1));
        if a.text == b.text {
            b = self.unary(other, 1);
            b = self.bounded(b);
        }
        if self.rng.once_in(2) {
            (a, b) = (b, a);
        }
        let (x, y) = (a.operand(), b.operand());
        match self.rng.below(9) {
            0..3 => Expr::operator(format!("{x} + {y}"), a.most + b.most),
            3 | 4 => Expr::operator(format!("{x} - {y}"), a.most + b.most),
            5 | 6 => Expr::operator(format!("{x} * {y}"), a.most * b.most),
            7 => {
                let away = Expr::operator(format!("{} + 1.0", b.method("square()", 0.0).text), 0.0);
                Expr::operator(format!("{x} / {}", away.operand()), a.most)
            }
            _ => {
                let number = self.number();
                Expr::operator(
                    format!("{number} - {}", self.mixed(&a, &b)),
                    1.5 + a.most.max(b.most),
                )
            }
        }
    }

    /// Writes the next value of a loop variable, usually from its current value and another
    /// operand.
    pub(super) fn next(&mut self, name: &str, shape: Shape) -> Expr {
        let own = Expr::place(name.to_owned(), false);
        if self.rng.once_in(4) {
            return self.expr(shape, 2);
        }
        self.count();
        let other = self.narrower(shape);
        let e = self.expr(other, 1);
        let (x, y) = (own.operand(), e.operand());
        let next = match (self.rng.below(6), shape) {
            (0, [2, 3] | [3, 3]) => own.method("matmul(BY)", 27.0).by(&self.expr(SHAPES[6], 1)),
            (0 | 1, _) => Expr::operator(format!("{x} * {y}"), own.most * e.most),
            (2, _) => Expr::operator(format!("{y} - {x}"), own.most + e.most),
            _ => Expr::operator(format!("{x} + {y}"), own.most + e.most),
        };
        if self.rng.once_in(2) {
            let wave = self.rng.of(&["sin()", "cos()", "tanh()"]);
            return next.method(wave, 1.0);
        }
        self.bounded(next)
    }

    /// Writes a combination of two operands, in parentheses.
    fn mixed(&mut self, a: &Expr, b: &Expr) -> String {
        let (x, y) = (a.operand(), b.operand());
        Expr::operator(format!("«({x} + {y})» * 0.5"), 0.0).operand()
    }

    fn matmul(&mut self, shape: Shape, depth: usize) -> Expr {
        let factors: &[(Shape, Shape)] = match shape {
            [2, 2] => &[(&[2, 3], &[3, 2]), (&[2, 2], &[2, 2])],
            [2, 3] => &[(&[2, 3], &[3, 3]), (&[2, 2], &[2, 3])],
            [3, 2] => &[(&[3, 3], &[3, 2]), (&[3, 2], &[2, 2])],
            [3, 3] => &[(&[3, 3], &[3, 3]), (&[3, 2], &[2, 3])],
            [2] => &[(&[3], &[3, 2]), (&[2, 3], &[3])],
            [3] => &[(&[2], &[2, 3]), (&[3, 3], &[3])],
            _ => &[(&[3], &[3]), (&[2], &[2])],
        };
        let (left, right) = self.rng.of(factors);
        let (a, b) = (self.expr(left, depth - 1), self.expr(right, depth - 1));
        a.method(&format!("matmul({})", b.operand()), 3.0 * a.most * b.most)
    }

    fn joined(&mut self, shape: Shape, depth: usize) -> Expr {
        let (part, call): (Shape, _) = match shape {
            [2, 2] => (&[2], "stack"),
            [2, 3] => (&[3], "stack"),
            [3, 2] => (&[3], "stack"),
            _ => return self.unary(shape, depth),
        };
        let axis = usize::from(shape == [3, 2]);
        let (a, b) = (self.expr(part, depth - 1), self.expr(part, depth - 1));
        let (x, y) = (a.reference(), b.reference());
        Expr::call(
            format!("Tensor::{call}(&[{x}, {y}], {axis})"),
            a.most.max(b.most),
        )
    }

    fn select(&mut self, shape: Shape, depth: usize) -> Expr {
        let masks = self.scope.pick(|v| match v.ty {
            Ty::Mask(mask) if mask == shape => Some(v.name.clone()),
            _ => None,
        });
        let condition = match (masks.is_empty(), shape.last()) {
            (false, _) => format!("«{}.gt(0.1)»", self.rng.of(&masks)),
            (true, Some(n)) => format!("««Tensor::arange({n}, DType::F64)».lt(1.0)»"),
            (true, None) => return self.unary(shape, depth),
        };
        let (a, b) = (self.expr(shape, depth - 1), self.expr(shape, depth - 1));
        let most = a.most.max(b.most);
        let (x, y) = (a.reference(), b.reference());
        Expr::call(format!("{condition}.select({x}, {y})"), most)
    }

    fn closure_call(&mut self, shape: Shape, depth: usize) -> Expr {
        let known = self.scope.pick(|v| match v.ty {
            Ty::Closure(of) if of == shape => Some(v.name.clone()),
            _ => None,
        });
        let e = self.expr(shape, depth - 1);
        if known.is_empty() {
            return Expr::call(format!("(|t: &Tensor| «t.cos()»)({})", e.reference()), 1.0);
        }
        let name = self.rng.of(&known);
        Expr::call(format!("{name}({})", e.reference()), MOST)
    }

    fn layer_call(&mut self, shape: Shape, depth: usize) -> Expr {
        let layers = self.scope.layers();
        if shape != LAYER || layers.is_empty() {
            return self.binary(shape, depth);
        }
        self.ops += 3.0 * self.repeats;
        let layer = self.rng.of(&layers);
        let e = self.expr(shape, depth - 1);
        let method = self.rng.of(&["forward", "linear", "wave"]);
        Expr::call(format!("{layer}.{method}({})", e.reference()), MOST)
    }

    /// Writes a call of an earlier function with this result, or returns `None` if none can be
    /// called here.
    pub(super) fn call(&mut self, ret: &Ret, depth: usize) -> Option<String> {
        let earlier = self.earlier;
        let fitting: Vec<usize> = (0..earlier.len())
            .filter(|i| {
                let s = &earlier[*i].signature;
                format!("{:?}", s.ret) == format!("{ret:?}")
                    && (self.signature.fallible || !s.fallible)
                    && s.calls < 2
                    && self.ops + s.ops * self.repeats < MOST_OPS
                    && s.params.iter().all(|p| self.has(&p.param))
            })
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let callee = &earlier[self.rng.of(&fitting)].signature;
        self.ops += callee.ops * self.repeats;
        self.calls = self.calls.max(callee.calls + 1);
        let depth = depth.saturating_sub(1).min(1);
        let args: Vec<String> = callee
            .params
            .iter()
            .map(|p| self.argument(&p.param, depth))
            .collect();
        let ask = if callee.fallible { "?" } else { "" };
        Some(format!("{}({}){ask}", callee.name, args.join(", ")))
    }

    /// Returns whether the scope has an argument for the parameter.
    fn has(&self, param: &Param) -> bool {
        !self.places_for(param).is_empty()
            || matches!(
                param,
                Param::Tensor { .. } | Param::Steps | Param::Number | Param::Flag
            )
    }

    /// Returns the places that can be passed as the parameter.
    fn places_for(&self, param: &Param) -> Vec<String> {
        if let Param::Layer { .. } = param {
            let layers = self.scope.layers();
            return layers
                .iter()
                .map(|l| {
                    if l.contains('.') {
                        format!("&{l}")
                    } else {
                        l.clone()
                    }
                })
                .collect();
        }
        self.scope.pick(|v| {
            let fits = match (&v.ty, param) {
                (Ty::Model(have), Param::Model { layers }) => have >= layers,
                (Ty::Inputs(have), Param::Inputs { len }) => have >= len,
                (Ty::Pair(a, b), Param::Pair(c, d)) => v.by_ref && (a, b) == (c, d),
                (Ty::Mask(have), Param::Mask { shape }) => have == shape,
                (Ty::Mode, Param::Mode) | (Ty::Flag, Param::Flag) => true,
                _ => false,
            };
            fits.then(|| v.name.clone())
        })
    }

    fn argument(&mut self, param: &Param, depth: usize) -> String {
        let places = self.places_for(param);
        match param {
            Param::Tensor { shape, by_ref } => {
                let e = self.expr(shape, depth);
                if *by_ref { e.reference() } else { e.owned() }
            }
            Param::Steps => self.steps(super::signature::MOST_STEPS),
            Param::Number => self.number(),
            Param::Flag if places.is_empty() => self.rng.of(&["true", "false"]).to_owned(),
            _ => self.rng.of(&places),
        }
    }
}

/// Returns the methods that take a tensor of one shape to another. An empty string stands for
/// `reshape`.
fn movements(from: Shape, to: Shape) -> &'static [&'static str] {
    match (from, to) {
        ([2, 3], [3, 2]) | ([3, 2], [2, 3]) => &["transpose()", "t()", "permute([1, 0])", ""],
        ([2, 2], [2, 2]) | ([3, 3], [3, 3]) => &["transpose()", "swap_axes(0, 1)"],
        ([3, 3], [2, 3]) => &["slice([1], [3], [1])", "slice([0], [3], [2])"],
        ([3, 3], [3, 2]) => &["slice([0, 1], [3, 3], [1, 1])"],
        ([2, 3], [2, 2]) => &["slice([0, 0], [2, 2], [1, 1])"],
        ([2, 3] | [3, 3], [3]) => &[
            "sum(0)",
            "mean(0)",
            "logsumexp(0)",
            "normalize(1, 0.5).sum(0)",
        ],
        ([3, 2] | [2, 2], [2]) => &["sum(0)", "mean([0])"],
        ([2, 3], [2]) => &["sum(1)", "mean(-1)", "logsumexp(-1)"],
        ([3, 2], [3]) => &["sum(-1)", "mean_keepdims(1).squeeze(1)"],
        ([3], [2, 3]) => &["broadcast_to([2, 3])", "unsqueeze(0).broadcast_to([2, 3])"],
        ([2], [2, 2]) => &["unsqueeze(1).broadcast_to([2, 2])"],
        ([_, ..], []) => &["sum(..)", "mean(..)", "logsumexp(..)"],
        _ => &[],
    }
}
