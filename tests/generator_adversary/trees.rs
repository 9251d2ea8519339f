//! Parts with local trees: lists, iterator chains with closures, structs, variants, traits, and parameters that borrow
//! parts of a tree.

use super::device::{Device, Param, fixed, known};

const N: Param = fixed("n@", "usize", ["2", "0", "3"]);
const OPTION: Param = view("o@", "Option<&Tensor>", "Some(&$0)", "&Some($0)", 1);
const SLICE: Param = view("l@", "&[Tensor]", "&[$0, $1]", "&vec![$0, $1]", 2);
const VIEWS: Param = view("v@", "&[&Tensor]", "&[&$0, &$1]", "&vec![$0, $1]", 2);
const PAIR: Param = view("p@", "(&Tensor, &Tensor)", "(&$0, &$1)", "&($0, $1)", 2);
const PAIR_PATTERN: Param = view(
    "(p@, q@)",
    "(&Tensor, &Tensor)",
    "(&$0, &$1)",
    "&($0, $1)",
    2,
);
const ARRAY: Param = view("a@", "[&Tensor; 2]", "[&$0, &$1]", "&[$0, $1]", 2);
const ARRAY_PATTERN: Param = view("[p@, q@]", "[&Tensor; 2]", "[&$0, &$1]", "&[$0, $1]", 2);

/// Returns a parameter that borrows parts of a tree. Its tangent has the owned form.
const fn view(
    name: &'static str,
    ty: &'static str,
    arg: &'static str,
    tangent: &'static str,
    leaves: usize,
) -> Param {
    Param {
        name,
        ty,
        args: [arg; 3],
        tangent: Some(tangent),
        leaves,
    }
}

// The literals of items have no marks: a part calls only some of the functions, and `HASH` counts only those.
pub(crate) const STATE: &str = "
    #[derive(Clone, Tree)]
    pub struct St@ { pub h: Tensor, pub c: Tensor }
    #[traced]
    impl St@ {
        pub fn read(&self) -> Tensor { (&self.h * 1.5).sin() + &self.c }
        pub fn stepped(&self, t: &Tensor) -> St@ {
            let c = &self.c * 0.5 + t.tanh();
            St@ { h: c.sin() * &self.h, c }
        }
        pub fn parts(&self) -> (Tensor, Tensor) { (self.h.sin(), self.c.clone()) }
    }
    #[traced]
    pub fn begin@(t: &Tensor) -> St@ { St@ { h: t.sin(), c: t * 0.75 } }
    #[traced]
    pub fn step@(s: &St@) -> St@ {
        let c = &s.c + s.h.tanh() * 0.5;
        St@ { h: &s.h * 0.5 + c.sin(), c }
    }
    #[traced]
    pub fn both@(s: &St@, t: &Tensor) -> (St@, Tensor) {
        let next = step@(s);
        let y = next.read() * t;
        (next, y)
    }
    #[traced]
    pub fn maybe@(s: &St@, n: usize) -> Option<St@> {
        if n > 1 { Some(St@ { h: s.c.clone(), c: &s.h * 1.25 }) } else { None }
    }
    #[traced]
    pub fn states@(t: &Tensor, n: usize) -> Vec<St@> {
        let mut s = begin@(t);
        let mut out = Vec::new();
        for _ in 0..n {
            s = step@(&s);
            out.push(s.clone());
        }
        out
    }
    #[traced]
    pub fn total@(all: &[St@], t: &Tensor) -> Tensor {
        let mut y = t.clone();
        for s in all {
            y = y + s.read() * &s.h;
        }
        y
    }";
const SHAPE: &str = "
    #[derive(Clone, Tree)]
    pub enum Form@ { Nothing, One(Tensor), Two { a: Tensor, b: Tensor } }
    #[traced]
    pub fn form@(t: &Tensor, n: usize) -> Form@ {
        match n {
            0 => Form@::Nothing,
            1 | 2 => Form@::Two { a: t.sin(), b: t * 0.5 },
            _ => Form@::One(t.cos()),
        }
    }
    #[traced]
    pub fn area@(s: &Form@, t: &Tensor) -> Tensor {
        match s {
            Form@::Nothing => t.sin(),
            Form@::One(a) => a * t,
            Form@::Two { a, b } => a * b + t * 0.25,
        }
    }";
const TRAIT: &str = "
    #[traced]
    pub trait Act@ {
        fn act(&self, t: &Tensor) -> Tensor;
        fn twice(&self, t: &Tensor) -> Tensor {
            let y = self.act(t);
            self.act(&y)
        }
    }
    #[traced]
    pub trait Map@ { fn apply(t: &Tensor) -> Tensor; }
    #[derive(Clone, PartialEq, Eq)]
    pub struct Wave@;
    #[traced]
    impl Act@ for Wave@ {
        fn act(&self, t: &Tensor) -> Tensor { (t * 1.5).sin() }
    }
    #[traced]
    impl Map@ for Wave@ {
        fn apply(t: &Tensor) -> Tensor { t.cos() * 0.5 }
    }
    #[derive(Clone, Tree)]
    pub struct Gain@ { pub w: Tensor }
    #[traced]
    impl Act@ for Gain@ {
        fn act(&self, t: &Tensor) -> Tensor { t * &self.w * 0.5 }
    }
    #[traced]
    impl Map@ for Gain@ {
        fn apply(t: &Tensor) -> Tensor { t.tanh() }
    }
    #[traced]
    pub fn act@<A: Act@ + Tree>(a: &A, t: &Tensor) -> Tensor { a.act(&t.sin()) + t }
    #[traced]
    pub fn mapped@<A: Map@>(t: &Tensor) -> Tensor { A::apply(t) * 0.75 }
    #[derive(Clone, Tree)]
    pub struct Net@<L: Clone + Tree> { pub layer: L, pub b: Tensor }
    #[traced]
    impl<L: Act@ + Clone + Tree> Net@<L> {
        pub fn forward(&self, t: &Tensor) -> Tensor { self.layer.act(t) + &self.b }
        pub fn deep(&self, t: &Tensor) -> Tensor {
            let y = self.forward(t);
            self.layer.twice(&y).tanh()
        }
    }
    #[derive(Clone, Tree)]
    pub struct Skip@<A: Clone> { pub w: Tensor, #[tree(skip)] pub act: A }
    #[traced]
    impl<A: Act@ + Clone> Skip@<A> {
        pub fn forward(&self, t: &Tensor) -> Tensor { self.act.act(&(t * &self.w)) }
    }";
const GAIN: Param = view(
    "g@",
    "&Gain@",
    "&M::Gain@ { w: $0 }",
    "&M::Gain@ { w: $0 }",
    1,
);
const NET: Param = view(
    "m@",
    "&Net@<Gain@>",
    "&M::Net@ { layer: M::Gain@ { w: $0 }, b: $1 }",
    "&M::Net@ { layer: M::Gain@ { w: $0 }, b: $1 }",
    2,
);
const SKIP: Param = view(
    "m@",
    "&Skip@<Wave@>",
    "&M::Skip@ { w: $0, act: M::Wave@ }",
    "&M::Skip@ { w: $0, act: M::Wave@ }",
    1,
);
const VIEW: &str = "
    #[traced]
    pub fn biased@(t: &Tensor, b: Option<&Tensor>) -> Tensor {
        match b {
            Some(b) => (t + b * 0.5).tanh(),
            None => t.sin(),
        }
    }
    #[traced]
    pub fn joined@(l: &[Tensor], [a, b]: [&Tensor; 2]) -> Tensor {
        let mut y = a * b;
        for (i, t) in l.iter().enumerate() {
            y = y + t * (i as f64 + 0.5);
        }
        y
    }
    #[traced]
    pub fn mixed@((a, b): (&Tensor, &Tensor), l: &[&Tensor]) -> Tensor {
        let mut y = a - b * 0.5;
        for t in l {
            y = y * t.cos();
        }
        y
    }
    #[traced]
    pub fn first@(l: &[Tensor]) -> Option<Tensor> {
        if l.is_empty() { None } else { Some(l[0].sin() * 0.5) }
    }";

/// Parts that only compute, with trees in the body.
pub(crate) static TREES: &[Device] = &[
    // Lists.
    known("list", "push and index", "&l@[0] * &l@[1]").stmts("let mut l@ = Vec::new(); l@.push($h.sin()); l@.push($h.cos() * ‹0.5›);"),
    known("list", "a list that grows in a loop", "Tensor::stack(&l@, 0).sum(0)").stmts("let mut l@ = vec![$h.clone()]; for i in 0..n@ { let t = l@[i].sin() * ‹1.5›; l@.push(t); }").params(&[N]),
    known("list", "a loop over a list", "y@").stmts("let l@ = vec![$h.sin(), $h.clone(), $h.cos()]; let mut y@ = &$h * ‹0.5›; for t in &l@ { y@ = y@ + t * &l@[0]; }"),
    known("list", "a loop that takes a list apart", "y@").stmts("let l@ = vec![$h.sin(), &$h * 0.5]; let mut y@ = $h.clone(); for t in l@ { y@ = y@ * ‹0.5› + t; }"),
    known("list", "collect of a map", "&l@[n@] * &l@[0]").stmts("let l@: Vec<Tensor> = (0..4).map(|i| (&$h * (i as f64 + ‹0.5›)).sin()).collect();").params(&[N]),
    known("list", "collect of a map of a list", "Tensor::stack(&m@, 0).mean(0)").stmts("let l@ = vec![$h.sin(), $h.cos()]; let m@: Vec<Tensor> = l@.iter().map(|t| t * t * ‹0.5›).collect();"),
    known("list", "stack", "Tensor::stack(&[$h.sin(), &$h * ‹0.5›], 0).sum(0)"),
    known("list", "one tensor twice", "&l@[0] * &l@[1] * ‹0.5›").stmts("let t@ = $h.sin(); let l@ = vec![t@.clone(), t@.clone()];"),
    known("list", "one tensor twice in a stack", "Tensor::stack(&[&t@, &t@, &$h], 0).sum(0) * ‹0.5›").stmts("let t@ = $h.sin();"),
    known("list", "an element that is replaced", "&l@[0] - &old@ * &l@[1]").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; let old@ = l@[0].clone(); l@[0] = &l@[0] * &l@[1] * ‹1.5›;"),
    known("list", "elements that are replaced in a loop", "&l@[0] + &l@[1]").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; for i in 0..n@ { l@[i % 2] = &l@[0] * &l@[1] + ‹0.5›; }").params(&[N]),
    known("list", "pop, insert and remove", "&p@ * &l@[0] - &r@").stmts("let mut l@ = vec![$h.sin(), $h.clone()]; l@.insert(0, &$h * ‹0.5›); let p@ = l@.pop().unwrap(); let r@ = l@.remove(1);"),
    known("list", "extend and truncate", "l@.iter().fold($h.clone(), |a, t| a * t)").stmts("let mut l@ = vec![$h.sin()]; l@.extend([$h.cos(), &$h * ‹0.5›]); l@.truncate(2);"),
    known("list", "swap and reverse", "&l@[0] * ‹0.5› - &l@[2]").stmts("let mut l@ = vec![$h.sin(), $h.clone(), $h.cos()]; l@.swap(0, 1); l@.reverse();"),
    known("list", "last", "l@.last().unwrap() * ‹0.5›").stmts("let l@ = vec![$h.sin(), $h.cos()];"),
    known("list", "a list of pairs", "y@").stmts("let l@ = vec![($h.sin(), $h.cos()), ($h.clone(), &$h * ‹0.5›)]; let mut y@ = $h.clone(); for (a, b) in &l@ { y@ = y@ + a * b; }"),
    known("list", "an array", "a@ * b@").stmts("let l@ = [$h.sin(), &$h * ‹0.5›]; let [a@, b@] = &l@;"),
    known("list", "a list of one branch", "l@.iter().fold($h.sin(), |a, t| a + t)").stmts("let mut l@ = Vec::new(); if n@ > 1 { l@.push($h.cos()); } l@.push(&$h * ‹0.5›);").params(&[N]),
    // Iterators.
    known("chain", "map and fold", "l@.iter().map(|t| t.sin() * ‹0.5›).fold($h.clone(), |a, t| a * t)").stmts("let l@ = vec![$h.clone(), $h.cos()];"),
    known("chain", "zip", "l@.iter().zip(&m@).map(|(a, b)| a * b * ‹0.5›).fold($h.zeros_like(), |a, t| a + t)").stmts("let l@ = vec![$h.clone(), $h.cos()]; let m@ = vec![$h.sin(), $h.clone()];"),
    known("chain", "filter on a condition", "l@.iter().enumerate().filter(|(i, _)| i % 2 == n@ % 2).map(|(_, t)| t * ‹1.5›).fold($h.clone(), |a, t| a + t)").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()];").params(&[N]),
    known("chain", "filter_map", "(0..n@).filter_map(|i| if i == 1 { None } else { Some($h.sin() * (i as f64 + ‹0.5›)) }).fold($h.clone(), |a, t| a + t)").params(&[N]),
    known("chain", "rev, skip and take", "l@.iter().rev().skip(1).take(2).fold($h.clone(), |a, t| (a * t * ‹1.5›).sin())").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()];"),
    known("chain", "flat_map", "l@.iter().flat_map(|t| [t.sin(), t * ‹0.5›]).fold($h.zeros_like(), |a, t| a + t)").stmts("let l@ = vec![$h.clone(), $h.cos()];"),
    known("chain", "windows", "l@.windows(2).map(|w| &w[1] - &w[0] * ‹0.5›).fold($h.clone(), |a, t| a * t)").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()];"),
    known("chain", "reduce", "l@.into_iter().reduce(|a, b| a * b + ‹0.5›).unwrap()").stmts("let l@ = vec![$h.sin(), $h.cos(), $h.clone()];"),
    known("chain", "scan in a fold over counts", "(0..n@).fold($h.clone(), |t, i| (t * (i as f64 + ‹0.5›)).sin())").params(&[N]),
    known("chain", "a fold of a pair", "&y@.0 * &y@.1").stmts("let y@ = (0..n@).fold(($h.clone(), $h.sin()), |(a, b), _| (&a + &b * ‹0.5›, a));").params(&[N]),
    known("chain", "for over a chain", "y@").stmts("let l@ = vec![$h.sin(), $h.cos()]; let mut y@ = $h.clone(); for (i, (a, b)) in l@.iter().zip(l@.iter().skip(1)).enumerate() { y@ = y@ + a * b * (i as f64 + ‹0.5›); }"),
    known("chain", "states out of a map", "all@.iter().map(|s| s.read()).fold($h.clone(), |a, t| a + t)").stmts("let all@: Vec<St@> = (0..n@).map(|i| begin@(&(&$h * (i as f64 + ‹0.5›)))).collect();").items(STATE).params(&[N]),
    // Structs.
    known("struct", "made and read", "&s@.h * &s@.c").stmts("let s@ = St@ { h: $h.sin(), c: &$h * ‹0.5› };").items(STATE),
    known("struct", "returned by a function", "&s@.h + s@.read()").stmts("let s@ = begin@(&$h);").items(STATE),
    known("struct", "a field that changes", "s@.read() - &old@ * &s@.c").stmts("let mut s@ = begin@(&$h); let old@ = s@.h.clone(); s@.h = &s@.h * &s@.c * ‹1.5›;").items(STATE),
    known("struct", "a field that changes in a branch", "s@.read()").stmts("let mut s@ = begin@(&$h); if n@ > 1 { s@.c = s@.h.cos() * ‹0.5›; } else { s@.h = &s@.c * 2.0; }").items(STATE).params(&[N]),
    known("struct", "an old part in a loop", "y@ + s@.read()").stmts("let mut s@ = begin@(&$h); let mut y@ = $h.clone(); for _ in 0..n@ { let old = s@.h.clone(); s@ = step@(&s@); y@ = y@ + (&s@.h - old) * ‹1.5›; }").items(STATE).params(&[N]),
    known("struct", "an old state in a loop", "&s@.h * &before@.c").stmts("let mut s@ = begin@(&$h); let mut before@ = s@.clone(); for _ in 0..n@ { let next = s@.stepped(&before@.h); before@ = s@; s@ = next; s@.c = &s@.c + &before@.h * ‹0.5›; }").items(STATE).params(&[N]),
    known("struct", "a slot that one turn in two changes", "s@.h").stmts("let mut s@ = begin@(&$h); for i in 0..n@ { if i % 2 == 0 { s@.h = s@.read() * ‹0.5›; } else { s@ = step@(&s@); } }").items(STATE).params(&[N]),
    known("struct", "taken apart", "a@ * c@.sin() * ‹0.5›").stmts("let St@ { h: a@, c: c@ } = step@(&begin@(&$h));").items(STATE),
    known("struct", "taken apart by a reference", "h@ * c@ + s@.read() * ‹0.5›").stmts("let s@ = begin@(&$h); let St@ { h: h@, c: c@ } = &s@;").items(STATE),
    known("struct", "an update", "s@.read() * &r@.h").stmts("let r@ = begin@(&$h); let s@ = St@ { h: r@.h.cos() * ‹0.5›, ..r@.clone() };").items(STATE),
    known("struct", "a tuple with a struct", "s@.read() + y@").stmts("let (s@, y@) = both@(&begin@(&$h), &$h);").items(STATE),
    known("struct", "a tuple with a struct in a loop", "s@.read() * y@").stmts("let mut s@ = begin@(&$h); let mut y@ = $h.clone(); for _ in 0..n@ { let (next, y) = both@(&s@, &y@); s@ = next; y@ = y.sin() * ‹1.5›; }").items(STATE).params(&[N]),
    known("struct", "an assigned tuple", "s@.read() * y@").stmts("let mut s@ = begin@(&$h); let mut y@ = &$h * ‹0.5›; for _ in 0..n@ { (s@, y@) = both@(&s@, &y@); }").items(STATE).params(&[N]),
    known("struct", "a method that returns a pair", "a@ * b@ * ‹0.5›").stmts("let (a@, b@) = begin@(&$h).parts();").items(STATE),
    known("struct", "an option of a struct in a loop", "s@.read()").stmts("let mut s@ = begin@(&$h); for i in 0..3 { if let Some(next) = maybe@(&s@, i + n@) { s@ = next; s@.h = &s@.h + ‹0.5›; } }").items(STATE).params(&[N]),
    known("struct", "unwrap_or of an option", "maybe@(&s@, n@).unwrap_or(step@(&s@)).read() * ‹0.5›").stmts("let s@ = begin@(&$h);").items(STATE).params(&[N]),
    known("struct", "a list of structs that is passed", "total@(&all@, &$h)").stmts("let mut all@ = states@(&$h, n@); all@.push(begin@(&$h.cos())); all@[0].h = &all@[0].c * ‹1.5›;").items(STATE).params(&[N]),
    known("struct", "one struct twice", "total@(&vec![s@.clone(), s@.clone()], &$h) * ‹0.5›").stmts("let s@ = begin@(&$h);").items(STATE),
    known("struct", "a nested struct", "&p@.a.h * p@.b.read()").stmts("let mut p@ = Pair@ { a: begin@(&$h), b: begin@(&$h.cos()) }; p@.a.h = &p@.b.h * ‹0.5›; p@.b = step@(&p@.a);").items("
    #[derive(Clone, Tree)]
    pub struct Pair@ { pub a: St@, pub b: St@ }
    #[derive(Clone, Tree)]
    pub struct St@ { pub h: Tensor, pub c: Tensor }
    #[traced]
    impl St@ {
        pub fn read(&self) -> Tensor { (&self.h * ‹1.5›).sin() + &self.c }
    }
    #[traced]
    pub fn begin@(t: &Tensor) -> St@ { St@ { h: t.sin(), c: t * ‹0.75› } }
    #[traced]
    pub fn step@(s: &St@) -> St@ { St@ { h: &s.h * 0.5 + s.c.sin(), c: s.h.clone() } }"),
    known("struct", "a struct of a struct of a list", "y@ * &b@.all[0]").stmts("let mut b@ = Bag@ { all: vec![$h.sin(), $h.clone()], bias: None }; b@.bias = Some(&b@.all[0] * ‹0.5›); b@.all.push($h.cos()); let y@ = weigh@(&b@);").items("
    #[derive(Clone, Tree)]
    pub struct Bag@ { pub all: Vec<Tensor>, pub bias: Option<Tensor> }
    #[traced]
    pub fn weigh@(b: &Bag@) -> Tensor {
        let mut y = b.all[0].clone();
        for t in &b.all[1..] {
            y = y * t + ‹0.5›;
        }
        match &b.bias {
            Some(bias) => y + bias,
            None => y,
        }
    }"),
    // Variants.
    known("variant", "made and matched", "match &s@ { Form@::Nothing => $h.sin(), Form@::One(a) => a * ‹0.5›, Form@::Two { a, b } => a - b }").stmts("let s@ = form@(&$h, n@);").items(SHAPE).params(&[N]),
    known("variant", "passed", "area@(&s@, &$h)").stmts("let s@ = Form@::Two { a: $h.sin(), b: &$h * ‹0.5› };").items(SHAPE),
    known("variant", "another one in each turn", "area@(&s@, &$h)").stmts("let mut s@ = Form@::Nothing; for i in 0..n@ { let y = area@(&s@, &$h); s@ = if i == 0 { Form@::One(y) } else { Form@::Two { a: y * ‹0.5›, b: $h.cos() } }; }").items(SHAPE).params(&[N]),
    known("variant", "if let", "y@").stmts("let s@ = form@(&$h, n@); let mut y@ = $h.clone(); if let Form@::Two { a, .. } = &s@ { y@ = y@ * a * ‹0.5›; }").items(SHAPE).params(&[N]),
    known("variant", "taken apart", "match form@(&$h, n@) { Form@::Two { a, b } => a * b * ‹0.5›, Form@::One(a) => a, Form@::Nothing => $h.cos() }").items(SHAPE).params(&[N]),
    known("variant", "a local option", "match &o@ { Some(t) => t * &$h, None => $h.cos() }").stmts("let mut o@ = None; for i in 0..n@ { o@ = Some(&$h * (i as f64 + ‹0.5›)); }").params(&[N]),
    known("variant", "an option with a closure", "o@.map(|t| t * &$h).unwrap_or($h.sin())").stmts("let o@ = if n@ > 1 { Some($h.cos() * ‹0.5›) } else { None };").params(&[N]),
    known("variant", "an option out of a function", "first@(&[$h.clone(), $h.sin()]).unwrap() * ‹0.5›").items(VIEW),
    // Traits.
    known("trait", "a method of an impl", "g@.act(&$h) * ‹0.5›").items(TRAIT).params(&[GAIN]),
    known("trait", "a generic function", "act@(g@, &$h) * ‹0.5›").items(TRAIT).params(&[GAIN]),
    known("trait", "a generic function in a loop", "y@").stmts("let mut y@ = $h.clone(); for _ in 0..n@ { y@ = act@(g@, &y@) * ‹0.5›; }").items(TRAIT).params(&[GAIN, N]),
    known("trait", "a function of a type parameter", "mapped@::<Wave@>(&$h) + mapped@::<Gain@>(&$h) * ‹0.5›").items(TRAIT),
    known("trait", "a function of an impl", "Wave@::apply(&$h) * ‹0.5›").items(TRAIT),
    known("trait", "a generic layer", "m@.forward(&$h) * ‹0.5›").items(TRAIT).params(&[NET]),
    known("trait", "a default body of a generic layer", "m@.deep(&$h) * ‹0.5›").items(TRAIT).params(&[NET]),
    known("trait", "a layer with a skipped parameter", "m@.forward(&$h) * ‹0.5›").items(TRAIT).params(&[SKIP]),
    known("trait", "a part of a generic layer", "m@.layer.act(&$h) + &m@.b * ‹0.5›").items(TRAIT).params(&[NET]),
    known("trait", "a local layer", "m@.forward(&$h.cos())").stmts("let m@ = Net@ { layer: Gain@ { w: $h.sin() }, b: &$h * ‹0.5› };").items(TRAIT),
    // Parameters that borrow parts of a tree.
    known("view", "an option of a reference", "match o@ { Some(t) => t * &$h * ‹0.5›, None => $h.sin() }").params(&[OPTION]),
    known("view", "an option that is passed on", "biased@(&$h, o@) + biased@(&$h, None) + biased@(&$h, Some(&$h)) * ‹0.5›").items(VIEW).params(&[OPTION]),
    known("view", "an option that a branch passes on", "biased@(&$h, if n@ > 1 { o@ } else { None }) * ‹0.5›").items(VIEW).params(&[OPTION, N]),
    known("view", "a slice", "y@").stmts("let mut y@ = &$h * ‹0.5›; for t in l@ { y@ = y@ * t; } for (i, t) in l@.iter().enumerate() { y@ = y@ + t * i as f64; }").params(&[SLICE]),
    known("view", "a slice that is passed on", "joined@(l@, [&$h, &l@[0]]) * ‹0.5›").items(VIEW).params(&[SLICE]),
    known("view", "a part of a slice", "joined@(&l@[1..], [&$h, &$h]) * ‹0.5›").items(VIEW).params(&[SLICE]),
    known("view", "a slice of one tensor twice", "joined@(&[$h.clone(), $h.clone()], [&$h, &$h]) * ‹0.5›").items(VIEW),
    known("view", "a local list that is passed", "joined@(&m@, [&m@[1], &$h])").stmts("let mut m@ = vec![$h.sin(), $h.clone()]; m@.push(&$h * ‹0.5›);").items(VIEW),
    known("view", "a slice pattern", "match l@ { [a, b] => a * b * &$h * ‹0.5›, _ => $h.sin() }").params(&[SLICE]),
    known("view", "a chain over a slice", "l@.iter().map(|t| t.sin()).fold($h.clone(), |a, t| a * t * ‹1.5›)").params(&[SLICE]),
    known("view", "references in a slice", "v@[0] * v@[1] * &$h * ‹0.5›").params(&[VIEWS]),
    known("view", "references that are passed on", "mixed@((&$h, v@[0]), v@)").items(VIEW).params(&[VIEWS]),
    known("view", "a tuple", "p@.0 * p@.1 * &$h * ‹0.5›").params(&[PAIR]),
    known("view", "a tuple that is passed on", "mixed@(p@, &[&$h, &$h]) * ‹0.5›").items(VIEW).params(&[PAIR]),
    known("view", "a tuple pattern", "p@ * &$h + q@ * ‹0.5›").params(&[PAIR_PATTERN]),
    known("view", "an array", "a@[0] * &$h + a@[1] * ‹0.5›").params(&[ARRAY]),
    known("view", "a loop over an array", "y@").stmts("let mut y@ = $h.clone(); for t in a@ { y@ = y@ * t * ‹1.5›; }").params(&[ARRAY]),
    known("view", "an array pattern", "p@ * &$h + q@ * ‹0.5›").params(&[ARRAY_PATTERN]),
    // Elements that leave a list or an option.
    known("struct", "an option of a struct", "match maybe@(&begin@(&$h), n@) { Some(s) => s.read() * ‹0.5›, None => $h.sin() }").items(STATE).params(&[N]),
    known("struct", "a method beside another part of a list", "&l@[0] * &l@[1] * ‹0.5›").stmts("let s@ = begin@(&$h); let l@ = vec![s@.read(), $h.sin()];").items(STATE),
    known("struct", "an assignment out of an option", "s@.read() * ‹0.5›").stmts("let mut s@ = begin@(&$h); if let Some(next) = maybe@(&s@, n@) { s@ = next; }").items(STATE).params(&[N]),
    known("struct", "a list of structs", "y@").stmts("let all@ = states@(&$h, n@); let mut y@ = &$h * ‹0.5›; for s in &all@ { y@ = y@ + &s.h * s.read(); }").items(STATE).params(&[N]),
    known("changed", "an option that is taken", "t@ + o@.unwrap_or($h.cos())").stmts("let mut o@ = Some($h.sin() * ‹0.5›); let t@ = o@.take().unwrap();"),
    known("changed", "an option that is replaced", "r@ * o@.unwrap()").stmts("let mut o@ = Some($h.sin()); let r@ = o@.replace(&$h * ‹0.5›).unwrap();"),
    known("changed", "drain", "&m@[0] * ‹0.5› + &l@[0]").stmts("let mut l@ = vec![$h.sin(), $h.cos()]; let m@: Vec<Tensor> = l@.drain(..1).collect();"),
    known("changed", "swap_remove", "t@ * &l@[0] + &l@[1] * ‹1.5›").stmts("let mut l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let t@ = l@.swap_remove(0);"),
    known("changed", "split_off", "&m@[0] * &l@[0] * (l@.len() as f64 * ‹0.5›)").stmts("let mut l@ = vec![$h.sin(), $h.cos(), $h.clone()]; let m@ = l@.split_off(1);"),
    known("changed", "append", "&l@[1] * ‹1.5› + &l@[0] * (m@.len() as f64 + 1.0)").stmts("let mut l@ = vec![$h.sin()]; let mut m@ = vec![$h.cos()]; l@.append(&mut m@);"),
];
