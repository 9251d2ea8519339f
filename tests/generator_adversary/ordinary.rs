//! Parts that only compute, and parts that read tensor values.

use super::device::{Device, Effect, Param, fixed, hidden, known, number, tensor, tree};

const N: Param = fixed("n@", "usize", ["2", "0", "3"]);
const TEXT: Param = fixed("s@", "&str", ["\"ab\"", "\"\"", "\"abc\""]);
const LIST: Param = fixed(
    "l@",
    "&[f64]",
    ["&[0.5, 1.5][..]", "&[][..]", "&[-0.0, 0.25][..]"],
);
const CHOICE: Param = fixed(
    "c@",
    "#[fixed] Cfg",
    ["Cfg::Fast", "Cfg::Slow(2)", "Cfg::Slow(-1)"],
);
const LIMIT: Param = fixed("o@", "Option<f64>", ["Some(0.5)", "None", "Some(-0.0)"]);

const LIN: &str = "
    #[derive(Clone, Tree)]
    pub struct Lin@ { pub w: Tensor, pub b: Option<Tensor> }
    #[traced]
    impl Lin@ {
        pub fn forward(&self, #[nodiff] t: &Tensor) -> Tensor {
            let y = t * &self.w * ‹1.5›;
            match &self.b {
                Some(b) => (y + b).tanh(),
                None => y.sin(),
            }
        }
    }";
const LIN_PARAM: Param = tree("m@", "&Lin@", "&M::Lin@ { w: $0, b: Some($1) }", 2);
const MLP: &str = "
    #[derive(Clone, Tree)]
    pub struct Part@ { pub w: Tensor }
    #[derive(Clone, Tree)]
    pub struct Mlp@ { pub a: Part@, pub b: Part@ }
    #[traced]
    impl Part@ {
        pub fn forward(&self, #[nodiff] t: &Tensor) -> Tensor { (t * &self.w * ‹0.5›).tanh() }
    }
    #[traced]
    impl Mlp@ {
        pub fn forward(&self, #[nodiff] t: &Tensor) -> Tensor { self.b.forward(&self.a.forward(t)) }
    }";
const MLP_PARAM: Param = tree(
    "m@",
    "&Mlp@",
    "&M::Mlp@ { a: M::Part@ { w: $0 }, b: M::Part@ { w: $1 } }",
    2,
);
const WRAP: &str = "
    #[derive(Clone, Tree)]
    pub struct Core@ { pub w: Tensor, pub b: Tensor }
    #[traced]
    impl Core@ {
        pub fn forward(&self, t: &Tensor) -> Tensor { (t * &self.w * 0.5 + &self.b).tanh() }
    }
    #[derive(Clone, Tree)]
    pub struct Wrap@ { pub core: Core@ }
    impl std::ops::Deref for Wrap@ {
        type Target = Core@;
        fn deref(&self) -> &Core@ { &self.core }
    }";
const WRAP_PARAM: Param = tree(
    "m@",
    "&Wrap@",
    "&M::Wrap@ { core: M::Core@ { w: $0, b: $1 } }",
    2,
);
const BOX_PARAM: Param = tree(
    "m@",
    "&Box<Core@>",
    "&Box::new(M::Core@ { w: $0, b: $1 })",
    2,
);
const UNIT: &str = "
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Metres@(pub f64);
    impl std::ops::Deref for Metres@ {
        type Target = f64;
        fn deref(&self) -> &f64 { &self.0 }
    }";
const UNIT_PARAM: Param = fixed(
    "d@",
    "#[fixed] &Metres@",
    ["&M::Metres@(1.5)", "&M::Metres@(-0.0)", "&M::Metres@(0.5)"],
);
const MIXED: &str = "
    #[derive(Clone, Tree)]
    pub struct Mixed@ {
        pub w: Tensor,
        #[tree(skip)]
        pub rate: f64,
        #[tree(skip)]
        pub name: String,
        #[tree(skip)]
        pub mode: Cfg,
        pub others: Vec<Tensor>,
    }";
const MIXED_PARAM: Param = Param {
    name: "m@",
    ty: "&Mixed@",
    args: [
        "&M::Mixed@ { w: $0, rate: 0.5, name: \"ab\".to_owned(), mode: Cfg::Fast, others: vec![$1] }",
        "&M::Mixed@ { w: $0, rate: -0.5, name: String::new(), mode: Cfg::Fast, others: vec![$1] }",
        "&M::Mixed@ { w: $0, rate: 0.5, name: \"ab\".to_owned(), mode: Cfg::Slow(1), others: vec![$1] }",
    ],
    tangent: None,
    leaves: 2,
};

/// Parts without side effects.
pub(crate) static ORDINARY: &[Device] = &[
    // Numbers.
    number("a literal", "‹1.5›"),
    number("a function of numbers", "‹1.5›f64.sqrt().mul_add(2.0, 0.25)"),
    number("a closure", "c@(‹1.5›)").stmts("let c@ = |v: f64| v * 0.5;"),
    number("a closure that captures", "c@() + k@").stmts("let k@ = ‹1.5›; let c@ = || k@ * 2.0;"),
    number("a nested function", "double@(‹1.5›)").stmts("fn double@(v: f64) -> f64 { 2.0 * v }"),
    number("a function of numbers that is passed", "Some(‹1.5›).map(f64::sqrt).unwrap_or(0.0)"),
    number("a fold", "[0.5, ‹1.5›].iter().fold(0.0, |a, b| a + b)"),
    number("a product", "(1..4).map(|i| i as f64 * ‹0.5›).product::<f64>()"),
    number("iterators", "[0.5, ‹1.5›, 0.25].iter().rev().step_by(2).copied().fold(0.0, f64::max)"),
    number("windows", "[0.5, ‹1.5›, 0.25].windows(2).map(|w| w[0] * w[1]).sum::<f64>()"),
    number("split_last", "[0.5, ‹1.5›].split_last().map_or(0.0, |(a, rest)| a + rest[0])"),
    number("a constant", "K@").items("const K@: f64 = ‹1.5›;"),
    number("a static", "S@").items("static S@: f64 = ‹1.5›;"),
    number("an array constant", "AXES@[1]").items("const AXES@: [f64; 2] = [0.5, ‹1.5›];"),
    number("an associated constant", "Cfg::SCALE * ‹0.5›"),
    number("a constant in the body", "K@").stmts("const K@: f64 = ‹1.5›;"),
    number("a count", "n@ as f64 * ‹0.5›").params(&[N]),
    number("arithmetic of counts", "(n@.pow(2) + 1).min(7).isqrt() as f64 * ‹0.5›").params(&[N]),
    number("the length of text", "s@.len() as f64 * ‹0.25›").params(&[TEXT]),
    number("text", "if s@.starts_with('a') { ‹1.5› } else { 0.25 }").params(&[TEXT]),
    number("a match on text", "match s@ { \"ab\" => ‹1.5›, other => other.len() as f64 }").params(&[TEXT]),
    number("a list", "l@.iter().sum::<f64>() + ‹0.5›").params(&[LIST]),
    number("the first of a list", "l@.first().copied().unwrap_or(‹0.75›)").params(&[LIST]),
    number("an enum", "match c@ { Cfg::Fast => ‹1.5›, Cfg::Slow(n) => n as f64 * 0.25 }").params(&[CHOICE]),
    number("matches!", "if matches!(c@, Cfg::Slow(n) if n > 0) { ‹1.5› } else { 0.5 }").params(&[CHOICE]),
    number("an option", "o@.map_or(‹0.75›, |v| v * 2.0 + 0.125)").params(&[LIMIT]),
    number("if let", "v@").stmts("let v@ = if let Some(v) = o@ { v + ‹0.5› } else { 0.25 };").params(&[LIMIT]),
    number("let else", "v@ * ‹0.5›").stmts("let v@ = { let Some(v) = o@.or(Some(0.25)) else { unreachable!() }; v };").params(&[LIMIT]),
    number("a sign of zero", "if o@.is_some_and(f64::is_sign_negative) { ‹1.5› } else { 0.5 }").params(&[LIMIT]),
    number("a pair", "p@.0 as f64 * p@.1 + ‹0.25›").params(&[fixed("p@", "(usize, f64)", ["(1, 0.5)", "(2, -0.5)", "(0, 1.5)"])]),
    number("small numbers", "f64::from(u@) * ‹0.125›").params(&[fixed("u@", "u8", ["3", "0", "255"])]),
    number("large numbers", "(i@ % 7) as f64 * ‹0.25›").params(&[fixed("i@", "i64", ["9007199254740993", "-3", "9007199254740992"])]),
    number("a character", "if c@.is_ascii_uppercase() { ‹1.5› } else { 0.5 }").params(&[fixed("c@", "char", ["'A'", "'b'", "'Z'"])]),
    number("a flag", "if b@ { ‹1.5› } else { 0.5 }").params(&[fixed("b@", "bool", ["true", "false", "true"])]),
    number("single precision", "f64::from(g@) + ‹0.25›").params(&[fixed("g@", "f32", ["0.5", "-0.0", "1.5"])]),
    number("a range", "r@.clone().count() as f64 * ‹0.25›").params(&[fixed("r@", "&std::ops::Range<usize>", ["&(0..2)", "&(1..1)", "&(1..5)"])]),
    number("a list of counts", "v@.iter().filter(|n| **n > 1).count() as f64 + ‹0.25›").params(&[fixed("v@", "&Vec<usize>", ["&vec![1, 2]", "&vec![]", "&vec![3, 4]"])]),
    number("an assertion", "‹0.5›").stmts("assert!(n@ < 10, \"{n@} is too large\");").params(&[N]),
    number("a format", "format!(\"{n@:>4}|{:.2}\", ‹1.5›).len() as f64").params(&[N]),
    number("while", "t@").stmts("let mut t@ = 0.0; while t@ < ‹1.5› { t@ += 0.5; }"),
    number("labels", "t@ as f64 * ‹0.5›").stmts("let mut t@ = 0; 'a@: loop { for i in 0..5 { if i == 3 { break 'a@; } t@ += i; } }"),
    number("a list that is built", "v@.iter().sum::<f64>()").stmts("let mut v@ = Vec::new(); for i in 0..3 { v@.push(i as f64 * ‹0.5›); } v@.sort_by(f64::total_cmp);"),
    number("a map", "t@.get(\"b\").copied().unwrap_or(0.25)").stmts("let t@ = std::collections::BTreeMap::from([(\"a\", 0.5), (\"b\", ‹1.5›)]);"),
    number("a method of the user's type", "Knob { n: 2 }.double() * ‹0.25›"),
    number("lengths of axes", "$h.dim(0) as f64 * ‹0.25› + $h.rank() as f64"),
    number("a shape", "$h.shape().iter().product::<usize>() as f64 * ‹0.25›"),
    number("a dtype", "if $h.dtype() == DType::F64 { ‹1.5› } else { 0.5 }"),
    number("a skipped number", "m@.rate * ‹0.5›").items(MIXED).params(&[MIXED_PARAM]),
    number("skipped text", "m@.name.len() as f64 * ‹0.5›").items(MIXED).params(&[MIXED_PARAM]),
    number("a skipped enum", "match m@.mode { Cfg::Fast => ‹1.5›, Cfg::Slow(n) => n as f64 }").items(MIXED).params(&[MIXED_PARAM]),
    number("a shadowed name", "v@").stmts("let v@ = ‹0.5›; let v@ = v@ + 0.25; let v@ = { let v@ = v@ * 2.0; v@ };"),
    // Tensors.
    tensor("ops", "$h.sin() * ‹1.5› + $h.cos()"),
    tensor("a sum", "&$h * $h.sum(..) * ‹0.25›"),
    tensor("a softmax", "$h.softmax(0) * ‹1.5›"),
    tensor("select", "$h.gt(&$h.full_like(0.0)).select(&$h.sin(), &(&$h * ‹0.5›))"),
    tensor("unbind", "&$h * p@ + q@ * &r@ * ‹0.5›").stmts("let [p@, q@, r@] = $h.unbind::<3>(0);"),
    tensor("a closure of tensors", "c@(&$h)").stmts("let c@ = |t: &Tensor| t.sin() * ‹0.5›;"),
    tensor("a list of tensors", "&all@[1] + &all@[0]").stmts("let all@ = vec![$h.clone(), $h.sin() * ‹0.5›];"),
    tensor("a loop over tensors", "t@").stmts("let mut t@ = $h.clone(); for i in 0..n@ { t@ = (&t@ * ‹0.5› + i as f64).sin(); }").params(&[N]),
    tensor("a skipped field beside tensors", "&$h * &m@.w * m@.rate * ‹0.5›").items(MIXED).params(&[MIXED_PARAM]),
    tensor("a list of a tree", "m@.others.iter().fold($h.clone(), |a, b| a * b) * ‹0.5›").items(MIXED).params(&[MIXED_PARAM]),
    tensor("a constant tensor", "&$h * Tensor::from([0.5, ‹1.5›, 0.25])"),
    tensor("stop_gradient", "&$h * $h.stop_gradient() * ‹0.5›"),
    tensor("a fallible body", "c@(&$h).unwrap()").stmts("let c@ = |t: &Tensor| -> Option<Tensor> { let k = Some(‹0.5›)?; Some(t * k) };"),
    known("k", "a lazy tensor in lower case", "&$h * &*lazy * ‹0.5›"),
    known("k", "a lazy tensor in capitals", "&$h * &*LAZY * ‹0.5›"),
    // Values behind a `Deref`.
    known("deref", "a field behind a wrapper", "&$h * &m@.w * ‹0.5›").items(WRAP).params(&[WRAP_PARAM]),
    known("deref", "two fields behind a wrapper", "(&$h * &m@.w + &m@.core.b * ‹0.5›).sin()").items(WRAP).params(&[WRAP_PARAM]),
    known("deref", "a method of what a wrapper points at", "(**m@).forward(&$h)").items(WRAP).params(&[WRAP_PARAM]),
    known("deref", "a method of the field of a wrapper", "m@.core.forward(&$h)").items(WRAP).params(&[WRAP_PARAM]),
    known("deref", "a coerced wrapper", "c@.forward(&$h)").stmts("let c@: &Core@ = m@;").items(WRAP).params(&[WRAP_PARAM]),
    known("deref", "a method in a box", "m@.forward(&$h)").items(WRAP).params(&[BOX_PARAM]),
    known("deref", "a field in a box", "&$h * &m@.w * ‹0.5›").items(WRAP).params(&[BOX_PARAM]),
    typed("a number behind a wrapper", "**d@ * ‹0.5›").items(UNIT).params(&[UNIT_PARAM]),
    typed("a method of a number behind a wrapper", "d@.abs().sqrt() * ‹0.5›").items(UNIT).params(&[UNIT_PARAM]),
    typed("a wrapper in a local", "*l@ + ‹0.5›").stmts("let l@ = Metres@(‹1.5›);").items(UNIT),
    // Transforms of closures inside the function.
    known("transform", "grad", "grad(|t: &Tensor| (t * ‹1.5›).sin().sum(..))(&$h)"),
    known("transform", "value_and_grad", "g@ * v@").stmts("let (v@, g@) = value_and_grad(|t: &Tensor| (t * ‹1.5›).sin().sum(..))(&$h);"),
    known("transform", "jvp", "jvp(|t: &Tensor| (t * ‹1.5›).sin(), &$h, &$h).1"),
    known("transform", "jvp of jvp", "jvp(|t: &Tensor| jvp(|t: &Tensor| (t * ‹1.5›).sin(), t, &t.ones_like()).1, &$h, &$h.ones_like()).1"),
    known("transform", "vjp", "vjp(|t: &Tensor| (t * ‹1.5›).sin(), &$h).1.call(&$h)"),
    known("transform", "a companion", "⟦energy@::grad(&$h).t¦grad(|t: &Tensor| energy@(t))(&$h)⟧").items("
    #[traced]
    pub fn energy@(t: &Tensor) -> Tensor { (t * ‹1.5›).sin().square().sum(..) }"),
    known("transform", "a companion with values", "g@ * v@").stmts("
        let (v@, g@) = ⟦{ let (v, g) = energy@::value_and_grad(&$h); (v, g.t) }¦value_and_grad(|t: &Tensor| energy@(t))(&$h)⟧;").items("
    #[traced]
    pub fn energy@(t: &Tensor) -> Tensor { (t * ‹1.5›).sin().square().sum(..) }"),
    known("transform", "a companion's tangent", "⟦wave@::jvp(&$h, &$h).1¦jvp(|t: &Tensor| wave@(t), &$h, &$h).1⟧").items("
    #[traced]
    pub fn wave@(t: &Tensor) -> Tensor { (t * ‹1.5›).sin() }"),
    // Computations that a caller passes to `#[nodiff]` parameters.
    known("nodiff", "a function", "apply@(&$h.cos(), &$h)").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor) -> Tensor { (w * t * ‹1.5›).sin() }"),
    known("nodiff", "a function of one tensor, twice", "apply@(&$h, &$h)").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor) -> Tensor { w * t.exp() * ‹0.5› }"),
    known("nodiff", "a recorded function", "apply@(&$h.cos(), &$h)").items("
    #[traced(record)]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor) -> Tensor { (w * t * ‹1.5›).sin() }"),
    known("nodiff", "a function with a loop", "apply@(&$h.cos(), &$h, n@)").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor, n: usize) -> Tensor {
        let mut y = w.clone();
        for _ in 0..n {
            y = (&y * t * ‹1.5›).sin();
        }
        y
    }").params(&[N]),
    known("nodiff", "a function in a function", "outer@(&$h.cos(), &$h)").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor) -> Tensor { (w * t * ‹1.5›).sin() }
    #[traced]
    pub fn outer@(w: &Tensor, #[nodiff] t: &Tensor) -> Tensor { apply@(w, &t.tanh()) * 2.0 }"),
    known("nodiff", "a tree", "apply@(&$h.cos(), &($h.clone(), $h.sin()))").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] p: &(Tensor, Tensor)) -> Tensor { w * &p.0 + &p.1 * ‹1.5› }"),
    known("nodiff", "two results", "a@ * b@").stmts("let (a@, b@) = apply@(&$h.cos(), &$h);").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor) -> (Tensor, Tensor) { (w * t, t.sin() * ‹1.5›) }"),
    known("nodiff", "a method", "m@.forward(&$h)").items(LIN).params(&[LIN_PARAM]),
    known("nodiff", "two methods", "m@.forward(&m@.forward(&$h))").items(LIN).params(&[LIN_PARAM]),
    known("nodiff", "a method in a method", "m@.forward(&$h)").items(MLP).params(&[MLP_PARAM]),
    known("nodiff", "a method in a loop", "t@").stmts("let mut t@ = $h.clone(); for _ in 0..n@ { t@ = m@.forward(&t@); }").items(MLP).params(&[MLP_PARAM, N]),
    known("nodiff", "a companion with a parameter that has none", "⟦apply@::jvp((&$h.cos(), &$h), &$h).1¦jvp(|w: &Tensor| apply@(w, &$h), &$h.cos(), &$h).1⟧").items("
    #[traced]
    pub fn apply@(w: &Tensor, #[nodiff] t: &Tensor) -> Tensor { (w * t * ‹1.5›).sin() }"),
];

/// Parts that read tensor values.
pub(crate) static READERS: &[Device] = &[
    reads("an element", "$h.sum(..).item::<f64>() * ‹0.5›"),
    reads("a list", "$h.to_vec::<f64>().iter().sum::<f64>() * ‹0.5›"),
    reads("a branch", "if $h.sum(..).item::<f64>() > 0.25 { ‹1.5› } else { 0.5 }"),
    reads("a loop", "t@").stmts("let mut t@ = 0.25; let mut y@ = $h.clone(); for _ in 0..5 { y@ = &y@ * 0.5; t@ += 0.125; if y@.abs().max(..).item::<f64>() < ‹0.25› { break; } }"),
    reads("a name", "f64::from(u8::from($h.mean(..).item::<f64>() > 0.0)) * ‹0.5›"),
];

/// Returns a part whose number is behind a user's `Deref`, which may have state as far as its type
/// tells.
const fn typed(name: &'static str, value: &'static str) -> Device {
    hidden("deref", name, value).effect(Effect::Typed)
}

const fn reads(name: &'static str, value: &'static str) -> Device {
    hidden("reads", name, value).effect(Effect::Reads)
}
