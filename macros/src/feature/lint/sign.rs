//! Tracks the signs of values, and the values that the user has bounded.

use gradloom_ir::op::{Diff, Eval};
use gradloom_ir::{Eqn, Op, Program, SecondaryMap, Var};

/// Properties that hold for every element of a value; `false` means unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ElementFacts {
    /// At least 0.
    pub(super) at_least_0: bool,
    /// At most 0.
    pub(super) at_most_0: bool,
    /// Not 0.
    pub(super) not_0: bool,
    /// Bounded.
    pub(super) bounded: bool,
    /// True if a `select`, a limit or control flow may exclude values where a slope is infinite.
    pub(super) guarded: bool,
}

impl ElementFacts {
    const POSITIVE: ElementFacts = ElementFacts {
        at_least_0: true,
        at_most_0: false,
        not_0: true,
        bounded: false,
        guarded: false,
    };

    /// Host number such as an epsilon, which the user is trusted to have chosen well.
    const TRUSTED: ElementFacts = ElementFacts {
        bounded: true,
        ..ElementFacts::POSITIVE
    };

    fn number(x: f64) -> ElementFacts {
        ElementFacts {
            at_least_0: x >= 0.0,
            at_most_0: x <= 0.0,
            not_0: x != 0.0,
            bounded: x.is_finite(),
            guarded: false,
        }
    }

    fn both(self, other: ElementFacts) -> ElementFacts {
        ElementFacts {
            at_least_0: self.at_least_0 && other.at_least_0,
            at_most_0: self.at_most_0 && other.at_most_0,
            not_0: self.not_0 && other.not_0,
            bounded: self.bounded && other.bounded,
            guarded: self.guarded || other.guarded,
        }
    }

    fn negated(self) -> ElementFacts {
        ElementFacts {
            at_least_0: self.at_most_0,
            at_most_0: self.at_least_0,
            ..self
        }
    }

    /// Returns the properties of the sum: values of one sign do not cancel.
    fn plus(self, other: ElementFacts) -> ElementFacts {
        let one_sign = (self.at_least_0 && other.at_least_0) || (self.at_most_0 && other.at_most_0);
        ElementFacts {
            not_0: one_sign && (self.not_0 || other.not_0),
            ..self.both(other)
        }
    }

    /// Returns the properties of the product; a quotient has the same signs.
    fn times(self, other: ElementFacts) -> ElementFacts {
        let same = self.both(other);
        let negative = (self.at_most_0 && other.at_least_0) || (self.at_least_0 && other.at_most_0);
        ElementFacts {
            at_least_0: same.at_least_0 || same.at_most_0,
            at_most_0: negative,
            ..same
        }
    }
}

/// Properties of the variables, learnt block by block in order.
#[derive(Default)]
pub(super) struct Signs(SecondaryMap<Var, ElementFacts>);

impl Signs {
    pub(super) fn facts_of(&self, var: Var) -> ElementFacts {
        self.0.get(var).copied().unwrap_or_default()
    }

    /// Records that a variable does not depend on the function's arguments, so that its value is
    /// trusted.
    pub(super) fn trust(&mut self, var: Var) {
        self.0.insert(var, ElementFacts::TRUSTED);
    }

    /// Records that other blocks store to a variable: the user may have excluded some of its values
    /// by branches.
    pub(super) fn guard(&mut self, var: Var) {
        let known = ElementFacts {
            guarded: true,
            ..ElementFacts::default()
        };
        self.0.insert(var, known);
    }

    /// Learns the properties of the variables that a program binds.
    pub(super) fn learn(&mut self, program: &Program) {
        for eqn in &program.eqns {
            let known = result(program, eqn, self);
            for out in &eqn.outs {
                self.0.insert(*out, known);
            }
        }
    }
}

fn result(program: &Program, eqn: &Eqn, signs: &Signs) -> ElementFacts {
    let of = |v: &Var| signs.facts_of(*v);
    let x = eqn.args.first().map(of).unwrap_or_default();
    let y = eqn.args.get(1).map(of).unwrap_or_default();
    let positive = ElementFacts {
        guarded: x.guarded,
        ..ElementFacts::POSITIVE
    };
    match eqn.op {
        Op::Scalar | Op::FullLike | Op::Full => {
            let value = program.attr(eqn.attrs[usize::from(eqn.op == Op::Full)]);
            value
                .float()
                .map_or(ElementFacts::TRUSTED, ElementFacts::number)
        }
        Op::OneHot | Op::Iota => ElementFacts {
            bounded: true,
            ..ElementFacts::number(0.0)
        }
        .both(ElementFacts::POSITIVE),
        Op::Exp | Op::Softplus | Op::Erfc => positive,
        Op::Sigmoid | Op::Softmax => ElementFacts {
            bounded: true,
            ..positive
        },
        Op::Square | Op::Abs | Op::Relu => ElementFacts {
            at_least_0: true,
            at_most_0: x.at_most_0 && eqn.op == Op::Relu,
            not_0: x.not_0 && (eqn.op != Op::Relu || x.at_least_0),
            ..x
        },
        Op::Sqrt => x,
        Op::Rsqrt | Op::Reciprocal => ElementFacts {
            bounded: false,
            ..x
        },
        Op::Log1p | Op::Expm1 => x,
        Op::Tanh | Op::Erf | Op::Sign => ElementFacts { bounded: true, ..x },
        Op::Sin | Op::Cos => ElementFacts {
            bounded: true,
            guarded: x.guarded,
            ..ElementFacts::default()
        },
        Op::LogSoftmax => ElementFacts {
            at_most_0: true,
            guarded: x.guarded,
            ..ElementFacts::default()
        },
        Op::Neg => x.negated(),
        Op::Add => x.plus(y),
        Op::Sub => x.plus(y.negated()),
        Op::Mul if eqn.args[0] == eqn.args[1] => ElementFacts {
            at_least_0: true,
            at_most_0: false,
            ..x
        },
        Op::Mul => x.times(y),
        Op::Div => ElementFacts {
            bounded: x.bounded && y.bounded && y.not_0,
            ..x.times(y)
        },
        // `maximum` and `minimum` are limits, so the user has considered the values beyond them.
        Op::Maximum | Op::Minimum => ElementFacts {
            guarded: true,
            ..x.both(y)
        },
        Op::Select => ElementFacts {
            guarded: true,
            ..y.both(eqn.args.get(2).map(of).unwrap_or_default())
        },
        Op::Pow => ElementFacts {
            at_least_0: x.at_least_0,
            at_most_0: false,
            not_0: x.not_0 && x.at_least_0,
            bounded: false,
            guarded: x.guarded,
        },
        Op::Concat | Op::Stack => {
            let all = eqn.data().iter().map(of);
            all.reduce(ElementFacts::both).unwrap_or_default()
        }
        Op::Mean | Op::Max | Op::Min => x,
        Op::Sum => ElementFacts {
            not_0: x.not_0 && (x.at_least_0 || x.at_most_0),
            ..x
        },
        _ if moves(eqn) => x,
        _ => ElementFacts {
            guarded: matches!(eqn.op.def().eval(), Eval::Unary(_)) && x.guarded,
            ..ElementFacts::default()
        },
    }
}

/// Returns whether the results of an equation consist only of elements of its single operand.
pub(super) fn moves(eqn: &Eqn) -> bool {
    let one = eqn.data().len() == 1;
    one && matches!(
        eqn.op,
        Op::Identity
            | Op::StopGradient
            | Op::Cast
            | Op::BroadcastLike
            | Op::BroadcastTo
            | Op::Split
            | Op::Unbind
            | Op::Transpose
            | Op::Permute
            | Op::SwapAxes
            | Op::Moveaxis
            | Op::Reshape
            | Op::Squeeze
            | Op::Unsqueeze
            | Op::Slice
    )
}

/// Returns whether an op is elementwise and has a derivative.
pub(super) fn elementwise(op: Op) -> bool {
    let eval = op.def().eval();
    matches!(eval, Eval::Unary(_) | Eval::Binary(_)) && !matches!(op.def().diff(), Diff::Zero(_))
}
