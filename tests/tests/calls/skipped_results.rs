//! Results with skipped fields. A cached call clones these fields, so it is only cached if clones
//! share no state, such as an `Rc<Cell<_>>`. Otherwise each call is recorded.
#![allow(clippy::mutable_key_type)] // a map may be keyed by shared state
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::events::{self, Event};
use gradloom::prelude::*;
use gradloom_tests::noise;
use gradloom_tests::observe::{bits, finds, is_recorded};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Returns the reason why a second call is recorded, or `None` if it is not.
fn why<R>(call: impl Fn() -> R) -> Option<String> {
    call();
    let (_, events) = events::record(call);
    events.into_iter().find_map(|event| match event {
        Event::Recorded { why, .. } => Some(why.into_owned()),
        _ => None,
    })
}

#[derive(Clone, Tree)]
struct Aux {
    a: Tensor,
    #[tree(skip)]
    aux: Tensor,
}

#[traced]
fn tensor(x: &Tensor) -> Aux {
    Aux {
        a: x * 2.0,
        aux: x.exp(),
    }
}

#[derive(Clone, Tree)]
struct Log {
    y: Tensor,
    #[tree(skip)]
    log: Rc<RefCell<Vec<i64>>>,
}

#[traced]
fn log(x: &Tensor) -> Log {
    Log {
        y: x * 2.0,
        log: Default::default(),
    }
}

#[derive(Clone, Tree)]
struct Shared {
    y: Tensor,
    #[tree(skip)]
    lock: Arc<Mutex<i64>>,
}

#[traced]
fn shared(x: &Tensor) -> Vec<Shared> {
    let y = x * 2.0;
    let lock = Default::default();
    vec![Shared { y, lock }]
}

#[test]
fn each_call_returns_its_own_tensor_in_a_skipped_field() {
    let (x, z) = (noise(&[3], 1), noise(&[3], 2));
    for x in [&x, &z, &x] {
        let y = tensor(x);
        assert_eq!(bits(&y.aux), bits(&x.exp()));
        let (y, pullback) = tensor::vjp(x);
        assert_eq!(bits(&y.aux), bits(&x.exp()));
        assert_eq!(bits(&pullback(&y)), bits(&(x * 2.0 * 2.0)));
        let (y, dy) = tensor::jvp(x, &z);
        assert_eq!(bits(&y.aux), bits(&x.exp()));
        assert_eq!(bits(&dy.a), bits(&(&z * 2.0)));
    }
    assert!(tensor::RECORDED.is_some_and(|why| why.contains("`aux` of `Aux`")));
    assert!(why(|| tensor(&x)).is_some_and(|why| why.contains("Tensor")));
}

#[test]
fn results_do_not_share_skipped_fields() {
    let x = noise(&[3], 1);
    let (a, b) = (log(&x), log(&x));
    b.log.borrow_mut().push(1);
    assert!(a.log.borrow().is_empty() && log(&x).log.borrow().is_empty());
    assert!(!Rc::ptr_eq(&a.log, &b.log));
    assert!(log::RECORDED.is_some());
    let (a, b) = (shared(&x), shared(&x));
    *b[0].lock.lock().unwrap() = 1;
    assert_eq!(*a[0].lock.lock().unwrap(), 0);
    assert_eq!(Arc::strong_count(&a[0].lock), 1);
    assert!(shared::RECORDED.is_some());
    is_recorded(|| shared(&x));
    for call in [why(|| log(&x)), why(|| shared(&x).len())] {
        assert!(call.is_some());
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    Train,
    Test { rate: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale(f64, char);

#[derive(Clone, Tree)]
struct Plain<M> {
    y: Tensor,
    #[tree(skip)]
    mode: Mode,
    #[tree(skip)]
    scale: Scale,
    #[tree(skip)]
    name: String,
    #[tree(skip)]
    sizes: Vec<(usize, Option<String>)>,
    #[tree(skip)]
    marker: M,
    #[tree(skip)]
    f: fn(f64) -> f64,
    #[tree(skip)]
    count: Cell<usize>,
}

#[traced(pure)]
fn plain(x: &Tensor, n: usize) -> Plain<Option<u8>> {
    Plain {
        y: x * (n as f64),
        mode: match n {
            0 => Mode::Train,
            n => Mode::Test { rate: n as u32 },
        },
        scale: Scale(f64::NAN, 'x'),
        name: format!("plain {n}"),
        sizes: vec![(n, None), (0, Some("z".to_owned()))],
        marker: Some(n as u8),
        f: f64::sqrt,
        count: Cell::new(n),
    }
}

#[test]
fn owned_values_are_cached() {
    let x = noise(&[3], 1);
    assert_eq!(plain::RECORDED, None);
    for n in [0, 2, 0, 2] {
        let y = plain(&x, n);
        assert_eq!(y.name, format!("plain {n}"));
        assert_eq!(y.sizes[0].0, n);
        assert_eq!(y.marker, Some(n as u8));
        assert_eq!((y.f)(4.0), 2.0);
        assert_eq!(y.mode == Mode::Train, n == 0);
        assert_eq!(y.scale.1, 'x');
        // Each result has its own cell.
        assert_eq!(y.count.replace(77), n);
        finds(|| plain(&x, n));
    }
    finds(|| plain::vjp(&x, 2).0);
    finds(|| plain::jvp((&x, 2), &x));
}

#[derive(Clone, Tree)]
struct Config {
    #[tree(skip)]
    name: String,
    #[tree(skip)]
    scales: Vec<f64>,
}

#[derive(Clone, PartialEq, Eq)]
struct Opaque {
    name: String,
}

#[derive(Clone, Tree)]
struct Configured<C> {
    y: Tensor,
    config: C,
}

#[derive(Clone, Tree)]
struct WithOpaque {
    y: Tensor,
    #[tree(skip)]
    config: Opaque,
}

#[traced(pure)]
fn configured(x: &Tensor) -> Configured<Config> {
    let config = Config {
        name: "c".to_owned(),
        scales: vec![1.0],
    };
    let y = x.exp();
    Configured { y, config }
}

#[traced(pure)]
fn with_opaque(x: &Tensor) -> WithOpaque {
    let config = Opaque {
        name: "c".to_owned(),
    };
    let y = x.exp();
    WithOpaque { y, config }
}

#[test]
fn a_user_type_that_owns_memory_is_cached_if_it_is_a_tree() {
    let x = noise(&[3], 1);
    finds(|| configured(&x));
    let config = configured(&x).config;
    assert_eq!((&*config.name, &config.scales[..]), ("c", &[1.0][..]));
    is_recorded(|| with_opaque(&x));
    assert_eq!(with_opaque(&x).config.name, "c");
}

/// A recursive tree.
#[derive(Clone, Tree)]
enum Node {
    Leaf(Tensor, #[tree(skip)] usize),
    Pair(Box<Node>, Vec<Node>),
}

#[traced(pure)]
fn nodes(x: &Tensor, n: usize) -> Node {
    let mut node = Node::Leaf(x * 2.0, n);
    for i in 0..n {
        node = Node::Pair(Box::new(node), vec![Node::Leaf(x.exp(), i)]);
    }
    node
}

#[test]
fn recursive_trees_are_cached() {
    let x = noise(&[3], 1);
    for n in [2, 0, 1, 2] {
        let Node::Pair(_, parts) = nodes(&x, n + 1) else {
            panic!("expected a pair")
        };
        let Node::Leaf(_, i) = parts[0] else {
            panic!("expected a leaf")
        };
        assert_eq!(i, n);
        finds(|| nodes(&x, n));
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Id(Rc<Cell<u64>>);

#[traced(pure)]
fn by_name(x: &Tensor) -> BTreeMap<String, Tensor> {
    BTreeMap::from([("a".to_owned(), x * 2.0), ("b".to_owned(), x.exp())])
}

#[traced(pure)]
fn by_id(x: &Tensor) -> BTreeMap<Id, Tensor> {
    BTreeMap::from([(Id(Rc::default()), x * 2.0)])
}

#[test]
fn map_keys_are_cached_if_results_do_not_share_them() {
    let x = noise(&[3], 1);
    finds(|| by_name(&x));
    is_recorded(|| by_id(&x));
    let (a, b) = (by_id(&x), by_id(&x));
    a.keys().for_each(|id| id.0.set(1));
    assert!(b.keys().all(|id| id.0.get() == 0));
}

struct ByHand(Tensor, HashMap<String, Rc<Cell<u64>>>);

impl Tree for ByHand {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(&self.0);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        f(&mut self.0);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        ByHand(f(&self.0), self.1.clone())
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        out.push(prefix.to_owned());
    }
}

#[traced(pure)]
fn by_hand(x: &Tensor) -> ByHand {
    ByHand(x * 2.0, HashMap::from([("a".to_owned(), Rc::default())]))
}

#[test]
fn a_manual_tree_implementation_is_recorded() {
    let x = noise(&[3], 1);
    is_recorded(|| by_hand(&x));
    assert!(by_hand::RECORDED.is_some_and(|why| why.contains("not derived")));
    let (a, b) = (by_hand(&x), by_hand(&x));
    a.1["a"].set(1);
    assert_eq!(b.1["a"].get(), 0);
    assert!(why(|| by_hand(&x)).is_some_and(|why| why.contains("ByHand")));
}

#[derive(Clone, Tree)]
struct Counted {
    parts: Vec<Tensor>,
    #[tree(skip)]
    positive: bool,
}

#[traced(pure)]
fn by_data(x: &Tensor) -> Counted {
    let positive = x.sum(..).item::<f64>() > 0.0;
    let parts = if positive { vec![x * 2.0] } else { Vec::new() };
    Counted { parts, positive }
}

#[test]
fn each_call_returns_its_own_structure_if_that_depends_on_elements() {
    let x = noise(&[3], 1).abs() + 1.0;
    let z = -&x;
    evaluate(&(x.clone(), z.clone())).unwrap();
    for x in [&x, &z, &x, &z] {
        let y = by_data(x);
        assert_eq!(y.positive, x.sum(..).item::<f64>() > 0.0);
        assert_eq!(y.parts.len(), usize::from(y.positive));
    }
    let why = why(|| by_data(&x));
    let why = why.expect("the body reads elements of a tensor");
    assert!(why.starts_with("`.item()` at line "), "{why}");
}

#[derive(Clone, Tree)]
struct Tagged {
    w: Tensor,
    #[tree(skip)]
    tag: Rc<Cell<u64>>,
}

#[traced]
fn energy(model: &Tagged, #[nodiff] x: &Tensor) -> Tensor {
    (&model.w * x).square().sum(..)
}

/// Gradients and cotangents have the skipped fields of the argument of their own call.
#[test]
fn gradients_have_the_skipped_fields_of_their_argument() {
    let x = noise(&[3], 1);
    let model = |tag: u64| Tagged {
        w: noise(&[3], tag),
        tag: Rc::new(Cell::new(tag)),
    };
    for model in [model(1), model(2), model(1)] {
        let gradient = energy::grad(&model, &x).model;
        assert!(Rc::ptr_eq(&gradient.tag, &model.tag));
        let (value, pullback) = energy::vjp(&model, &x);
        assert!(Rc::ptr_eq(&pullback(&value).tag, &model.tag));
    }
}
