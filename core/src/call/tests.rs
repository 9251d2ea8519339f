//! Life cycle of calls, tested with hand-written sites.

use crate::cache;
use crate::call::{CallSite, begin, check_every_call};
use crate::events::{self, Event};
use crate::function::Function;
use crate::graph::call_node::SMALL;
use crate::graph::recording::is_recording;
use crate::tree::key::CallKey;
use crate::tree::key::OwnedKey;
use crate::{DType, Result, Tensor, Tree, evaluate, grad};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard};

thread_local! {
    static BODIES: Cell<usize> = const { Cell::new(0) };
}

/// Returns how many bodies have run on this thread.
fn bodies() -> usize {
    BODIES.get()
}

/// `tanh(x) y` and `x + y`.
fn both(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    match begin(&SITE, |key| [x, y].into_iter().for_each(|x| key.leaf(x))) {
        Ok(mut results) => (results.tensor(), results.tensor()),
        Err(recording) => {
            BODIES.set(BODIES.get() + 1);
            recording.end((x.tanh() * y, x + y))
        }
    }
}

/// `x / 2 + 1`, and `x` itself.
fn half(x: &Tensor) -> (Tensor, Tensor) {
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    match begin(&SITE, |key| key.leaf(x)) {
        Ok(mut results) => (results.tensor(), results.tensor()),
        Err(recording) => {
            BODIES.set(BODIES.get() + 1);
            recording.end((x * 0.5 + 1.0, x.clone()))
        }
    }
}

/// `x / 2 + mean(y)`.
fn half_and_mean(x: &Tensor, y: &Tensor) -> Tensor {
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    match begin(&SITE, |key| [x, y].into_iter().for_each(|x| key.leaf(x))) {
        Ok(mut results) => results.tensor(),
        Err(recording) => recording.end(x * 0.5 + y.mean(..)),
    }
}

/// Cross entropy, which fails for a label that is out of range.
fn loss(x: &Tensor, labels: &Tensor) -> Tensor {
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    match begin(&SITE, |key| {
        [x, labels].into_iter().for_each(|x| key.leaf(x))
    }) {
        Ok(mut results) => results.tensor(),
        Err(recording) => recording.end(x.cross_entropy(labels)),
    }
}

fn tensors() -> (Tensor, Tensor) {
    (Tensor::from([0.5f32, -1.0]), Tensor::from([2.0f32, 3.0]))
}

/// [`tensors`] repeated, so that a call on them is not small and returns promises.
fn long_tensors() -> (Tensor, Tensor) {
    let long = |x: Tensor| {
        let x = x.broadcast_to([2 * SMALL, 2]).reshape([-1]);
        evaluate(&x).unwrap();
        x
    };
    let (x, y) = tensors();
    (long(x), long(y))
}

fn log<R>(body: impl FnOnce() -> R) -> (R, Vec<String>) {
    let (result, events) = events::record(body);
    (result, events.iter().map(Event::to_string).collect())
}

/// Locks out other tests: the plan cache is shared by all threads.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn a_cache_hit_does_not_run_the_body_and_returns_promises() -> Result<()> {
    let _turn = turn();
    let (x, y) = long_tensors();
    let expected = [(x.tanh() * &y).to_vec::<f32>(), (&x + &y).to_vec::<f32>()];
    let first = both(&x, &y);
    assert_eq!(bodies(), 1);
    evaluate(&first)?;
    let (second, events) = log(|| both(&x, &y));
    assert_eq!(events, ["hit p1"]);
    assert_eq!(bodies(), 1);
    assert!(!second.0.is_realised() && !second.1.is_realised());
    let (a, events) = log(|| second.0.to_vec::<f32>());
    assert_eq!(events, ["ran p1"]);
    assert!(
        second.1.is_realised(),
        "a call computes all its results at once"
    );
    assert_eq!([a, second.1.to_vec()], expected);
    assert_eq!([first.0.to_vec::<f32>(), first.1.to_vec()], expected);
    Ok(())
}

#[test]
fn a_small_call_on_realised_arguments_runs_at_once() -> Result<()> {
    let _turn = turn();
    let (x, y) = tensors();
    let expected = (x.tanh() * &y).to_vec::<f32>();
    evaluate(&both(&x, &y))?;
    let (found, events) = log(|| both(&x, &y));
    assert_eq!(events, ["hit p1", "ran p1"]);
    assert!(found.0.is_realised() && found.1.is_realised());
    assert_eq!(found.0.to_vec::<f32>(), expected);
    Ok(())
}

#[test]
fn a_plan_for_distinct_arguments_also_runs_equal_ones_but_not_the_converse() {
    let _turn = turn();
    let (x, y) = tensors();
    let expected = |x: &Tensor, y: &Tensor| (x.tanh() * y).to_vec::<f32>();
    assert_eq!(both(&x, &x).0.to_vec::<f32>(), expected(&x, &x));
    assert_eq!(both(&x, &y).0.to_vec::<f32>(), expected(&x, &y));
    assert_eq!(bodies(), 2);
    assert_eq!(both(&y, &y).0.to_vec::<f32>(), expected(&y, &y));
    assert_eq!(both(&y, &x).0.to_vec::<f32>(), expected(&y, &x));
    assert_eq!(bodies(), 2);
    let column = Tensor::from([[1.0f32], [2.0]]);
    assert_eq!(both(&x, &column).1.shape(), [2, 2]);
    assert_eq!(bodies(), 3);
}

#[test]
fn pending_results_can_be_arguments_of_calls_and_operands_of_ops() -> Result<()> {
    let _turn = turn();
    let (x, y) = long_tensors();
    evaluate(&half(&both(&x, &y).0))?;
    let ran = bodies();
    let ((z, kept), events) = log(|| half(&both(&x, &y).0));
    assert_eq!(bodies(), ran);
    assert_eq!(events, ["hit p1", "hit p2"]);
    assert!(!kept.is_realised());
    let sum = (&z + &x).sum(..);
    let (sum, events) = log(|| sum.item::<f32>());
    let ran: Vec<&String> = events.iter().filter(|e| e.starts_with("ran")).collect();
    assert_eq!(ran[..3], ["ran p1", "ran p2", "ran p3"]);
    let expected = (&x.tanh() * &y * 0.5 + 1.0 + &x).sum(..).item::<f32>();
    assert_eq!(sum.to_bits(), expected.to_bits());
    assert!(kept.is_realised());
    Ok(())
}

#[test]
fn pending_results_of_ops_can_be_arguments_of_calls() {
    let _turn = turn();
    for (x, y) in [tensors(), long_tensors()] {
        // The first argument of the second call is an op on the result of a call on an op.
        let calls = || {
            let z = half(&(&x * 2.0)).0;
            let (a, b) = both(&(&z + 1.0), &(&y * 3.0));
            half(&(&a - &b)).0
        };
        let z = &x * 2.0 * 0.5 + 1.0;
        let (a, b) = ((&z + 1.0).tanh() * (&y * 3.0), (&z + 1.0) + &y * 3.0);
        let expected = ((&a - &b) * 0.5 + 1.0).to_vec::<f32>();
        assert_eq!(calls().to_vec::<f32>(), expected);
        let ran = bodies();
        assert_eq!(calls().to_vec::<f32>(), expected);
        assert_eq!(bodies(), ran);
    }
}

#[test]
fn a_long_chain_of_calls_and_ops_is_run_on_a_small_stack() {
    let run = || {
        let (mut x, y) = long_tensors();
        for _ in 0..2000 {
            x = half(&(&x + &y)).0;
        }
        assert!(x.to_vec::<f32>()[0].is_finite());
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_result_that_is_an_argument_is_that_value() {
    let _turn = turn();
    let (x, _) = tensors();
    for _ in 0..2 {
        assert_eq!(half(&x).1.address(), x.address());
    }
}

/// Row S1.7 of the requirements.
#[test]
fn a_call_with_traced_arguments_is_recorded_as_ops() {
    let _turn = turn();
    let (x, y) = tensors();
    drop(both(&x, &y));
    let ran = bodies();
    let gradient = grad(|x: &Tensor| both(x, &y).0.sum(..))(&x);
    assert_eq!(bodies(), ran + 1);
    let plain = grad(|x: &Tensor| (x.tanh() * &y).sum(..))(&x);
    assert_eq!(gradient.to_vec::<f32>(), plain.to_vec::<f32>());
    // A call that does not depend on the transform's argument uses its plan.
    let gradient = grad(|x: &Tensor| (both(&y, &y).0 * x).sum(..));
    let first = gradient(&x).to_vec::<f32>();
    let ran = bodies();
    assert_eq!(gradient(&x).to_vec::<f32>(), first);
    assert_eq!(bodies(), ran);
}

#[test]
fn an_error_names_the_op_and_leaves_the_results_pending() {
    let _turn = turn();
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    loss(&x, &Tensor::from([0i64, 1])).item::<f32>();
    let y = loss(&x, &Tensor::from([0i64, 2]));
    let z = half(&y).0;
    for _ in 0..2 {
        let error = evaluate(&z).unwrap_err().to_string();
        assert!(error.contains("cross_entropy"), "{error}");
        assert!(!y.is_realised() && !z.is_realised());
    }
}

/// `x / 2 + y`.
fn update(x: &Tensor, y: &Tensor) -> Tensor {
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    match begin(&SITE, |key| [x, y].into_iter().for_each(|x| key.leaf(x))) {
        Ok(mut results) => results.tensor(),
        Err(recording) => recording.end(x * 0.5 + y),
    }
}

/// Returns the address of the elements, and the elements.
fn elements(x: &Tensor) -> (usize, Vec<f32>) {
    let buffer = x.buffer().unwrap();
    (buffer.as_ptr() as usize, x.to_vec())
}

#[test]
fn an_argument_without_other_owners_donates_its_buffer_to_the_result() {
    let _turn = turn();
    let (x, y) = long_tensors();
    let expected = (&x * 0.5 + &y).to_vec::<f32>();
    drop(update(&x, &y));
    // Both arguments have other owners.
    let (at_x, xs) = elements(&x);
    let z = update(&x, &y);
    let (at_z, zs) = elements(&z);
    assert!(at_z != at_x && zs == expected && elements(&x) == (at_x, xs.clone()));
    // A clone of `x` shares its value.
    let (other, z) = (x.clone(), update(&x, &y));
    drop(x);
    assert_eq!(elements(&z).1, expected);
    assert_eq!(elements(&other), (at_x, xs));
    // A pending call shares the value, too.
    let (z, later) = (update(&other, &y), update(&other, &other));
    let doubled = (&other * 0.5 + &other).to_vec::<f32>();
    drop(other);
    assert_eq!(elements(&z).1, expected);
    assert_eq!(elements(&later).1, doubled);
    // The pending call is the only owner of `z`.
    let at_z = elements(&z).0;
    let expected = (&z * 0.5 + &y).to_vec::<f32>();
    let next = update(&z, &y);
    drop(z);
    assert_eq!(elements(&next), (at_z, expected));
}

#[test]
fn a_failed_call_restores_donated_buffers() {
    let _turn = turn();
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    let both = |x: &Tensor, labels: &Tensor| match begin(&SITE, |key| {
        key.leaf(x);
        key.leaf(labels);
    }) {
        Ok(mut results) => (results.tensor(), results.tensor()),
        Err(recording) => recording.end((x * 0.5, x.cross_entropy(labels))),
    };
    let make = || {
        let x = Tensor::from_vec(vec![1.5f32; 4 * SMALL], [4, SMALL]);
        (x, Tensor::from([0i64, 1, 2, 3]))
    };
    let (x, labels) = make();
    drop(both(&x, &labels));
    let (x, _) = make();
    let (half, loss) = both(&x, &Tensor::from([0i64, 1, 2, SMALL as i64]));
    drop(x);
    for _ in 0..2 {
        assert!(evaluate(&(half.clone(), loss.clone())).is_err());
        assert!(!half.is_realised() && !loss.is_realised());
    }
    let (x, labels) = make();
    let (half, loss) = both(&x, &labels);
    let expected = x.cross_entropy(&labels).item::<f32>();
    drop(x);
    assert_eq!(loss.item::<f32>(), expected);
    assert!(half.to_vec::<f32>().iter().all(|x| *x == 0.75));
}

#[test]
fn evicted_plans_are_made_again_and_every_call_plans_without_a_cache() {
    let _turn = turn();
    let (x, y) = tensors();
    drop(both(&x, &y));
    let ran = bodies();
    let pending = both(&x, &y);
    cache::clear();
    let (_, events) = log(|| both(&x, &y));
    assert_eq!(bodies(), ran + 1);
    assert!(events[0].starts_with("planned"), "{events:?}");
    assert_eq!(pending.1.to_vec::<f32>(), [2.5, 2.0]);
    let capacity = cache::stats().capacity;
    cache::set_capacity(0);
    let planned = (0..2).all(|_| log(|| both(&x, &y)).1[0].starts_with("planned"));
    cache::set_capacity(capacity);
    assert!(planned);
}

#[test]
fn long_chains_are_run_and_dropped_on_a_small_stack() {
    let _turn = turn();
    // The size of `ones` makes the calls too large to run at once.
    let ones = Tensor::full([SMALL + 1], 1.0f64, DType::F32);
    evaluate(&ones).unwrap();
    let chain = |n: usize| {
        let mut x = Tensor::from([4.0f32]);
        for _ in 0..n {
            x = half_and_mean(&x, &ones);
        }
        x
    };
    let body = || {
        drop(chain(100_000));
        let end = chain(10_000);
        assert!(!end.is_realised());
        assert_eq!(end.item::<f32>(), 2.0);
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10);
    std::thread::scope(|scope| {
        thread.spawn_scoped(scope, body).unwrap();
    });
}

#[test]
fn threads_that_evaluate_one_call_get_the_same_results() {
    let _turn = turn();
    let (x, y) = long_tensors();
    drop(both(&x, &y));
    for _ in 0..100 {
        let (a, b) = both(&x, &y);
        let c = half(&a).0;
        let (a, b, c) = (&a, &b, &c);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(c.to_vec::<f32>()[0] > 1.0));
            scope.spawn(|| assert_eq!(b.to_vec::<f32>()[..2], [2.5, 2.0]));
            scope.spawn(|| assert_eq!(a.to_vec::<f32>(), (x.tanh() * &y).to_vec::<f32>()));
        });
    }
}

#[test]
fn a_body_that_reads_values_or_makes_large_constants_is_recorded_each_time() {
    let _turn = turn();
    thread_local! {
        static READS: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
        static MAKES: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    let reads = |x: &Tensor| match begin(&READS, |key| key.leaf(x)) {
        Ok(mut results) => results.tensor(),
        Err(recording) => recording.end(x * x.sum(..).item::<f32>()),
    };
    let makes = |x: &Tensor, by: f32| {
        let found = begin(&MAKES, |key| {
            key.leaf(x);
            key.word(by.to_bits().into());
        });
        match found {
            Ok(mut results) => (results.tensor(), results.tensor()),
            Err(recording) => {
                BODIES.set(BODIES.get() + 1);
                let made = Tensor::from(vec![by; x.numel()]);
                recording.end((x * &made, made))
            }
        }
    };
    let (x, y) = tensors();
    assert_eq!(reads(&y).to_vec::<f32>(), [10.0, 15.0]);
    assert_eq!(reads(&x).to_vec::<f32>(), [-0.25, 0.5]);
    for _ in 0..2 {
        assert_eq!(makes(&y, 2.0).0.to_vec::<f32>(), [4.0, 6.0]);
        assert_eq!(makes(&y, 3.0).0.to_vec::<f32>(), [6.0, 9.0]);
        assert_eq!(makes(&x, 3.0).1.to_vec::<f32>(), [3.0, 3.0]);
    }
    assert_eq!(bodies(), 2);
    let (x, _) = long_tensors();
    for _ in 0..2 {
        let (y, made) = makes(&x, 2.0);
        assert_eq!(y.to_vec::<f32>(), (&x * made).to_vec::<f32>());
    }
    assert_eq!(bodies(), 4);
}

#[test]
fn a_panic_ends_a_recording() {
    let _turn = turn();
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new(module_path!(), &[])) };
    }
    let (x, y) = tensors();
    let fails = || match begin(&SITE, |key| key.leaf(&x)) {
        Ok(mut results) => results.tensor(),
        Err(recording) => recording.end(x.matmul(Tensor::from([1.0f32; 3]))),
    };
    for _ in 0..2 {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
    }
    drop(both(&x, &y));
    assert_eq!(log(|| both(&x, &y)).1, ["hit p1", "ran p1"]);
}

#[test]
fn a_key_holds_the_tree_structure_and_the_bits_of_static_values() {
    use crate::tree::key::{ByClone as _, BySize as _, ByWords as _, Static, UnknownStatic as _};
    #[derive(Clone, PartialEq, Eq)]
    enum Side {
        Left,
        Right,
    }
    struct Opaque {
        _byte: u8,
    }
    struct Nothing;
    let x = &Tensor::from([1.0f32]);
    let same = |a: &dyn Fn(&mut CallKey<'static>), b: &dyn Fn(&mut CallKey<'static>)| {
        let (mut first, mut second) = (CallKey::new(), CallKey::new());
        a(&mut first);
        let owned = first.own();
        b(&mut second);
        owned.fits(&second)
    };
    fn float(x: f32) -> impl Fn(&mut CallKey<'static>) {
        move |key| (&&&&Static(&x)).add_to_key(key)
    }
    assert!(same(&float(f32::NAN), &float(f32::NAN)));
    assert!(!same(&float(0.0), &float(-0.0)));
    fn tree<T: Tree>(tree: &T) -> impl Fn(&mut CallKey<'static>) {
        |key| {
            let mut inner = CallKey::new();
            tree.__key(&mut inner);
            inner.leaves.iter().for_each(|x| key.leaf_of(x));
            inner.words.iter().for_each(|w| key.word(*w));
        }
    }
    let nested = vec![vec![x.clone()], vec![]];
    assert!(same(&tree(&nested), &tree(&nested.clone())));
    assert!(!same(&tree(&nested), &tree(&vec![vec![], vec![x.clone()]])));
    assert!(!same(
        &tree(&(Some(x.clone()), None::<Tensor>)),
        &tree(&(None::<Tensor>, Some(x.clone())))
    ));
    static SIDES: [Side; 2] = [Side::Left, Side::Right];
    let side = |i: usize| move |key: &mut CallKey<'static>| (&&&Static(&SIDES[i])).add_to_key(key);
    assert!(same(&side(1), &side(1)) && !same(&side(0), &side(1)));
    let mut key = CallKey::new();
    (&&Static(&Nothing)).add_to_key(&mut key);
    assert!(key.obstacle().is_none());
    (&&Static(&Opaque { _byte: 1 })).add_to_key(&mut key);
    assert!(key.obstacle().is_some());
    let mut key = CallKey::new();
    let shown: &dyn std::fmt::Debug = &1;
    (&Static(shown)).add_to_key(&mut key);
    assert!(key.obstacle().is_some());
}

#[test]
fn a_key_distinguishes_instances_of_a_generic_function() {
    fn instance<T, const N: usize>() {}
    fn of<F>(f: F) -> OwnedKey {
        let mut key = CallKey::new();
        key.instance(&f);
        key.own()
    }
    let fits = |known: &OwnedKey, f: &dyn Fn(&mut CallKey<'static>)| {
        let mut key = CallKey::new();
        f(&mut key);
        known.fits(&key)
    };
    let known = of(instance::<&str, 2>);
    // Lifetimes are ignored: a borrowed type matches its `'static` version.
    fn borrowed<'a>(_: &'a str, known: &OwnedKey) -> bool {
        let mut key = CallKey::new();
        key.instance(&instance::<&'a str, 2>);
        known.fits(&key)
    }
    assert!(borrowed(&String::from("x"), &known));
    assert!(!fits(&known, &|key| key.instance(&instance::<&str, 3>)));
    assert!(!fits(&known, &|key| key.instance(&instance::<&[u8], 2>)));
    assert!(!fits(&known, &|_| ()));
}

#[test]
fn a_check_reports_a_body_that_was_wrongly_judged_pure() {
    thread_local! {
        static SITE: CallSite = const { CallSite::new(Function::new("judged", &[])) };
    }
    let _turn = turn();
    let (x, _) = tensors();
    let call = || match begin(&SITE, |key| key.leaf(&x)) {
        Ok(mut results) => results.tensor(),
        Err(recording) => {
            BODIES.set(BODIES.get() + 1);
            recording.end(&x * bodies() as f64)
        }
    };
    call();
    call();
    let said = catch_unwind(AssertUnwindSafe(|| check_every_call(call)));
    let said = said.expect_err("the body records another constant in each run");
    let said = said.downcast::<String>().expect("a panic with a message");
    let start = "a call of `judged` recorded other ops than its cached plan has: a constant was f32[] 1 and is f32[] 2";
    assert!(said.starts_with(start), "{said}");
    assert!(said.ends_with("please report this bug"), "{said}");
    assert!(!is_recording());
}
