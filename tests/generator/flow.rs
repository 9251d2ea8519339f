//! Loops and branches.

use super::Draft;
use super::scope::Ty;
use super::signature::{LAYER, MOST_STEPS};

/// The iterator of a `for` loop.
struct Range {
    /// Pattern and iterator, as text.
    head: String,
    /// Variables that the pattern binds: name, type, and whether it is a reference.
    binds: Vec<(String, Ty, bool)>,
    /// Maximum number of iterations.
    times: usize,
}

impl Draft<'_> {
    /// Writes a loop.
    pub(super) fn repeat(&mut self) {
        if self.repeats > 12.0 {
            return self.assign();
        }
        self.bind_mutable();
        let label = self.rng.once_in(3).then(|| self.scope.fresh("'l"));
        let head = label.as_ref().map_or(String::new(), |l| format!("{l}: "));
        match self.rng.below(10) {
            0..6 => {
                let range = self.range();
                let head = format!("{head}for {}", range.head);
                self.looped(&head, label, range.times, |draft| {
                    for (name, ty, by_ref) in &range.binds {
                        draft.scope.bind(name, ty.clone(), *by_ref, false);
                    }
                });
            }
            6 | 7 => {
                let (counter, most) = (self.scope.fresh("i"), self.steps(MOST_STEPS));
                self.line(&format!("let mut {counter} = 0;"));
                let head = format!("{head}while {counter} < {most}");
                self.looped(&head, label, MOST_STEPS, |draft| {
                    draft.line(&format!("{counter} += 1;"));
                    draft
                        .scope
                        .bind(&counter, Ty::Steps(MOST_STEPS), false, false);
                });
            }
            8 => {
                let (counter, condition) = (self.scope.fresh("i"), self.condition_on_values());
                self.line(&format!("let mut {counter} = 0;"));
                let head = format!("{head}while {condition} && {counter} < 3");
                self.looped(&head, label, 3, |draft| {
                    draft.line(&format!("{counter} += 1;"));
                    draft
                        .scope
                        .bind(&counter, Ty::Steps(MOST_STEPS), false, false);
                });
            }
            _ => {
                let (counter, most) = (self.scope.fresh("i"), self.steps(MOST_STEPS));
                self.line(&format!("let mut {counter}: usize = 0;"));
                self.looped(&format!("{head}loop"), label, MOST_STEPS, |draft| {
                    draft.line(&format!("if {counter} >= {most} {{ break; }}"));
                    draft.line(&format!("{counter} += 1;"));
                    draft
                        .scope
                        .bind(&counter, Ty::Steps(MOST_STEPS), false, false);
                });
            }
        }
    }

    fn looped(
        &mut self,
        head: &str,
        label: Option<String>,
        times: usize,
        start: impl FnOnce(&mut Self),
    ) {
        let outside = self.repeats;
        self.repeats *= times.max(1) as f64;
        self.loops.push(label);
        self.block(head, "", |draft| {
            start(draft);
            draft.stmts();
            if draft.rng.once_in(3) {
                draft.jump();
                draft.assign();
            }
        });
        self.loops.pop();
        self.repeats = outside;
    }

    /// Writes a conditional `break`, `continue` or `return`.
    fn jump(&mut self) {
        let label = match self.rng.once_in(2) {
            true => self.loops.iter().flatten().next().cloned(),
            false => None,
        };
        let label = label.map_or(String::new(), |l| format!(" {l}"));
        let condition = self.condition();
        let jump = match self.rng.below(7) {
            0..3 => format!("break{label};"),
            3..6 => format!("continue{label};"),
            _ => {
                let result = self.result();
                format!("return {result};")
            }
        };
        self.block(&format!("if {condition}"), "", |draft| {
            if draft.rng.once_in(2) {
                draft.assign();
            }
            draft.line(&jump);
        });
    }

    fn range(&mut self) -> Range {
        let inputs = self.scope.pick(|v| match v.ty {
            Ty::Inputs(n) => Some((v.name.clone(), n)),
            _ => None,
        });
        let models = self.scope.pick(|v| match v.ty {
            Ty::Model(n) => Some((v.name.clone(), n)),
            _ => None,
        });
        let (i, x, layer) = (
            self.scope.fresh("i"),
            self.scope.fresh("x"),
            self.scope.fresh("layer"),
        );
        let index = |name: &str| (name.to_owned(), Ty::Steps(MOST_STEPS), false);
        let input = |name: &str| (name.to_owned(), Ty::Tensor(LAYER), true);
        let part = |name: &str| (name.to_owned(), Ty::Layer, true);
        let which = self.rng.below(4);
        if let (true, Some((xs, n)), Some((model, m))) =
            (which == 0, inputs.first(), models.first())
        {
            let layers = self
                .rng
                .of(&[format!("&{model}.layers"), format!("{model}.layers.iter()")]);
            return Range {
                head: format!("({x}, {layer}) in {xs}.iter().zip({layers})"),
                binds: vec![input(&x), part(&layer)],
                times: *n.min(m),
            };
        }
        if let (true, Some((model, n))) = (which <= 1, models.first()) {
            let layers = format!("{model}.layers");
            let (head, binds) = match self.rng.below(4) {
                0 => (format!("{layer} in &{layers}"), vec![part(&layer)]),
                1 => (format!("{layer} in {layers}.iter()"), vec![part(&layer)]),
                2 => (
                    format!("{layer} in {layers}.iter().rev()"),
                    vec![part(&layer)],
                ),
                _ => (
                    format!("({i}, {layer}) in {layers}.iter().enumerate()"),
                    vec![index(&i), part(&layer)],
                ),
            };
            return Range {
                head,
                binds,
                times: *n,
            };
        }
        if let (true, Some((xs, n))) = (which <= 2, inputs.first()) {
            let (head, binds) = match self.rng.below(4) {
                0 => (format!("{x} in {xs}"), vec![input(&x)]),
                1 => (format!("{x} in {xs}.iter()"), vec![input(&x)]),
                2 => (format!("{x} in {xs}.iter().rev()"), vec![input(&x)]),
                _ => (
                    format!("({i}, {x}) in {xs}.iter().enumerate()"),
                    vec![index(&i), input(&x)],
                ),
            };
            return Range {
                head,
                binds,
                times: *n,
            };
        }
        let most = self.steps(MOST_STEPS);
        let head = match self.rng.below(8) {
            0 => format!("{i} in (0..{most}).rev()"),
            1 => format!("{i} in (0..{most}).step_by(2)"),
            2 => format!("{i} in (1..{most}).rev().step_by(2)"),
            3 => format!("{i} in 1..{most}"),
            4 => {
                // This form binds no variable.
                return Range {
                    head: format!("_ in 0..{most}"),
                    binds: vec![],
                    times: MOST_STEPS,
                };
            }
            5 => format!("{i} in 0..=2"),
            6 => format!("{i} in 3..{most}"),
            _ => format!("{i} in 0..{most}"),
        };
        Range {
            head,
            binds: vec![index(&i)],
            times: 3,
        }
    }

    /// Writes a branch whose arms assign.
    pub(super) fn branch(&mut self) {
        if self.rng.once_in(2) {
            self.bind_mutable();
        }
        match self.rng.below(6) {
            0 if self.matched_mode(None) => {}
            1 if self.bias(None) => {}
            2 => self.matched_steps(),
            _ => {
                let condition = self.condition();
                self.arms(&format!("if {condition}"), |draft| draft.stmts());
            }
        }
    }

    /// Writes `if`, perhaps `else if`, perhaps `else`.
    fn arms(&mut self, head: &str, mut arm: impl FnMut(&mut Self)) {
        let others = self.rng.below(3);
        let mut head = head.to_owned();
        for _ in 0..others {
            self.block(&head, "", &mut arm);
            // Continue on the line of the closing brace.
            self.out.pop();
            head = if self.rng.once_in(2) {
                let condition = self.condition();
                format!(" else if {condition}")
            } else {
                " else".to_owned()
            };
            self.continued(&head, &mut arm);
            if head == " else" {
                return;
            }
            let condition = self.condition();
            head = format!("if {condition}");
        }
        self.block(&head, "", &mut arm);
    }

    /// Writes a block that continues the previous line.
    fn continued(&mut self, head: &str, arm: &mut impl FnMut(&mut Self)) {
        self.out += head;
        self.out += " {\n";
        self.depth += 1;
        self.scope.open();
        arm(self);
        self.scope.close();
        self.depth -= 1;
        self.line("}");
    }

    fn matched_steps(&mut self) {
        let on = self.steps(MOST_STEPS);
        self.block(&format!("match {on}"), "", |draft| {
            let first = draft.rng.of(&["0", "1 | 2", "0..2"]);
            draft.block(&format!("{first} =>"), "", |draft| draft.stmts());
            if draft.rng.once_in(2) {
                let condition = draft.condition();
                draft.block(&format!("_ if {condition} =>"), "", |draft| draft.stmts());
            }
            if draft.rng.once_in(3) {
                draft.line("_ => {}");
            } else {
                let k = draft.scope.fresh("k");
                draft.block(&format!("{k} =>"), "", |draft| {
                    draft.scope.bind(&k, Ty::Steps(MOST_STEPS), false, false);
                    draft.stmts();
                });
            }
        });
    }

    /// Writes a `match` on an enum, as a statement or for the value of `name`. Returns whether the
    /// scope has an enum.
    fn matched_mode(&mut self, name: Option<(&str, super::signature::Shape)>) -> bool {
        let modes = self.scope.pick(|v| match v.ty {
            Ty::Mode => Some(v.name.clone()),
            _ => None,
        });
        if modes.is_empty() {
            return false;
        }
        let mode = self.rng.of(&modes);
        let (k, c) = (self.scope.fresh("k"), self.scope.fresh("c"));
        let (head, tail) = match name {
            Some((name, _)) => (format!("let {name} = match {mode}"), ";"),
            None => (format!("match {mode}"), ""),
        };
        let finish = |draft: &mut Self| match name {
            Some((_, shape)) => {
                let e = draft.expr(shape, 2);
                draft.line(&e.owned());
            }
            None => draft.stmts(),
        };
        self.block(&head, tail, |draft| {
            draft.block("Mode::Sine =>", "", finish);
            draft.block(&format!("Mode::Power({k}) =>"), "", |draft| {
                draft.scope.bind(&k, Ty::Steps(MOST_STEPS), false, false);
                finish(draft);
            });
            draft.block(&format!("Mode::Mix {{ by: {c} }} =>"), "", |draft| {
                draft.scope.bind(&c, Ty::Number, false, false);
                finish(draft);
            });
        });
        true
    }

    /// Writes an `if let` on the bias of a layer. Returns whether the scope has a layer.
    fn bias(&mut self, name: Option<(&str, super::signature::Shape)>) -> bool {
        let layers = self.scope.layers();
        if layers.is_empty() {
            return false;
        }
        let (layer, b) = (self.rng.of(&layers), self.scope.fresh("b"));
        if let Some((name, shape)) = name {
            self.block(&format!("let {name} = match &{layer}.b"), ";", |draft| {
                draft.block(&format!("Some({b}) =>"), "", |draft| {
                    draft.scope.bind(&b, Ty::Tensor(&[3]), true, false);
                    let e = draft.expr(shape, 2);
                    draft.line(&e.owned());
                });
                let e = draft.expr(shape, 1);
                draft.line(&format!("None => {},", e.owned()));
            });
            return true;
        }
        self.block(&format!("if let Some({b}) = &{layer}.b"), "", |draft| {
            draft.scope.bind(&b, Ty::Tensor(&[3]), true, false);
            draft.stmts();
        });
        true
    }

    /// Writes a branch as an expression.
    pub(super) fn value_of_branches(&mut self) {
        let (name, shape) = (self.scope.fresh("t"), self.shape());
        let done = match self.rng.below(5) {
            0 => self.matched_mode(Some((&name, shape))),
            1 => self.bias(Some((&name, shape))),
            _ => false,
        };
        if !done {
            let condition = self.condition();
            let value = |draft: &mut Self| {
                if draft.rng.once_in(3) {
                    draft.stmts();
                }
                let e = draft.expr(shape, 2);
                draft.line(&e.owned());
            };
            self.chosen(&format!("let {name} = if {condition}"), value);
        }
        self.scope.bind(&name, Ty::Tensor(shape), false, false);
    }

    /// Writes `if`, perhaps `else if`, and `else`. `arm` writes the last expression of each.
    fn chosen(&mut self, head: &str, mut arm: impl FnMut(&mut Self)) {
        self.block(head, "", &mut arm);
        self.out.pop();
        if self.rng.once_in(3) {
            let condition = self.condition();
            self.continued(&format!(" else if {condition}"), &mut arm);
            self.out.pop();
        }
        self.continued(" else", &mut arm);
        self.out.pop();
        self.out += ";\n";
    }

    /// Writes a variable that is declared first and assigned in each branch.
    pub(super) fn assigned_later(&mut self) {
        let (name, shape) = (self.scope.fresh("t"), self.shape());
        self.line(&format!("let {name};"));
        let condition = self.condition();
        let arm = |draft: &mut Self| {
            if draft.rng.once_in(2) {
                draft.stmts();
            }
            let e = draft.expr(shape, 2);
            draft.line(&format!("{name} = {};", e.owned()));
        };
        self.chosen(&format!("if {condition}"), arm);
        self.scope.bind(&name, Ty::Tensor(shape), false, false);
    }

    /// Writes a conditional `return`.
    pub(super) fn leave_early(&mut self) {
        let condition = self.condition();
        self.block(&format!("if {condition}"), "", |draft| {
            if draft.rng.once_in(2) && draft.budget > 0 {
                draft.stmt();
            }
            let result = draft.result();
            draft.line(&format!("return {result};"));
        });
    }
}
