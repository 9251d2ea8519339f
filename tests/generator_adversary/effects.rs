//! Parts with hidden state, grouped by how they hide it.

use super::device::{Device, Effect, Param, fixed, hidden, hidden_tensor, known, tree};

const MODEL: Param = tree("m@", "&Net@", "&M::Net@ { w: $0 }", 1);
const SCHED: Param = fixed(
    "s@",
    "#[fixed] &Sched",
    [
        "&Sched { warm: 1 }",
        "&Sched { warm: 0 }",
        "&Sched { warm: 2 }",
    ],
);
const NET: &str = "
    #[derive(Clone, Tree)]
    pub struct Net@ { pub w: Tensor }
    #[traced]
    impl Net@ {
        pub fn step(&self, t: &Tensor) -> Tensor { t * &self.w * ‹0.5› }
        pub fn forward(&self, t: &Tensor) -> Tensor { self.step(t).tanh() }
    }";
const WRAP: &str = "
    #[derive(Clone, Tree)]
    pub struct Core@ { pub w: Tensor }
    #[traced]
    impl Core@ {
        pub fn forward(&self, t: &Tensor) -> Tensor { t * &self.w * 0.5 }
    }
    #[derive(Clone, Tree)]
    pub struct Wrap@ { pub core: Core@ }
    impl std::ops::Deref for Wrap@ {
        type Target = Core@;
        fn deref(&self) -> &Core@ { noise(); &self.core }
    }";
const WRAP_PARAM: Param = tree("m@", "&Wrap@", "&M::Wrap@ { core: M::Core@ { w: $0 } }", 1);
const HELD: &str = "
    #[derive(Clone, Tree)]
    pub struct Held@ {
        pub w: Tensor,
        #[tree(skip)]
        pub act: fn(f64) -> f64,
    }";
const HELD_PARAM: Param = tree("m@", "&Held@", "&M::Held@ { w: $0, act: noisy }", 1);
const CELLS: &str = "
    #[derive(Clone, Tree)]
    pub struct Cells@ {
        pub w: Tensor,
        #[tree(skip)]
        pub c: Rc<Cell<i64>>,
        #[tree(skip)]
        pub all: Vec<Rc<Cell<i64>>>,
    }";
const CELLS_PARAM: Param = tree(
    "m@",
    "&Cells@",
    "&M::Cells@ { w: $0, c: cell(), all: vec![cell()] }",
    1,
);

/// All parts with hidden state.
pub(crate) static HIDDEN: &[Device] = &[
    // Effects that any purity analysis finds.
    hidden("plain", "a call", "noise()"),
    hidden("plain", "a call with an argument", "noisy(‹1.5›)"),
    hidden("plain", "a call by a path", "self::noise()"),
    hidden("plain", "a macro", "gradloom_tests::ambient!()"),
    hidden("plain", "an associated function", "Ambient::get(&Ambient)"),
    hidden("plain", "a block that writes it down", "{ write_down(\"here\"); ‹1.5› }"),
    // a: functions passed as values.
    hidden("a", "a function by name", "Some(‹1.5›).map(noisy).unwrap_or(0.0)"),
    hidden("a", "a local function value", "Some(‹1.5›).map(f@).unwrap_or(0.0)").stmts("let f@ = noisy;"),
    hidden("a", "a typed local function value", "Some(‹1.5›).map(f@).unwrap_or(0.0)").stmts("let f@: fn(f64) -> f64 = noisy;"),
    hidden("a", "a reference to a function", "Some(‹1.5›).map(&noisy).unwrap_or(0.0)"),
    hidden("a", "a function in parentheses", "Some(‹1.5›).map((noisy)).unwrap_or(0.0)"),
    hidden("a", "a function of a branch", "Some(‹1.5›).map(if $h.rank() > 0 { noisy as fn(f64) -> f64 } else { f64::sqrt }).unwrap_or(0.0)"),
    hidden("a", "a function of an array", "Some(‹1.5›).map([noisy][0]).unwrap_or(0.0)"),
    hidden("a", "a function of a match", "Some(‹1.5›).map(match $h.rank() { 0 => f64::sin as fn(f64) -> f64, _ => noisy }).unwrap_or(0.0)"),
    hidden("a", "a function of a block", "Some(‹1.5›).map({ noisy }).unwrap_or(0.0)"),
    hidden("a", "a function with a cast", "Some(‹1.5›).map(noisy as fn(f64) -> f64).unwrap_or(0.0)"),
    hidden("a", "a function of a tuple", "Some(p@.1).map(p@.0).unwrap_or(0.0)").stmts("let p@ = (noisy, ‹1.5›);"),
    hidden("a", "a function out of a tuple", "Some(‹1.5›).map(f@).unwrap_or(0.0)").stmts("let (f@, _) = (noisy, 1);"),
    hidden("a", "a local array of functions", "Some(‹1.5›).map(f@[1]).unwrap_or(0.0)").stmts("let f@: [fn(f64) -> f64; 2] = [f64::sqrt, noisy];"),
    hidden("a", "a function through identity", "Some(‹1.5›).map(std::convert::identity(noisy)).unwrap_or(0.0)"),
    hidden("a", "repeat_with", "std::iter::repeat_with(noise).take(2).sum::<f64>()"),
    hidden("a", "repeat_with a local", "std::iter::repeat_with(f@).take(2).sum::<f64>()").stmts("let f@ = noise;"),
    hidden("a", "from_fn of a local", "std::array::from_fn::<f64, 2, _>(f@)[1]").stmts("let g@ = noise; let f@ = move |_: usize| g@();"),
    hidden("a", "map of an array", "[0.5, ‹1.5›].map(f@)[1]").stmts("let f@ = noisy;"),
    hidden("a", "a method of a unit struct as a value", "Some(Ambient).map(f@).unwrap_or(0.0)").stmts("let f@ = Ambient::abs;"),
    hidden("a", "a call of a parameter of a closure", "c@(noisy)").stmts("let c@ = |g: fn(f64) -> f64| g(‹1.5›);"),
    hidden("a", "unwrap_or_else", "None::<f64>.unwrap_or_else(f@)").stmts("let f@ = noise;"),
    hidden("a", "a function out of an option", "Some(‹1.5›).map(f@.unwrap_or(f64::sqrt)).unwrap_or(0.0)").stmts("let f@ = Some(noisy as fn(f64) -> f64);"),
    hidden("a", "a function of a loop", "t@").stmts("let mut t@ = 0.0; for f in [noisy as fn(f64) -> f64] { t@ += Some(‹1.5›).map(f).unwrap_or(0.0); }"),
    // b: local names that are looked up in the whole body instead of their scope.
    hidden("b", "a local with the name of the function", "noisy").stmts("let noisy = Some(‹1.5›).map(noisy).unwrap_or(0.0);"),
    hidden("b", "a local with the name of a function that repeats", "roll").stmts("let roll = std::iter::repeat_with(roll).take(2).sum::<f64>();"),
    hidden("b", "a name of an inner block", "v@ + Some(‹1.5›).map(noisy).unwrap_or(0.0)").stmts("let v@ = { let noisy = ‹0.5›; noisy + 0.25 };"),
    hidden("b", "a name of a closure's parameter", "v@ + Some(‹1.5›).map(noisy).unwrap_or(0.0)").stmts("let v@ = Some(‹0.5›).map(|noisy: f64| noisy + 0.25).unwrap_or(0.0);"),
    hidden("b", "a name of a pattern", "v@ + Some(‹1.5›).map(noisy).unwrap_or(0.0)").stmts("let v@ = if let Some(noisy) = Some(‹0.5›) { noisy } else { 0.25 };"),
    hidden("b", "a name of a loop", "v@ + Some(‹1.5›).map(noisy).unwrap_or(0.0)").stmts("let mut v@ = 0.0; for noisy in 0..2 { v@ += noisy as f64; }"),
    hidden("b", "a name of an arm", "v@ + Some(‹1.5›).map(noisy).unwrap_or(0.0)").stmts("let v@ = match 2usize { 0 => 0.0, noisy => noisy as f64 };"),
    // c: rebound closures.
    hidden("c", "a closure rebound to a function", "c@(‹1.5›)").stmts("let c@ = |v: f64| v; let c@ = noisy;"),
    hidden("c", "a closure of an inner block", "v@ + noisy(‹1.5›)").stmts("let v@ = { let noisy = |v: f64| v + 0.25; noisy(‹0.5›) };"),
    hidden("c", "a closure that is assigned to", "c@(‹1.5›)").stmts("let mut c@: fn(f64) -> f64 = |v| v; if $h.rank() > 0 { c@ = noisy; }"),
    hidden("c", "a closure with the name of a function, later", "v@ + noisy(‹0.5›)").stmts("let v@ = noisy(‹1.5›); let noisy = |v: f64| v + 0.25;"),
    hidden("c", "a closure of another closure", "d@() + noisy(‹1.5›)").stmts("let d@ = || { let noisy = |v: f64| v; noisy(‹0.5›) };"),
    // d: function pointers as data.
    hidden("d", "a pointer in a constant", "Some(‹1.5›).map(POINTER).unwrap_or(0.0)"),
    hidden("d", "a pointer in an array constant", "Some(‹1.5›).map(POINTERS[1]).unwrap_or(0.0)"),
    hidden("d", "a pointer in a static", "Some(‹1.5›).map(HANDLER).unwrap_or(0.0)"),
    hidden("d", "a pointer in a lower-case static", "Some(‹1.5›).map(handler).unwrap_or(0.0)"),
    hidden("d", "a call of a constant", "POINTER(‹1.5›)"),
    hidden("d", "a pointer in an associated constant", "None::<f64>.unwrap_or_else(Cfg::READ)"),
    hidden("d", "a call of an associated constant", "(Cfg::READ)()"),
    hidden("d", "a constant of a type by its trait", "None::<f64>.unwrap_or_else(<f64 as Scale>::BY)"),
    hidden("d", "a pointer in a skipped field", "Some(‹1.5›).map(m@.act).unwrap_or(0.0)").items(HELD).params(&[HELD_PARAM]),
    hidden("d", "a call of a skipped field", "(m@.act)(‹1.5›)").items(HELD).params(&[HELD_PARAM]),
    hidden("d", "a pointer as a parameter", "Some(‹1.5›).map(p@).unwrap_or(0.0)").params(&[fixed("p@", "#[fixed] fn(f64) -> f64", ["noisy"; 3])]),
    hidden("d", "an array of pointers as a parameter", "Some(‹1.5›).map(p@[0]).unwrap_or(0.0)").params(&[fixed("p@", "#[fixed] &[fn(f64) -> f64; 1]", ["&[noisy as fn(f64) -> f64]"; 3])]),
    hidden("d", "a constant beside the function", "Some(‹1.5›).map(F@).unwrap_or(0.0)").items("const F@: fn(f64) -> f64 = noisy;"),
    hidden("d", "a constant struct of pointers", "Some(‹1.5›).map(T@.f).unwrap_or(0.0)").items("pub struct Table@ { pub f: fn(f64) -> f64 } const T@: Table@ = Table@ { f: noisy };"),
    // e: functions with upper-case names.
    hidden("e", "a function in capitals", "Noise()"),
    hidden("e", "an associated function in capitals", "Cfg::Read()"),
    hidden("e", "a path to a function in capitals", "gradloom_tests::adversary::world::Noise()"),
    hidden("e", "a function in capitals that is passed", "None::<f64>.unwrap_or_else(Noise)"),
    // f: methods of user types.
    hidden("f", "len", "k@.len() as f64").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "len of a literal", "Knob { n: 2 }.len() as f64"),
    hidden("f", "clamp", "k@.clamp(0.0, ‹4.0›)").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "next", "k@.next()").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "take", "k@.take()").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "replace", "k@.replace(‹1.5›)").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "max", "k@.max(‹0.25›)").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "sum", "k@.sum()").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "sqrt", "k@.sqrt()").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "step", "k@.step()").stmts("let k@ = Knob { n: 1 };"),
    hidden("f", "a method in a closure", "[Knob { n: 1 }].iter().map(|k| k.len() as f64).sum::<f64>()"),
    hidden("f", "a method out of an option", "Some(Knob { n: 1 }).map(|k| k.take()).unwrap_or(0.0)"),
    hidden("f", "a method of a tuple's part", "p@.0.len() as f64").stmts("let p@ = (Knob { n: 1 }, 2);"),
    hidden("f", "an iterator", "it@.next().unwrap_or(0.0)").stmts("let mut it@ = Ambient;"),
    hidden("f", "an iterator that is cut", "it@.take(2).sum::<f64>()").stmts("let it@ = Ambient;"),
    hidden("f", "a loop over a value", "t@").stmts("let mut t@ = 0.0; for v in Few { t@ += v; }"),
    hidden("f", "a list from a value", "all@.iter().sum::<f64>()").stmts("let mut all@ = vec![‹0.5›]; all@.extend(Few);"),
    hidden("f", "a chain", "[0.5, ‹1.5›].into_iter().chain(Few).sum::<f64>()"),
    hidden("f", "a zip", "[0.5, ‹1.5›].iter().zip(Few).map(|(a, b)| a * b).sum::<f64>()"),
    hidden("f", "flat_map", "(0..2).flat_map(|_| Few).sum::<f64>()"),
    hidden("f", "parse", "\"1\".parse::<Level>().map_or(0.0, |l| l.0)"),
    hidden("f", "collect", "[0.5, ‹1.5›].into_iter().collect::<Level>().0"),
    hidden("f", "a sum of another type", "[0.5, ‹1.5›].into_iter().sum::<Level>().0"),
    hidden("f", "a type by inference", "l@.0").stmts("let l@: Level = [0.5, ‹1.5›].into_iter().sum();"),
    // g: methods of extension traits.
    hidden_tensor("g", "normal", "$h.normal()"),
    hidden_tensor("g", "mul_add", "$h.mul_add(-‹1.5›, 1.0)"),
    hidden_tensor("g", "flatten", "$h.flatten()"),
    hidden_tensor("g", "inspect", "$h.inspect(\"h\")"),
    hidden_tensor("g", "first", "$h.first()"),
    hidden_tensor("g", "scan", "$h.scan()"),
    hidden_tensor("g", "a name that nothing else has", "$h.dropped()"),
    hidden_tensor("g", "an associated function of a tensor", "Tensor::level() * &$h"),
    hidden_tensor("g", "a method in a closure", "Some(&$h).map(|t| t.normal()).unwrap()"),
    hidden("g", "first of a number", "‹1.5›f64.first()"),
    hidden("g", "next of a number", "v@.next()").stmts("let v@: f64 = ‹1.5›;"),
    hidden("g", "flatten of a number", "v@.flatten()").stmts("let v@: f64 = ‹1.5›;"),
    hidden("g", "another name of a number", "‹1.5›f64.turned()"),
    hidden("g", "a number in a closure", "[0.5, ‹1.5›].iter().map(|v| v.first()).sum::<f64>()"),
    // h: conversions.
    hidden("h", "f64::from a reference", "f64::from(&Level(‹1.5›))"),
    hidden("h", "f64::from a value", "f64::from(l@)").stmts("let l@ = Level(‹1.5›);"),
    hidden("h", "f64::from a unit struct", "f64::from(Ambient)"),
    hidden_tensor("h", "Tensor::from a reference", "&$h * Tensor::from(&Level(‹1.5›))"),
    hidden_tensor("h", "Tensor::from a unit struct", "&$h * Tensor::from(Ambient)"),
    hidden("h", "into", "v@").stmts("let v@: f64 = Level(‹1.5›).into();"),
    hidden("h", "into of a number", "l@.0").stmts("let l@: Level = ‹1.5›.into();"),
    hidden("h", "a conversion that is passed", "Some(Ambient).map(f64::from).unwrap_or(0.0)"),
    hidden("h", "into that is passed", "Some(Ambient).map(Into::<f64>::into).unwrap_or(0.0)"),
    hidden("h", "a conversion of a static argument", "f64::from(l@)").params(&[fixed("l@", "#[fixed] &Level", ["&Level(1.5)", "&Level(0.5)", "&Level(1.0)"])]).effect(Effect::Typed),
    // i: shared cells.
    hidden("i", "replace through a list of references", "r@ as f64").stmts("let r@: i64 = [&m@.c].iter().map(|c| c.replace(7)).sum();").items(CELLS).params(&[CELLS_PARAM]),
    hidden("i", "take through an option", "r@ as f64").stmts("let r@: i64 = Some(&m@.c).map(|c| c.take()).unwrap_or(0);").items(CELLS).params(&[CELLS_PARAM]),
    hidden("i", "replace in a list", "r@ as f64").stmts("let r@: i64 = m@.all.iter().map(|c| c.replace(5)).sum();").items(CELLS).params(&[CELLS_PARAM]),
    hidden("i", "a cell as a static argument", "Some(c@).map(|c| c.replace(8)).unwrap_or(0) as f64").params(&[fixed("c@", "#[fixed] &Rc<Cell<i64>>", ["&cell()"; 3])]),
    // j: formatted values.
    hidden("j", "a unit struct in a format", "format!(\"{}\", Ambient).parse::<f64>().unwrap_or(0.0)"),
    hidden("j", "a local in a format", "format!(\"{a@}\").parse::<f64>().unwrap_or(0.0)").stmts("let a@ = Ambient;"),
    hidden("j", "a named argument of a format", "format!(\"{v}\", v = a@).parse::<f64>().unwrap_or(0.0)").stmts("let a@ = Ambient;"),
    hidden("j", "a width that is given", "format!(\"{:1$}\", Ambient, 2).trim().parse::<f64>().unwrap_or(0.0)"),
    hidden("j", "to_string", "a@.to_string().parse::<f64>().unwrap_or(0.0)").stmts("let a@ = Ambient;"),
    hidden("j", "to_string in a closure", "[Ambient].iter().map(|a| a.to_string().parse::<f64>().unwrap_or(0.0)).sum::<f64>()"),
    // k: globals with lower-case names and others.
    hidden("k", "fetch_add of a lower-case static", "low.fetch_add(1, Ordering::Relaxed) as f64"),
    hidden("k", "swap of a lower-case static", "low.swap(3, Ordering::Relaxed) as f64"),
    hidden("k", "load of a lower-case static", "low.load(Ordering::Relaxed) as f64"),
    hidden("k", "replace of a lower-case thread-local", "gain.replace(‹0.5›)"),
    hidden("k", "take of a lower-case thread-local", "gain.take()"),
    hidden("k", "get of a lower-case thread-local", "gain.get()"),
    hidden("k", "replace of a thread-local", "GAIN.replace(‹0.5›)"),
    hidden("k", "swap of a static", "TICKS.swap(3, Ordering::Relaxed) as f64"),
    hidden("k", "a reference to a lower-case static", "a@.swap(9, Ordering::Relaxed) as f64").stmts("let a@ = &low;"),
    hidden("k", "a static in a list", "[&low].iter().map(|a| a.swap(2, Ordering::Relaxed)).sum::<u64>() as f64"),
    hidden("k", "with of a thread-local", "gain.with(|g| g.replace(‹0.75›))"),
    // Host methods that share the name of a traced callee.
    hidden_tensor("callee-name", "a method of a static argument", "m@.step(&$h) * s@.step()").items(NET).params(&[MODEL, SCHED]),
    hidden_tensor("callee-name", "another method of a static argument", "m@.forward(&$h) * s@.forward()").items(NET).params(&[MODEL, SCHED]),
    hidden_tensor("callee-name", "a method of a local", "m@.step(&$h) * k@.step()").items(NET).params(&[MODEL]).stmts("let k@ = Knob { n: 1 };"),
    hidden_tensor("callee-name", "a method by its type", "m@.forward(&$h) * Knob::forward(&Knob { n: 1 })").items(NET).params(&[MODEL]),
    hidden_tensor("callee-name", "a function in another module", "step@(&$h) * other@::step@()").items("
    #[traced]
    pub fn step@(t: &Tensor) -> Tensor { t.sin() * ‹1.5› }
    pub mod other@ { pub fn step@() -> f64 { super::noise() } }"),
    hidden("callee-name", "a method that nothing else is", "s@.scale()").params(&[SCHED]),
    // Generic callees whose type parameters have state.
    hidden_tensor("generic", "a method of a type parameter", "scaled@(&$h, &‹1.5›)").items("
    #[traced]
    pub fn scaled@<S: Scale + Clone + 'static>(t: &Tensor, #[fixed] s: &S) -> Tensor { t * s.scale() }"),
];

/// Effects of user types that `caching-and-purity.md` of the book assumes away.
pub(crate) static GRANTED: &[Device] = &[
    granted("Deref", "*Ambient * ‹1.5›"),
    hidden_tensor("granted", "Deref of a tree", "&$h * &m@.w")
        .items(WRAP)
        .params(&[WRAP_PARAM])
        .effect(Effect::Granted),
    granted("Deref of a local", "*a@ + ‹1.5›").stmts("let a@ = Ambient;"),
    granted("Index", "a@[0] + ‹1.5›").stmts("let a@ = Ambient;"),
    granted("an operator", "a@ + ‹1.5›").stmts("let a@ = Ambient;"),
    granted("a unary operator", "-a@ + ‹1.5›").stmts("let a@ = Ambient;"),
    granted(
        "a comparison",
        "if Level(0.5) < Level(‹1.5›) { 0.5 } else { 1.5 }",
    ),
    granted("a default", "s@.0").stmts("let s@: Seeded = Default::default();"),
    granted("a drop", "s@.0").stmts("let s@ = Seeded(‹1.5›);"),
];

const fn granted(name: &'static str, value: &'static str) -> Device {
    hidden("granted", name, value).effect(Effect::Granted)
}

/// Parts that the macro rejects: it mistakes a call for a traced function, or a method of a skipped
/// field for a tensor method.
pub(crate) static REFUSED: &[Device] = &[
    hidden_tensor("granted", "a method behind a Deref", "m@.forward(&$h)")
        .items(WRAP)
        .params(&[WRAP_PARAM])
        .effect(Effect::Granted),
    known(
        "transform",
        "hvp",
        "hvp(|t: &Tensor| (t * ‹1.5›).sin().sum(..), &$h, &$h)",
    ),
    hidden("i", "get of a cell", "r@ as f64")
        .stmts("let r@: i64 = m@.c.get();")
        .items(CELLS)
        .params(&[CELLS_PARAM]),
    hidden("i", "replace of a cell", "r@ as f64")
        .stmts("let r@: i64 = m@.c.replace(4);")
        .items(CELLS)
        .params(&[CELLS_PARAM]),
    hidden("i", "a loop over cells", "t@")
        .stmts("let mut t@ = 0.0; for c in &m@.all { let r: i64 = c.replace(6); t@ += r as f64; }")
        .items(CELLS)
        .params(&[CELLS_PARAM]),
];
