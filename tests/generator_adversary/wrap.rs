//! Expressions around a number, and how a number enters a tensor.

/// Expression around a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    Bare,
    Closure,
    Option,
    Turns,
    Match,
    Array,
    Tuple,
    Branch,
    Assertion,
    Loop,
    Filter,
}

impl Wrap {
    pub(crate) const ALL: [Wrap; 11] = [
        Wrap::Bare,
        Wrap::Closure,
        Wrap::Option,
        Wrap::Turns,
        Wrap::Match,
        Wrap::Array,
        Wrap::Tuple,
        Wrap::Branch,
        Wrap::Assertion,
        Wrap::Loop,
        Wrap::Filter,
    ];

    /// Writes `value` inside the expression.
    pub(crate) fn around(self, value: &str) -> String {
        let text = match self {
            Wrap::Bare => "{}",
            Wrap::Closure => "{ let mut call = || {}; call() }",
            Wrap::Option => "Some(()).map(|()| {}).unwrap_or(0.25)",
            Wrap::Turns => "(0..2).map(|_| {}).sum::<f64>()",
            Wrap::Match => "match $h.rank() { 0 => 0.25, _ => {} }",
            Wrap::Array => "[{}, 0.5].iter().sum::<f64>()",
            Wrap::Tuple => "({}, 1).0",
            Wrap::Branch => "if $h.rank() > 0 { {} } else { 0.25 }",
            Wrap::Assertion => "{ let v: f64 = {}; assert!(v.is_finite(), \"{v}\"); v }",
            Wrap::Loop => "loop { break {}; }",
            Wrap::Filter => "Some::<f64>({}).filter(|v| v.is_finite()).map_or(0.25, |v| v)",
        };
        text.replace("{}", value)
    }
}

/// How a number enters a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    Product,
    Sum,
    Full,
    Scalar,
    Branch,
    Pass,
}

impl Mix {
    pub(crate) const ALL: [Mix; 6] = [
        Mix::Product,
        Mix::Sum,
        Mix::Full,
        Mix::Scalar,
        Mix::Branch,
        Mix::Pass,
    ];

    /// Writes a tensor expression of `$h` and the number `number_@`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Mix::Product => "&$h * number_@",
            Mix::Sum => "($h.cos() + number_@).sin()",
            Mix::Full => "$h.full_like(number_@) * &$h",
            Mix::Scalar => "Tensor::scalar(number_@) * &$h",
            Mix::Branch => {
                "if number_@ > 0.9 { &$h * number_@ } else { ($h.sin() + number_@).cos() }"
            }
            Mix::Pass => "{ let of_@ = |t: &Tensor| (t * number_@).sin(); of_@(&$h) }",
        }
    }
}
