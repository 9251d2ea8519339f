//! Statements without control flow, and the choice among all statements.

use super::Draft;
use super::scope::Ty;
use super::signature::{MOST_STEPS, Ret, SHAPES, Shape};

/// Maximum nesting depth of blocks.
const DEEPEST: usize = 5;

impl Draft<'_> {
    /// Writes one statement.
    pub(super) fn stmt(&mut self) {
        self.budget -= 1;
        let flow = self.depth < DEEPEST && self.ops < super::MOST_OPS;
        match self.rng.below(30) {
            0..5 => self.bind(),
            5..8 => self.assign(),
            8 => self.several(),
            9 => self.nested(),
            10 => self.host(),
            11 => self.closure(),
            12 => self.call_of_several(),
            13..20 if flow => self.repeat(),
            20..25 if flow => self.branch(),
            25..27 if flow => self.value_of_branches(),
            27 if flow => self.assigned_later(),
            28 if flow => self.leave_early(),
            _ => self.bind(),
        }
    }

    /// Writes the statements of a block. The last one assigns to an outer variable, if there is
    /// one.
    pub(super) fn stmts(&mut self) {
        for _ in 0..self.rng.below(3) {
            if self.budget > 0 {
                self.stmt();
            }
        }
        self.budget -= 1;
        self.assign();
    }

    fn bind(&mut self) {
        let shape = self.shape();
        let depth = 1 + self.rng.below(2);
        let e = self.expr(shape, depth);
        let mutable = self.rng.once_in(3);
        let shadowed = self.scope.pick(|v| match v.ty {
            Ty::Tensor(_) if !v.mutable => Some(v.name.clone()),
            _ => None,
        });
        // Shadow a variable only rarely: a shadowed parameter may not reach the result, and then
        // has no derivative to compare.
        let name = if !mutable && !shadowed.is_empty() && self.rng.once_in(5) {
            self.rng.of(&shadowed)
        } else {
            self.scope.fresh("t")
        };
        let keyword = if mutable { "let mut" } else { "let" };
        self.line(&format!("{keyword} {name} = {};", e.owned()));
        self.scope.bind(&name, Ty::Tensor(shape), false, mutable);
    }

    /// Writes a variable that later statements may assign to.
    pub(super) fn bind_mutable(&mut self) {
        let shape = self.shape();
        let e = self.expr(shape, 1);
        if self.rng.once_in(5) {
            let other = self.shape();
            let f = self.expr(other, 1);
            let name = self.scope.fresh("state");
            self.line(&format!("let mut {name} = ({}, {});", e.owned(), f.owned()));
            self.scope.bind(&name, Ty::Pair(shape, other), false, true);
        } else {
            let name = self.scope.fresh("h");
            self.line(&format!("let mut {name} = {};", e.owned()));
            self.scope.bind(&name, Ty::Tensor(shape), false, true);
        }
    }

    fn mutable(&self) -> Vec<(String, Shape, Option<Shape>)> {
        self.scope.pick(|v| match v.ty {
            Ty::Tensor(shape) if v.mutable => Some((v.name.clone(), shape, None)),
            Ty::Pair(a, b) if v.mutable => Some((v.name.clone(), a, Some(b))),
            _ => None,
        })
    }

    pub(super) fn assign(&mut self) {
        let mutable = self.mutable();
        if mutable.is_empty() {
            return self.bind();
        }
        let (name, shape, other) = self.recent(&mutable);
        if let Some(other) = other {
            let first = self.next(&format!("{name}.0"), shape);
            let second = self.next(&format!("{name}.1"), other);
            return self.line(&format!(
                "{name} = ({}, {});",
                first.owned(),
                second.owned()
            ));
        }
        let singles: Vec<_> = mutable.iter().filter(|m| m.2.is_none()).collect();
        let (second, of, _) = self.rng.of(&singles).clone();
        if second != name && self.rng.once_in(4) {
            let (a, b) = (self.expr(shape, 1), self.expr(of, 1));
            return self.line(&format!(
                "({name}, {second}) = ({}, {});",
                a.owned(),
                b.owned()
            ));
        }
        if !self.rng.once_in(3) {
            let e = self.next(&name, shape);
            return self.line(&format!("{name} = {};", e.owned()));
        }
        // Compound assignments, then a reassignment that bounds the magnitude again.
        let e = self.expr(shape, 1);
        let operator = self.rng.of(&["+=", "-=", "*="]);
        self.ops += 2.0 * self.repeats;
        // The right-hand side must not borrow the variable that is assigned to.
        let operand = match e.operand() {
            own if own == format!("&{name}") => e.owned(),
            other => other,
        };
        self.line(&format!("{name} {operator} {operand};"));
        self.line(&format!("§{name});"));
        if self.rng.once_in(2) {
            let number = self.number();
            self.line(&format!("{name} *= {number};"));
            self.line(&format!("§{name});"));
        }
        let back = self.rng.of(&["tanh()", "sin()", "cos()"]);
        self.line(&format!("{name} = «{name}.{back}»;"));
    }

    /// Writes several bindings at once.
    fn several(&mut self) {
        let rows: Vec<_> = self
            .scope
            .tensors(false)
            .into_iter()
            .filter(|p| p.2.len() == 2 && p.2[0] == 2)
            .collect();
        let (a, b) = (self.scope.fresh("a"), self.scope.fresh("b"));
        let (left, right) = if rows.is_empty() || self.rng.once_in(2) {
            let (left, right) = (self.shape(), self.shape());
            let (x, y) = (self.expr(left, 2), self.expr(right, 1));
            self.line(&format!("let ({a}, {b}) = ({}, {});", x.owned(), y.owned()));
            (left, right)
        } else {
            let (place, _, shape) = self.rng.of(&rows);
            let row = if shape == [2, 2] {
                SHAPES[1]
            } else {
                SHAPES[2]
            };
            self.ops += self.repeats;
            self.line(&format!("let [{a}, {b}] = «{place}.unbind(0)»;"));
            (row, row)
        };
        self.scope.bind(&a, Ty::Tensor(left), false, false);
        self.scope.bind(&b, Ty::Tensor(right), false, false);
    }

    fn nested(&mut self) {
        let (name, shape) = (self.scope.fresh("t"), self.shape());
        self.block(&format!("let {name} ="), ";", |draft| {
            draft.bind();
            let e = draft.expr(shape, 1);
            draft.line(&e.owned());
        });
        self.scope.bind(&name, Ty::Tensor(shape), false, false);
    }

    fn host(&mut self) {
        if self.rng.once_in(3) {
            let (name, number) = (self.scope.fresh("c"), self.number());
            self.line(&format!("let {name} = {number} * 0.8;"));
            return self.scope.bind(&name, Ty::Number, false, false);
        }
        if self.rng.once_in(3) {
            let (name, condition) = (self.scope.fresh("is"), self.condition());
            self.line(&format!("let {name} = {condition};"));
            return self.scope.bind(&name, Ty::Flag, false, false);
        }
        let (name, steps) = (self.scope.fresh("k"), self.steps(MOST_STEPS));
        self.line(&format!("let {name}: usize = {steps};"));
        self.scope.bind(&name, Ty::Steps(MOST_STEPS), false, false);
    }

    fn closure(&mut self) {
        let shape = self.shape();
        let name = self.scope.fresh("f");
        let body = match self.fixed_place(shape) {
            Some(place) => format!("««t.sin()» * {}»", place.operand()),
            None => "«t.tanh()»".to_owned(),
        };
        self.line(&format!("let {name} = |t: &Tensor| {body};"));
        self.scope.bind(&name, Ty::Closure(shape), false, false);
    }

    fn call_of_several(&mut self) {
        let pairs: Vec<(Ret, Vec<Shape>)> = self
            .earlier
            .iter()
            .filter_map(|f| match &f.signature.ret {
                ret @ Ret::Tuple(parts) => match parts[..] {
                    [Ret::Tensor(a), Ret::Tensor(b)] => Some((ret.clone(), vec![a, b])),
                    _ => None,
                },
                Ret::Tensor(_) => None,
            })
            .collect();
        if pairs.is_empty() {
            return self.bind();
        }
        let (ret, shapes) = self.rng.of(&pairs);
        let Some(text) = self.call(&ret, 1) else {
            return self.several();
        };
        let (a, b) = (self.scope.fresh("a"), self.scope.fresh("b"));
        self.line(&format!("let ({a}, {b}) = «{text}»;"));
        self.scope.bind(&a, Ty::Tensor(shapes[0]), false, false);
        self.scope.bind(&b, Ty::Tensor(shapes[1]), false, false);
    }
}
