//! Attempts to hide state from the purity analysis. Side effects of a body happen at each call, as
//! without the attribute.
#![allow(clippy::manual_is_multiple_of)] // bodies are written as by users
#![allow(deprecated)] // some functions here are recorded on purpose

use gradloom::prelude::*;
use std::cell::Cell;
use std::fmt;
use std::iter;
use std::ops::{Add, Deref, Index, Mul, Neg};
use std::rc::Rc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static COUNT: Cell<f64> = const { Cell::new(0.0) };
    #[allow(non_upper_case_globals)]
    static gain: Cell<f64> = const { Cell::new(1.0) };
}

#[allow(non_upper_case_globals)]
static low: AtomicU64 = AtomicU64::new(0);

/// Returns the number of calls so far.
fn count() -> f64 {
    COUNT.set(COUNT.get() + 1.0);
    COUNT.get()
}

fn noise(by: f64) -> f64 {
    by * count()
}

fn roll() -> f64 {
    count()
}

#[allow(non_snake_case)]
fn Noise() -> f64 {
    count()
}

const POINTER: fn(f64) -> f64 = noise;
const POINTERS: [fn(f64) -> f64; 2] = [noise, noise];

struct Consts;

impl Consts {
    const POINTER: fn(f64) -> f64 = noise;
    #[allow(non_snake_case)]
    fn Read() -> f64 {
        count()
    }
}

/// A value for which every operation counts, and which equals its clones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Odd {
    n: i64,
}

impl Odd {
    const SELF: Odd = Odd { n: 3 };
    fn clamp(self, _: f64, _: f64) -> f64 {
        count()
    }
    fn len(&self) -> usize {
        count() as usize
    }
    fn iter(&self) -> iter::Once<f64> {
        iter::once(count())
    }
    fn map(self, f: impl Fn(f64) -> f64) -> f64 {
        f(count())
    }
    fn unwrap(self) -> f64 {
        count()
    }
    fn grad(_: f64) -> f64 {
        count()
    }
    fn step(self) -> f64 {
        count()
    }
    fn min(self, _: f64) -> f64 {
        count()
    }
    fn signum(&self) -> f64 {
        count()
    }
    fn start(&self, _: usize) -> f64 {
        count()
    }
    fn with(&self, _: &Tensor) -> Odd {
        Odd { n: self.n }
    }
    fn init(&self, _: &Tensor) -> f64 {
        count()
    }
}

impl Iterator for Odd {
    type Item = f64;
    fn next(&mut self) -> Option<f64> {
        self.n += 1;
        (self.n % 3 != 0).then(count)
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", "x".repeat(count() as usize))
    }
}

impl Add<f64> for Odd {
    type Output = f64;
    fn add(self, by: f64) -> f64 {
        by + count()
    }
}

impl Mul<Odd> for f64 {
    type Output = f64;
    fn mul(self, _: Odd) -> f64 {
        self * count()
    }
}

impl Neg for Odd {
    type Output = f64;
    fn neg(self) -> f64 {
        -count()
    }
}

impl Index<usize> for Odd {
    type Output = f64;
    fn index(&self, _: usize) -> &f64 {
        if count() as usize % 2 == 0 {
            &2.0
        } else {
            &3.0
        }
    }
}

impl Deref for Odd {
    type Target = Behind;
    fn deref(&self) -> &Behind {
        if count() as usize % 2 == 0 {
            &Behind { by: 2.0 }
        } else {
            &Behind { by: 3.0 }
        }
    }
}

struct Behind {
    by: f64,
}

impl From<Odd> for f64 {
    fn from(_: Odd) -> f64 {
        count()
    }
}

impl From<&Odd> for Tensor {
    fn from(_: &Odd) -> Tensor {
        Tensor::scalar(count())
    }
}

impl From<f64> for Odd {
    fn from(_: f64) -> Odd {
        Odd { n: count() as i64 }
    }
}

impl FromIterator<f64> for Odd {
    fn from_iter<I: IntoIterator<Item = f64>>(_: I) -> Odd {
        Odd { n: count() as i64 }
    }
}

impl iter::Sum<f64> for Odd {
    fn sum<I: Iterator<Item = f64>>(_: I) -> Odd {
        Odd { n: count() as i64 }
    }
}

impl std::str::FromStr for Odd {
    type Err = ();
    fn from_str(_: &str) -> Result<Odd, ()> {
        Ok(Odd { n: count() as i64 })
    }
}

impl Default for Odd {
    fn default() -> Odd {
        Odd { n: count() as i64 }
    }
}

/// A unit struct whose methods count.
struct Ambient;

impl Ambient {
    fn next(&mut self) -> Option<f64> {
        Some(count())
    }
    fn abs(&self) -> f64 {
        count()
    }
}

impl fmt::Display for Ambient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", "x".repeat(count() as usize))
    }
}

impl IntoIterator for Ambient {
    type Item = f64;
    type IntoIter = std::vec::IntoIter<f64>;
    fn into_iter(self) -> Self::IntoIter {
        vec![count()].into_iter()
    }
}

/// Methods that neither tensors nor numbers have.
trait Extended: Sized {
    fn mul_add(&self, _: f64, _: f64) -> Self;
    fn normal(&self) -> Self;
    fn inspect(&self, _: &str) -> Self;
    fn first(&self) -> Self;
    fn scan(&self) -> Self;
    fn skip(&self) -> Self;
    fn is_empty(&self) -> bool;
}

impl Extended for Tensor {
    fn mul_add(&self, _: f64, _: f64) -> Tensor {
        self * count()
    }
    fn normal(&self) -> Tensor {
        self * count()
    }
    fn inspect(&self, _: &str) -> Tensor {
        self * count()
    }
    fn first(&self) -> Tensor {
        self * count()
    }
    fn scan(&self) -> Tensor {
        self * count()
    }
    fn skip(&self) -> Tensor {
        self * count()
    }
    fn is_empty(&self) -> bool {
        count() as usize % 2 == 0
    }
}

trait OfNumbers {
    fn noisy(self) -> f64;
    fn len(&self) -> usize;
    fn first(&self) -> f64;
}

impl OfNumbers for f64 {
    fn noisy(self) -> f64 {
        self * count()
    }
    fn len(&self) -> usize {
        count() as usize
    }
    fn first(&self) -> f64 {
        self * count()
    }
}

/// Methods that the standard library has for other types of the same kind.
trait OfOthers {
    fn borrow_mut(&self) -> f64 {
        count()
    }
    fn sin(self) -> f64;
}

impl OfOthers for i64 {
    fn sin(self) -> f64 {
        count()
    }
}

impl OfOthers for usize {
    fn sin(self) -> f64 {
        count()
    }
}

trait Unsigned {
    fn abs(self) -> f64;
}

impl Unsigned for usize {
    fn abs(self) -> f64 {
        count()
    }
}

trait OfTruth {
    fn sqrt(self) -> f64;
}

impl OfTruth for bool {
    fn sqrt(self) -> f64 {
        count()
    }
}

trait OfLists {
    fn map(self, f: fn(f64) -> f64) -> f64;
    fn front(&self) -> Option<&f64>;
    fn push_front(&mut self, v: f64);
}

impl OfLists for Vec<f64> {
    fn map(self, f: fn(f64) -> f64) -> f64 {
        f(count())
    }
    fn front(&self) -> Option<&f64> {
        match count() as usize % 2 {
            0 => Some(&2.0),
            _ => Some(&3.0),
        }
    }
    fn push_front(&mut self, _: f64) {
        self.push(count());
    }
}

trait OfArrays {
    fn truncate(&mut self, n: usize);
}

impl OfArrays for [f64; 2] {
    fn truncate(&mut self, _: usize) {
        self[0] = count();
    }
}

trait OfOptions {
    fn is_ok(&self) -> bool;
    fn ok(self) -> Option<f64>;
}

impl OfOptions for Option<f64> {
    fn is_ok(&self) -> bool {
        count() as usize % 2 == 0
    }
    fn ok(self) -> Option<f64> {
        Some(count())
    }
}

trait OfResults {
    fn is_none(&self) -> bool;
    fn take(&mut self) -> Option<f64>;
}

impl OfResults for Result<f64, ()> {
    fn is_none(&self) -> bool {
        count() as usize % 2 == 0
    }
    fn take(&mut self) -> Option<f64> {
        Some(count())
    }
}

trait OfTexts {
    fn push(&self, c: char) -> usize;
}

impl OfTexts for str {
    fn push(&self, _: char) -> usize {
        count() as usize
    }
}

trait OfRanges {
    fn start(&self) -> usize;
    fn iter(&self) -> iter::Once<f64>;
}

impl OfRanges for std::ops::Range<usize> {
    fn start(&self) -> usize {
        count() as usize
    }
    fn iter(&self) -> iter::Once<f64> {
        iter::once(count())
    }
}

trait OfIterators {
    fn iter(&self) -> iter::Once<f64>;
    fn peek(&self) -> Option<f64>;
}

impl OfIterators for std::vec::IntoIter<f64> {
    fn iter(&self) -> iter::Once<f64> {
        iter::once(count())
    }
    fn peek(&self) -> Option<f64> {
        Some(count())
    }
}

trait OfMaps {
    fn keys(&self) -> iter::Once<f64>;
}

impl OfMaps for std::collections::BTreeSet<i64> {
    fn keys(&self) -> iter::Once<f64> {
        iter::once(count())
    }
}

/// A value whose comparison counts.
struct Ranked;

impl PartialEq for Ranked {
    fn eq(&self, _: &Ranked) -> bool {
        true
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, _: &Ranked) -> std::cmp::Ordering {
        match count() as usize % 2 {
            0 => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        }
    }
}

/// A tensor behind a reference that counts.
#[derive(Clone, Tree)]
struct Wrapped {
    even: Tensor,
    odd: Tensor,
}

impl Deref for Wrapped {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        match count() as usize % 2 {
            0 => &self.even,
            _ => &self.odd,
        }
    }
}

#[traced]
fn twice(x: &Tensor) -> Tensor {
    x * 2.0
}

mod grad_like {
    pub(super) fn grad(by: f64) -> f64 {
        by * super::count()
    }
    pub(super) fn sin(by: f64) -> f64 {
        by * super::count()
    }
}

macro_rules! counted {
    () => {
        count()
    };
}

#[derive(Clone, Tree)]
struct Model {
    w: Tensor,
    #[tree(skip)]
    odd: Odd,
    #[tree(skip)]
    odds: Vec<Odd>,
}

#[traced]
impl Model {
    fn step(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

#[derive(Clone, Tree)]
struct Shared {
    w: Tensor,
    #[tree(skip)]
    cell: Rc<Cell<i64>>,
}

#[derive(Clone, Tree)]
struct Pointed {
    w: Tensor,
    #[tree(skip)]
    act: fn(f64) -> f64,
}

/// A type with a method like that of trees.
struct Mapped(Tensor);

impl Mapped {
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        f(&self.0) * count()
    }
}

/// A tree whose `map` has an effect.
#[derive(Clone)]
struct Handmade(Tensor);

impl Tree for Handmade {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(&self.0);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        f(&mut self.0);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Handmade(f(&self.0) * count())
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        out.push(prefix.to_owned());
    }
}

/// Has the name of an optimiser of this library.
#[derive(Clone, Copy)]
struct Adam {
    lr: f64,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam { lr: count() }
    }
}

impl Adam {
    fn step(&self, x: &Tensor) -> Tensor {
        x * self.lr * count()
    }
}

mod optim {
    use gradloom::Tensor;

    pub(super) fn clip_by_norm(x: &Tensor, by: f64) -> Tensor {
        x * (by * super::count())
    }
}

#[traced(allow(recorded_call))]
impl Model {
    /// Has the name of a method of ranges.
    fn end(&self, by: usize) -> Tensor {
        &self.w * (by as f64 * count())
    }
}

/// Types with the names of the standard library's, whose functions and traits count.
mod look_alikes {
    use super::count;
    use std::ops::{Deref, Index, Mul};

    pub(super) struct Vec(std::vec::Vec<f64>);

    impl Vec {
        pub(super) fn new() -> Vec {
            Vec(vec![2.0])
        }
        pub(super) fn push(&mut self, v: f64) {
            self.0.push(v * count());
        }
        pub(super) fn len(&self) -> usize {
            count() as usize
        }
    }

    impl Index<usize> for Vec {
        type Output = f64;
        fn index(&self, i: usize) -> &f64 {
            &self.0[i]
        }
    }

    /// Has generic arguments, which its functions do not determine.
    pub(super) struct HashMap<K, V>(std::vec::Vec<(K, V)>);

    impl<K: PartialEq, V: Clone> HashMap<K, V> {
        pub(super) fn new() -> HashMap<K, V> {
            HashMap(vec![])
        }
        pub(super) fn insert(&mut self, k: K, v: V) {
            self.0.push((k, v));
        }
        pub(super) fn len(&self) -> usize {
            count() as usize
        }
    }

    pub(super) struct BTreeMap;

    impl BTreeMap {
        /// Returns the map of the standard library.
        #[allow(clippy::new_ret_no_self)]
        pub(super) fn new() -> std::collections::BTreeMap<usize, f64> {
            [(0, count())].into_iter().collect()
        }
    }

    pub(super) struct Rc(f64);

    impl Rc {
        pub(super) fn new(v: f64) -> Rc {
            Rc(v)
        }
    }

    impl Deref for Rc {
        type Target = f64;
        fn deref(&self) -> &f64 {
            match count() as usize % 2 {
                0 => &2.0,
                _ => &self.0,
            }
        }
    }

    pub(super) struct Factor;

    impl Mul<Factor> for f64 {
        type Output = f64;
        fn mul(self, _: Factor) -> f64 {
            self * count()
        }
    }

    impl Mul<&Factor> for f64 {
        type Output = f64;
        fn mul(self, _: &Factor) -> f64 {
            self * count()
        }
    }

    impl Default for Vec {
        fn default() -> Vec {
            Vec(vec![count()])
        }
    }

    impl Vec {
        pub(super) fn first(&self) -> f64 {
            self.0[0]
        }
    }
}

/// Defines each body as a traced function and as a plain one.
macro_rules! attempts {
    ($($name:ident($x:ident, $m:ident) { $($body:tt)* })*) => {
        #[allow(unused, clippy::all)]
        mod traced_ones {
            use super::*;
            $(
                #[traced(allow(unused_parameter))]
                pub(super) fn $name($x: &Tensor, #[nodiff] $m: &Model) -> Tensor { $($body)* }
            )*
        }
        #[allow(unused, clippy::all)]
        mod plain_ones {
            use super::*;
            $(pub(super) fn $name($x: &Tensor, $m: &Model) -> Tensor { $($body)* })*
        }
        type Plain = fn(&Tensor, &Model) -> Tensor;
        /// Name of a body, its traced and its plain version, and the reason why it is recorded.
        const ATTEMPTS: &[(&str, Plain, Plain, Option<&str>)] =
            &[$((stringify!($name), traced_ones::$name, plain_ones::$name, traced_ones::$name::RECORDED)),*];
    };
}

attempts! {
    // Functions used as values.
    bound(x, m) { let f = noise; let by: f64 = Some(2.0).map(f).unwrap(); x * by }
    bound_and_called(x, m) { let f = noise; let by: f64 = f(2.0); x * by }
    by_reference(x, m) { let by: f64 = Some(2.0).map(&noise).unwrap(); x * by }
    in_parentheses(x, m) { let by: f64 = Some(2.0).map((noise)).unwrap(); x * by }
    chosen(x, m) { let c = x.rank() > 4; let by: f64 = Some(2.0).map(if c { f64::sqrt } else { noise }).unwrap(); x * by }
    in_an_array(x, m) { let by: f64 = Some(2.0).map([noise][0]).unwrap(); x * by }
    in_a_tuple(x, m) { let by: f64 = Some(2.0).map((noise, 1).0).unwrap(); x * by }
    matched(x, m) { let by: f64 = Some(2.0).map(match x.rank() { 0 => f64::sin as fn(f64) -> f64, _ => noise }).unwrap(); x * by }
    repeated(x, m) { let f = roll; let by: f64 = iter::repeat_with(f).take(1).next().unwrap(); x * by }
    // Names that are locals elsewhere in the body.
    shadowed_later(x, m) { let noise = Some(2.0).map(noise).unwrap(); let by: f64 = noise; x * by }
    shadowed_by_result(x, m) { let roll: f64 = iter::repeat_with(roll).take(1).sum(); x * roll }
    shadowed_inside(x, m) { { let noise = 1.0; let _ = noise; } let by: f64 = Some(2.0).map(noise).unwrap(); x * by }
    closure_once(x, m) { let f = |v: f64| v; let _ = f(1.0); let f = noise; let by: f64 = f(2.0); x * by }
    closure_elsewhere(x, m) { let a = { let noise = |v: f64| v; noise(1.0) }; let by: f64 = noise(2.0); x * by * a }
    // Function pointers.
    constant_pointer(x, m) { let by: f64 = Some(2.0).map(POINTER).unwrap(); x * by }
    constant_pointers(x, m) { let by: f64 = Some(2.0).map(POINTERS[1]).unwrap(); x * by }
    associated_pointer(x, m) { let by: f64 = Some(2.0).map(Consts::POINTER).unwrap(); x * by }
    pointer_called(x, m) { let by: f64 = POINTER(2.0); x * by }
    cast_to_a_pointer(x, m) { let f = noise as fn(f64) -> f64; let by: f64 = f(2.0); x * by }
    annotated_pointer(x, m) { let f: fn(f64) -> f64 = noise; let by: f64 = f(2.0); x * by }
    const_inside(x, m) { const F: fn(f64) -> f64 = noise; let by: f64 = Some(2.0).map(F).unwrap(); x * by }
    boxed(x, m) { let f: Box<dyn Fn(f64) -> f64> = Box::new(noise); let by: f64 = f(2.0); x * by }
    // Functions with upper-case names.
    capital(x, m) { let by: f64 = Noise(); x * by }
    capital_of_a_type(x, m) { let by: f64 = Consts::Read(); x * by }
    capital_passed(x, m) { let by: f64 = iter::repeat_with(Noise).take(1).next().unwrap(); x * by }
    capital_bound(x, m) { let f = Noise; let by: f64 = f(); x * by }
    // User types created in the body.
    clamped(x, m) { let odd = Odd { n: 9 }; let by: f64 = odd.clamp(0.0, 1.0); x * by }
    length(x, m) { let n = Odd { n: 1 }.len() as f64; x * n }
    next_of_a_unit(x, m) { let mut it = Ambient; let by: f64 = it.next().unwrap(); x * by }
    for_a_unit(x, m) { let mut y = x.clone(); for v in Ambient { y = y * v; } y }
    for_a_struct(x, m) { let mut y = x.clone(); for v in (Odd { n: 0 }) { y = y * v; } y }
    method_of_a_unit(x, m) { let by: f64 = Ambient.abs(); x * by }
    method_of_a_constant(x, m) { let by: f64 = Odd::SELF.clamp(0.0, 1.0); x * by }
    // Extension traits.
    extended_mul_add(x, m) { let y = x * 2.0; y.mul_add(0.0, 1.0) }
    extended_normal(x, m) { x.normal() + 1.0 }
    extended_inspect(x, m) { let y = x.tanh(); y.inspect("y") }
    extended_first(x, m) { x.first() }
    extended_scan(x, m) { x.scan() }
    extended_skip(x, m) { x.skip() }
    extended_is_empty(x, m) { if x.is_empty() { x * 2.0 } else { x * 3.0 } }
    number_borrowed(x, m) { let by: f64 = [1i64].iter().map(|v| v.borrow_mut()).sum(); x * by }
    extended_part(x, m) { m.w.mul_add(0.0, 1.0) * x }
    number_extended(x, m) { let by: f64 = 2.0f64.noisy(); x * by }
    number_with_a_length(x, m) { let n = 2.0f64.len() as f64; x * n }
    number_with_a_first(x, m) { let by = 2.0f64; let by: f64 = by.first(); x * by }
    passed_extension(x, m) { let by: f64 = Some(2.0).map(f64::noisy).unwrap(); x * by }
    extension_of_an_element(x, m) { let by: f64 = [2.0f64].iter().map(|v| v.noisy()).sum(); x * by }
    // Conversions.
    number_from(x, m) { let by = f64::from(m.odd); x * by }
    tensor_from(x, m) { let by = Tensor::from(&m.odd); x * by }
    into_a_number(x, m) { let by = Into::<f64>::into(m.odd); x * by }
    into_a_struct(x, m) { let odd: Odd = 2.0.into(); let by = odd.n as f64; x * by }
    from_passed(x, m) { let by: f64 = Some(m.odd).map(f64::from).unwrap(); x * by }
    collected(x, m) { let odd: Odd = [1.0, 2.0].into_iter().collect(); let n = odd.n as f64; x * n }
    collected_by_turbofish(x, m) { let n = [1.0, 2.0].into_iter().collect::<Odd>().n as f64; x * n }
    summed(x, m) { let odd = [1.0, 2.0].into_iter().sum::<Odd>(); let n = odd.n as f64; x * n }
    parsed(x, m) { let odd = "a".parse::<Odd>().unwrap(); let n = odd.n as f64; x * n }
    default(x, m) { let odd = Odd::default(); let n = odd.n as f64; x * n }
    default_of_a_trait(x, m) { let odd: Odd = Default::default(); let n = odd.n as f64; x * n }
    default_of_an_option(x, m) { let none: Option<Odd> = None; let odd = none.unwrap_or_default(); let n = odd.n as f64; x * n }
    // Formatting.
    shown_unit(x, m) { let n = format!("{}", Ambient).len() as f64; x * n }
    shown_part(x, m) { let n = format!("{}", m.odd).len() as f64; x * n }
    shown_local(x, m) { let odd = m.odd; let n = format!("{odd}").len() as f64; x * n }
    shown_width(x, m) { let odd = m.odd; let n = format!("{:>1$}", odd, 1).len() as f64; x * n }
    to_text(x, m) { let n = m.odd.to_string().len() as f64; x * n }
    // User-defined operators, indices and references.
    added(x, m) { let by: f64 = m.odd + 1.0; x * by }
    multiplied(x, m) { let by: f64 = 2.0 * m.odd; x * by }
    negated(x, m) { let by: f64 = -m.odd; x * by }
    indexed(x, m) { let by: f64 = m.odd[0]; x * by }
    dereferenced(x, m) { let by: f64 = m.odd.by; x * by }
    dereferenced_explicitly(x, m) { let by: f64 = (*m.odd).by; x * by }
    element_added(x, m) { let by: f64 = m.odds[0] + 1.0; x * by }
    element_of_a_loop(x, m) { let mut y = x.clone(); for odd in &m.odds { let by: f64 = *odd + 1.0; y = y * by; } y }
    element_of_an_iterator(x, m) { let by: f64 = m.odds.iter().map(|odd| odd.signum()).sum(); x * by }
    element_method(x, m) { let by: f64 = m.odds.first().unwrap().signum(); x * by }
    element_folded(x, m) { let by: f64 = m.odds.iter().fold(1.0, |a, odd| a * *odd); x * by }
    element_destructured(x, m) { let [odd] = [m.odd]; let by: f64 = odd.min(1.0); x * by }
    element_of_an_option(x, m) { let some = Some(m.odd); let by: f64 = match some { Some(odd) => odd.min(1.0), None => 1.0 }; x * by }
    // User methods with names of the standard library.
    part_length(x, m) { let n = m.odd.len() as f64; x * n }
    part_iterated(x, m) { let by: f64 = m.odd.iter().sum(); x * by }
    part_mapped(x, m) { let by: f64 = m.odd.map(|v| v); x * by }
    part_unwrapped(x, m) { let by: f64 = m.odd.unwrap(); x * by }
    part_in_a_loop(x, m) { let mut y = x.clone(); for v in m.odd { y = y * v; } y }
    // Functions that share the name of something traced.
    companion_of_a_module(x, m) { let by: f64 = grad_like::grad(2.0); x * by }
    companion_of_a_type(x, m) { let by: f64 = Odd::grad(2.0); x * by }
    function_of_a_module(x, m) { let by: f64 = Some(2.0).map(grad_like::sin).unwrap(); x * by }
    // Globals with lower-case names.
    thread_local_replaced(x, m) { let by = gain.replace(gain.get() + 1.0); x * by }
    atomic_swapped(x, m) { let n = low.fetch_add(1, Ordering::Relaxed) as f64; x * n }
    // Functions, closures and macros.
    inner_function(x, m) { fn inner(v: f64) -> f64 { v * count() } let by: f64 = inner(2.0); x * by }
    inner_function_passed(x, m) { fn inner(v: f64) -> f64 { v * count() } let by: f64 = Some(2.0).map(inner).unwrap(); x * by }
    closure(x, m) { let f = |v: f64| v * count(); let by: f64 = f(2.0); x * by }
    closure_in_a_tuple(x, m) { let fs = (|v: f64| v, |v: f64| v * count()); let by: f64 = (fs.1)(2.0); x * by }
    closures_in_a_list(x, m) { let fs: [Box<dyn Fn(f64) -> f64>; 2] = [Box::new(|v| v), Box::new(|v| v * count())]; let by: f64 = fs[1](2.0); x * by }
    closure_of_a_closure(x, m) { let f = || || count(); let by: f64 = f()(); x * by }
    macro_of_the_users(x, m) { let by: f64 = counted!(); x * by }
    let_else(x, m) { let Some(by) = Some(2.0).map(noise) else { return x.clone() }; let by: f64 = by; x * by }
    in_a_condition(x, m) { if count() > 1.5 { x * 2.0 } else { x * 3.0 } }
    in_a_guard(x, m) { match x.rank() { 1 if count() > 1.5 => x * 2.0, _ => x * 3.0 } }
    in_a_range(x, m) { let mut y = x.clone(); for _ in 0..(count() as usize) { y = y * 2.0; } y }
    in_an_index(x, m) { let by: f64 = [1.0, 2.0, 3.0, 4.0, 5.0][count() as usize % 5]; x * by }
    in_a_struct(x, m) { let odd = Odd { n: count() as i64 }; let n = odd.n as f64; x * n }
    in_a_loop_condition(x, m) { let mut y = x.clone(); let mut n = 0.0; while n < count() - 1.0 && n < 2.0 { n += 1.0; y = y * 2.0; } y }
    time(x, m) { let n = std::time::Instant::now().elapsed().as_secs() as f64 * 0.0 + count(); x * n }
    inferred_in_a_transform(x, m) { let (y, _) = jvp(|x: &Tensor| x * count(), x, x); y }
    converted_at_the_end(x, m) { fn made(k: f64) -> Odd { k.into() } let odd: Odd = made(2.0); let n = odd.n as f64; x * n }
    collected_in_a_block(x, m) { let odd: Odd = { [1.0, 2.0].iter().copied().collect() }; let n = odd.n as f64; x * n }
    converted_in_a_closure(x, m) { let odd: Odd = None.unwrap_or_else(|| 2.0f64.into()); let n = odd.n as f64; x * n }
    flattened(x, m) { let n = [Ambient].into_iter().flatten().sum::<f64>(); x * n }
    // Methods of traits, with the name of a method of another type of the standard library.
    sine_of_an_integer(x, m) { let by: f64 = 3i64.sin(); x * by }
    sine_of_a_length(x, m) { let by: f64 = x.rank().sin(); x * by }
    sine_of_an_element(x, m) { let by: f64 = [1i64, 2].iter().map(|v| v.sin()).sum(); x * by }
    sine_of_a_folded_number(x, m) { let n = [1i64, 2].iter().fold(0, |a, b| a + b); let by: f64 = n.sin(); x * by }
    sine_in_a_macro(x, m) { let n = 2i64; let n = format!("{}", "x".repeat(n.sin() as usize)).len() as f64; x * n }
    sine_in_an_inner_function(x, m) { fn inner(n: i64) -> f64 { n.sin() } let by: f64 = inner(2); x * by }
    sine_by_path(x, m) { let by: f64 = i64::sin(2); x * by }
    sine_passed(x, m) { let by: f64 = Some(2i64).map(i64::sin).unwrap(); x * by }
    absolute_length(x, m) { let by: f64 = x.dim(0).abs(); x * by }
    root_of_a_truth(x, m) { let by: f64 = (x.rank() > 0).sqrt(); x * by }
    root_of_a_comparison(x, m) { let by: f64 = 2.0f64.is_nan().sqrt(); x * by }
    mapped_vector(x, m) { let by: f64 = vec![1.0, 2.0].map(|v| v); x * by }
    mapped_collection(x, m) { let v: Vec<f64> = [1.0].iter().copied().collect(); let by: f64 = v.map(|v| v); x * by }
    front_of_a_vector(x, m) { let by: f64 = *vec![1.0, 2.0].front().unwrap(); x * by }
    pushed_in_front(x, m) { let mut v = vec![1.0]; v.push_front(2.0); let by: f64 = v[1]; x * by }
    front_by_path(x, m) { let v = vec![1.0]; let by: f64 = *Vec::front(&v).unwrap(); x * by }
    truncated_array(x, m) { let mut v = [1.0, 2.0]; v.truncate(1); let by: f64 = v[0]; x * by }
    success_of_an_option(x, m) { if Some(2.0f64).is_ok() { x * 2.0 } else { x * 3.0 } }
    option_of_an_option(x, m) { let by: f64 = Some(2.0f64).ok().unwrap(); x * by }
    absence_of_a_result(x, m) { let r: Result<f64, ()> = Ok(2.0); if r.is_none() { x * 2.0 } else { x * 3.0 } }
    result_taken(x, m) { let mut r: Result<f64, ()> = Ok(2.0); let by: f64 = r.take().unwrap(); x * by }
    pushed_to_a_literal(x, m) { let n = "a".push('b') as f64; x * n }
    start_of_a_half_open_range(x, m) { let n = (1..3usize).start() as f64; x * n }
    iterated_range(x, m) { let by: f64 = (1..3usize).iter().sum(); x * by }
    iterated_iterator(x, m) { let by: f64 = vec![1.0, 2.0].into_iter().iter().sum(); x * by }
    peeked_iterator(x, m) { let by: f64 = vec![1.0, 2.0].into_iter().peek().unwrap(); x * by }
    keys_of_a_set(x, m) { let s: std::collections::BTreeSet<i64> = [1, 2].into_iter().collect(); let by: f64 = s.keys().sum(); x * by }
    // Impls of the user's that functions of the standard library call.
    smallest_by_a_key(x, m) { let by = *[2.0, 3.0].iter().min_by_key(|_| Ranked).unwrap(); x * by }
    sorted_by_a_key(x, m) { let mut v = [2.0, 3.0]; v.sort_by_key(|_| Ranked); let by: f64 = v[0]; x * by }
    sorted_by_a_cached_key(x, m) { let mut v = [2.0, 3.0]; v.sort_by_cached_key(|_| Ranked); let by: f64 = v[0]; x * by }
    larger_of_two(x, m) { let r = std::cmp::max(Ranked, Ranked); let _ = r; x * count() }
    // References of the user's that are followed at an argument.
    passed_literal(x, m) { let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; twice(&w) }
    passed_temporary(x, m) { twice(&Wrapped { even: x * 2.0, odd: x * 3.0 }) }
    passed_in_a_tuple(x, m) { let (w, _) = (Wrapped { even: x * 2.0, odd: x * 3.0 }, 1); twice(&w) }
    passed_reference(x, m) { let w = &Wrapped { even: x * 2.0, odd: x * 3.0 }; twice(w) }
    passed_in_a_closure(x, m) { let f = |w: Wrapped| twice(&w); f(Wrapped { even: x * 2.0, odd: x * 3.0 }) }
    annotated_wrapper(x, m) { let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; let t: &Tensor = &w; twice(t) }
    passed_to_a_closure(x, m) { let f = |t: &Tensor| t * 2.0; let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; f(&w) }
    passed_to_an_inner_function(x, m) { fn inner(t: &Tensor) -> Tensor { t * 2.0 } let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; inner(&w) }
    added_wrapper(x, m) { let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; &*w + 1.0 }
    method_of_a_wrapper(x, m) { let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; w.sin() }
    // Types of the user's in the forms of this library's.
    started(x, m) { let by: f64 = [2].iter().map(|n| m.odd.start(*n)).sum(); x * by }
    ended(x, m) { let y = m.end(2); let n = [1.0].len() as f64; x * y * n }
    ended_in_a_list(x, m) { let mut all = Vec::new(); for _ in 0..2 { let y = m.end(2); all.push(y.clone()); } x * &all[1] }
    annotated_array(x, m) { let odds: [Odd; 2] = [m.odd, m.odd]; let by: f64 = (0..2).map(|i| odds[i] + 1.0).sum(); x * by }
    annotated_parameter(x, m) { let f = |odd: &Odd| *odd + 1.0; let by: f64 = f(&m.odd); x * by }
    method_of_a_result(x, m) { let f = |v: &Tensor| { let by: f64 = m.odd.with(v).signum(); v * by }; f(x) }
    mapped_like_a_tree(x, m) { Mapped(x.clone()).map(&mut |w| w * 2.0) }
    mapped_local(x, m) { let mapped = Mapped(x.clone()); mapped.map(&mut |w| w * 2.0) }
    mapped_by_hand(x, m) { let tree = Handmade(x.clone()); tree.map(&mut |w| w * 2.0).0 }
    counted_in_a_map(x, m) { let y = m.map(&mut |w| w * count()); x * y.w }
    count_of_a_map(x, m) { let mut n = count(); let y = m.map(&mut |w| { n += 1.0; w * n }); x * y.w }
    default_of_an_optimiser(x, m) { let by: f64 = Adam::default().lr; x * by }
    step_of_an_optimiser(x, m) { Adam { lr: 0.1 }.step(x) }
    bound_optimiser(x, m) { let adam = Adam { lr: 0.1 }; let y = adam.step(x); y * 2.0 }
    clipped(x, m) { optim::clip_by_norm(x, 2.0) }
    initial(x, m) { let by: f64 = [2].iter().map(|_| m.odd.init(x)).sum(); x * by }
    // Types of the user's with the names of the standard library's, asked about in the copy of a body.
    own_vector(x, m) { use look_alikes::Vec; let mut l = Vec::new(); l.push(3.0); let by = l[1] * 2.0; x * by }
    own_vector_by_path(x, m) { let mut l = look_alikes::Vec::new(); l.push(3.0); let by = l[1] * 2.0; x * by }
    own_length(x, m) { let l = look_alikes::Vec::new(); let n = l.len() as f64; x * n }
    own_default(x, m) { use look_alikes::Vec; let l: Vec = Default::default(); x * l.first() }
    own_hash_map(x, m) { let mut h = look_alikes::HashMap::new(); h.insert(1, 2.0); let n = h.len() as f64; x * n }
    own_constructor(x, m) { let b = look_alikes::BTreeMap::new(); let by = b[&0] * 1.0; x * by }
    own_pointer(x, m) { let r = look_alikes::Rc::new(3.0); let by = *r * 2.0; x * by }
    own_factor(x, m) { let mut l = Vec::new(); l.push(look_alikes::Factor); let by: f64 = 2.0 * &l[0]; x * by }
    own_factor_later(x, m) { let mut l = Vec::new(); let mut by = 1.0; for i in 0..2 { if i > 0 { by = 2.0 * &l[0]; } l.push(look_alikes::Factor); } x * by }
    own_factor_in_a_closure(x, m) { let f = |a: f64, b| a * b; let by: f64 = f(2.0, look_alikes::Factor); x * by }
    own_element(x, m) { let mut l = Vec::new(); l.push(m.odd); let by: f64 = l[0] + 1.0; x * by }
    own_field(x, m) { let mut l = Vec::new(); l.extend([m.odd]); let by = l[0].by; x * by }
    own_field_in_a_list(x, m) { let mut l = Vec::new(); for _ in 0..1 { l.push(m.odd); } let by = l[0].by * 2.0; x * by }
    own_index(x, m) { let mut l = Vec::new(); l.push(m.odd); let by = l[0][0] * 2.0; x * by }
    own_target(x, m) { let mut l = Vec::new(); l.push(Wrapped { even: x * 2.0, odd: x * 3.0 }); let y = &*l[0] * 2.0; y }
    own_reference_in_a_list(x, m) { let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; let l = vec![x, &w]; l[1] * 2.0 }
    own_reference_in_an_array(x, m) { let mut ws = Vec::new(); ws.push(Wrapped { even: x * 2.0, odd: x * 3.0 }); let l = [x, &ws[0]]; l[1] * 2.0 }
    own_reference_in_a_branch(x, m) { let mut ws = Vec::new(); ws.push(Wrapped { even: x * 2.0, odd: x * 3.0 }); let y = if x.rank() == 9 { x } else { &ws[0] }; y * 2.0 }
    own_reference_assigned(x, m) { let mut ws = Vec::new(); ws.push(Wrapped { even: x * 2.0, odd: x * 3.0 }); let mut y = x; y = &ws[0]; y * 2.0 }
    own_reference_in_a_struct(x, m) { struct R<'a> { t: &'a Tensor } let w = Wrapped { even: x * 2.0, odd: x * 3.0 }; let r = R { t: &w }; r.t * 2.0 }
    own_shared_target(x, m) { let r = Rc::new(Wrapped { even: x * 2.0, odd: x * 3.0 }); twice(&r) }
    own_keys(x, m) { let mut b = std::collections::BTreeMap::new(); b.insert(Ranked, 2.0); b.insert(Ranked, 3.0); let by: f64 = *b.values().next().unwrap(); x * by }
    own_struct_inside(x, m) { struct Own { by: f64 } impl Own { fn get(&self) -> f64 { self.by * count() } } let o = Own { by: 2.0 }; let by = o.get(); twice(x) * by }
    own_operator_inside(x, m) { struct Own; impl Mul<Own> for f64 { type Output = f64; fn mul(self, _: Own) -> f64 { self * count() } } let by: f64 = 2.0 * Own; twice(x) * by }
    inferred_in_a_gradient(x, m) { let g = grad(|x: &Tensor| (x * count()).sum(..))(x); g * 2.0 }
}

fn model() -> Model {
    Model {
        w: Tensor::from([0.5f64, 0.25]),
        odd: Odd { n: 3 },
        odds: vec![Odd { n: 3 }],
    }
}

#[test]
fn each_call_has_the_side_effects_of_the_body() {
    let (x, model) = (Tensor::from([1.0f64, 2.0]), model());
    let mut wrong = Vec::new();
    for (name, traced, plain, _) in ATTEMPTS {
        let calls = |f: &Plain| {
            COUNT.set(0.0);
            gain.set(1.0);
            low.store(0, Ordering::Relaxed);
            [(); 4].map(|()| f(&x, &model).to_vec::<f64>())
        };
        let (expected, found) = (calls(plain), calls(traced));
        if found != expected {
            wrong.push(format!("{name}: {found:?}, expected {expected:?}"));
        }
        assert!(
            expected.iter().any(|y| *y != expected[0]),
            "{name} shows no state: {expected:?}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_reason_names_a_line_and_ends_with_the_remedy() {
    for (name, _, _, why) in ATTEMPTS {
        let why = why.unwrap_or_else(|| panic!("{name} has no reason"));
        assert!(
            why.contains("` at line ") || why.contains("may be mutable"),
            "{name}: {why}"
        );
        assert!(
            why.contains("`#[traced(pure)]`")
                || why.contains("read it before the call")
                || why.contains("may be mutable"),
            "{name}: {why}"
        );
    }
}

/// Calls a host method that shares its name with a traced one.
#[traced]
fn scheduled(m: &Model, x: &Tensor, #[fixed] s: &Odd) -> Tensor {
    m.step(x) * s.step()
}

#[test]
fn a_host_method_may_share_its_name_with_a_traced_one() {
    let (x, model) = (Tensor::from([1.0f64, 2.0]), model());
    COUNT.set(0.0);
    let y = model.step(&x).to_vec::<f64>();
    for n in [1.0, 2.0, 3.0] {
        let found = scheduled(&model, &x, &Odd { n: 3 }).to_vec::<f64>();
        assert_eq!(found, [y[0] * n, y[1] * n]);
    }
}

#[traced]
fn of_a_cell(m: &Shared) -> Tensor {
    let n: i64 = Some(&m.cell).map(|c| c.replace(7)).unwrap();
    &m.w * n as f64
}

#[traced]
fn of_a_pointer(m: &Pointed) -> Tensor {
    let by: f64 = Some(2.0).map(m.act).unwrap();
    &m.w * by
}

#[traced]
fn of_a_pointer_called(m: &Pointed) -> Tensor {
    let by: f64 = (m.act)(2.0);
    &m.w * by
}

#[allow(non_upper_case_globals)]
static lazy: LazyLock<Tensor> = LazyLock::new(|| Tensor::from([1.0f64, 2.0]));

#[traced]
fn by_a_lazy_one(x: &Tensor) -> Tensor {
    x * &*lazy
}

#[test]
fn shared_state_in_arguments_is_read_at_each_call() {
    let w = Tensor::from([1.0f64]);
    let shared = Shared {
        w: w.clone(),
        cell: Rc::new(Cell::new(2)),
    };
    assert_eq!(of_a_cell(&shared).to_vec::<f64>(), [2.0]);
    assert_eq!(of_a_cell(&shared).to_vec::<f64>(), [7.0]);
    let pointed = Pointed { w, act: noise };
    for f in [of_a_pointer, of_a_pointer_called] {
        COUNT.set(0.0);
        assert_eq!(f(&pointed).to_vec::<f64>(), [2.0]);
        assert_eq!(f(&pointed).to_vec::<f64>(), [4.0]);
    }
    let x = Tensor::from([10.0f64, 20.0]);
    for _ in 0..2 {
        assert_eq!(by_a_lazy_one(&lazy).to_vec::<f64>(), [1.0, 4.0]);
        assert_eq!(by_a_lazy_one(&x).to_vec::<f64>(), [10.0, 40.0]);
    }
}

/// Types and functions of the user's with names of this library.
mod same_names {
    use super::count;
    use gradloom::Tensor as Real;
    use gradloom::traced;

    struct Key;

    impl Key {
        pub(super) fn new(_: u64) -> Key {
            Key
        }
        fn uniform(&self, _: [usize; 1]) -> f64 {
            count()
        }
    }

    struct Tensor {
        by: f64,
    }

    impl Tensor {
        fn scalar(by: f64) -> Tensor {
            Tensor { by }
        }
        fn exp(&self) -> f64 {
            self.by * count()
        }
    }

    fn hvp(_: impl Fn(f64) -> f64, by: f64, _: f64) -> f64 {
        by * count()
    }

    fn grad(f: impl Fn(f64) -> f64) -> impl Fn(f64) -> f64 {
        move |by| f(by) * count()
    }

    fn vjp(_: impl Fn(f64) -> f64, by: f64) -> (f64, f64) {
        (by * count(), by)
    }

    #[traced(allow(recorded_call))]
    pub(super) fn made_key(x: &Real) -> Real {
        let by: f64 = Key::new(1).uniform([1]);
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn bound_key(x: &Real) -> Real {
        let key = Key::new(1);
        let by: f64 = key.uniform([1]);
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn written_key(x: &Real) -> Real {
        let of = |key: &Key| key.uniform([1]);
        let by: f64 = of(&Key);
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn made_tensor(x: &Real) -> Real {
        let by: f64 = Tensor::scalar(2.0).exp();
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn written_tensor(x: &Real) -> Real {
        let of = |t: &Tensor| t.exp();
        let by: f64 = of(&Tensor { by: 1.0 });
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn of_hvp(x: &Real) -> Real {
        let by: f64 = hvp(|v| v, 2.0, 1.0);
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn of_grad(x: &Real) -> Real {
        let by: f64 = grad(|v| v)(2.0);
        x * by
    }

    #[traced(allow(recorded_call))]
    pub(super) fn of_vjp(x: &Real) -> Real {
        let (by, _): (f64, f64) = vjp(|v| v, 2.0);
        x * by
    }
}

#[test]
fn items_of_the_user_may_have_names_of_this_library() {
    use same_names::*;
    let x = Tensor::from([1.0f64, 2.0]);
    type Recorded = fn(&Tensor) -> Tensor;
    let all: [(&str, Recorded); 8] = [
        ("made_key", made_key),
        ("bound_key", bound_key),
        ("written_key", written_key),
        ("made_tensor", made_tensor),
        ("written_tensor", written_tensor),
        ("of_hvp", of_hvp),
        ("of_grad", of_grad),
        ("of_vjp", of_vjp),
    ];
    let mut wrong = Vec::new();
    for (name, f) in all {
        let [a, b, c] = [(); 3].map(|()| f(&x).to_vec::<f64>());
        if a == b || b == c {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[derive(Clone, Tree)]
struct WithOdd {
    y: Tensor,
    #[tree(skip)]
    odd: Odd,
}

#[traced(pure)]
fn with_odd(x: &Tensor) -> (Tensor, WithOdd) {
    let odd = Odd { n: 1 };
    (x.exp(), WithOdd { y: x.sin(), odd })
}

#[traced(allow(recorded_call))]
fn methods_of_a_part(x: &Tensor) -> Tensor {
    let (z, WithOdd { y, odd }) = with_odd(x);
    z.sum(..) * odd.len() as f64 + y
}

#[traced(allow(recorded_call))]
fn methods_of_an_element(x: &Tensor) -> Tensor {
    let (_, WithOdd { y, odd }) = with_odd(x);
    let total: f64 = [1.0, 2.0].iter().map(|by| odd.min(*by)).sum();
    y * total
}

#[test]
fn methods_of_parts_of_results_may_have_side_effects() {
    let x = Tensor::from([1.0f64, 2.0]);
    for f in [methods_of_a_part, methods_of_an_element] {
        let [a, b] = [(); 2].map(|()| f(&x).to_vec::<f64>());
        assert_ne!(a, b);
    }
}

mod helpers_of_a_block {
    use gradloom::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    fn count() -> usize {
        CALLS.fetch_add(1, Ordering::SeqCst)
    }

    #[derive(Clone, Tree)]
    struct Net {
        w: Tensor,
    }

    #[traced(allow(recorded_call))]
    impl Net {
        fn new(n: usize) -> Self {
            Net {
                w: Tensor::full([n], count() as f64, DType::F64),
            }
        }
        fn counted(&self) -> usize {
            count()
        }
        fn width(&self) -> usize {
            self.w.dim(0)
        }
        fn is_wide(&self) -> bool {
            self.width() > 2
        }
        fn scaled(&self, x: &Tensor) -> Tensor {
            x * self.counted() as f64
        }
        fn made(&self, x: &Tensor) -> Tensor {
            x + Net::new(3).w + &self.w
        }
        fn mean(&self, x: &Tensor) -> Tensor {
            let y = x * &self.w;
            if self.is_wide() {
                y.sum(..) / self.width() as f64
            } else {
                y.sum(..)
            }
        }
    }

    #[test]
    fn run_at_each_call_unless_they_are_pure() {
        assert!(Net::SCALED_RECORDED.is_some_and(|why| why.contains("`count()`")));
        assert!(Net::MADE_RECORDED.is_some_and(|why| why.contains("`Net::new`")));
        assert_eq!(Net::MEAN_RECORDED, None);
        let (net, x) = (Net::new(3), Tensor::from([1.0f64, 2.0, 3.0]));
        for f in [Net::scaled, Net::made] {
            let values: Vec<f64> = (0..3).map(|_| f(&net, &x).to_vec()[0]).collect();
            assert_eq!([values[1] - values[0], values[2] - values[1]], [1.0, 1.0]);
        }
        for _ in 0..2 {
            let (y, pull) = net.mean_vjp(&x);
            assert_eq!(y.item::<f64>(), 0.0);
            assert_eq!(
                pull(&y.ones_like()).0.w.to_vec::<f64>(),
                [1.0 / 3.0, 2.0 / 3.0, 1.0]
            );
        }
    }
}

mod names_of_the_standard_library {
    use super::{Deref, Odd, count};
    use gradloom::prelude::*;

    /// A tree whose methods have names of the standard library and of ops, and are not traced.
    #[derive(Clone, Tree)]
    struct Untraced {
        w: Tensor,
    }

    impl Untraced {
        fn join(&self, x: &Tensor) -> Tensor {
            x * count()
        }
        fn first(&self) -> Tensor {
            &self.w * count()
        }
        fn push(&self, x: &Tensor) -> Tensor {
            x - count()
        }
    }

    /// A tree whose traced methods have effects.
    #[derive(Clone, Tree)]
    struct Counting {
        w: Tensor,
        untraced: Untraced,
    }

    #[traced(allow(recorded_call))]
    impl Counting {
        fn join(&self, x: &Tensor) -> Tensor {
            x * &self.w * count()
        }
        fn insert(&self, x: &Tensor, by: &Pointer) -> Tensor {
            x * by.0.clone()
        }
    }

    /// A tree with one traced method, which passes a tensor on.
    #[derive(Clone, Tree)]
    struct Pure {
        w: Tensor,
    }

    #[traced]
    impl Pure {
        fn push(&self, x: &Tensor) -> Tensor {
            x * &self.w
        }
    }

    impl Pure {
        fn mean(&self, x: &Tensor) -> Tensor {
            x + count()
        }
    }

    /// A pointer that counts how often it is followed.
    #[derive(Clone, Tree)]
    struct Pointer(Tensor, Tensor);

    impl Deref for Pointer {
        type Target = Tensor;
        fn deref(&self) -> &Tensor {
            match count() as usize % 2 {
                0 => &self.0,
                _ => &self.1,
            }
        }
    }

    #[derive(Clone)]
    struct Own(Vec<f64>);

    impl FromIterator<f64> for Own {
        fn from_iter<I: IntoIterator<Item = f64>>(items: I) -> Own {
            Own(items.into_iter().map(|item| item * count()).collect())
        }
    }

    type Owns = Own;
    type MaybeOwn = Option<Own>;
    type Odds = Vec<Odd>;

    struct Holder {
        own: Own,
    }

    struct MaybeHolder {
        own: Option<Own>,
    }

    macro_rules! holes {
        ($($name:ident($u:ident, $c:ident, $p:ident, $x:ident) { $($body:tt)* })*) => {
            $(
                #[allow(unused, clippy::all)] // bodies are written as by users
                #[traced(allow(recorded_call, unused_parameter))]
                fn $name($u: &Untraced, $c: &Counting, $p: &Pure, $x: &Tensor) -> Tensor { $($body)* }
            )*

            #[test]
            fn may_have_side_effects() {
                let x = Tensor::from([1.0f64, 2.0]);
                let u = Untraced { w: x.clone() };
                let c = Counting { w: x.clone(), untraced: u.clone() };
                let p = Pure { w: x.clone() };
                $(
                    assert!($name::RECORDED.is_some(), "{}", stringify!($name));
                    let y = [(); 3].map(|()| $name(&u, &c, &p, &x).to_vec::<f64>());
                    assert!(y[0] != y[1] && y[1] != y[2], "{}", stringify!($name));
                )*
            }
        };
    }

    holes! {
            of_a_parameter(u, c, p, x) { let y = if true { u.join(x) } else { x.clone() }; y }
    op_of_an_item(u, c, p, x) { let all = vec![p.clone(), p.clone()]; let mut y = x.clone(); for one in &all { y = one.push(&y) + one.mean(&y); } y }
            of_a_part(u, c, p, x) { let f = |y: &Tensor| c.untraced.join(y); f(x) }
            without_arguments(u, c, p, x) { let f = || u.first(); x * f() }
            of_an_item(u, c, p, x) { let all = vec![u.clone(), u.clone()]; let mut y = x.clone(); for one in &all { y = one.push(&y); } y }
            of_a_clone(u, c, p, x) { let copy = u.clone(); copy.join(x) + copy.first() }
            traced_with_an_effect(u, c, p, x) { c.join(x) }
            traced_with_an_effect_in_a_closure(u, c, p, x) { let f = |y: &Tensor| c.join(y); f(x) }
            one_of_two_types(u, c, p, x) { let f = |y: &Tensor| p.push(&u.push(y)); f(x) }
            collected_behind_an_alias(u, c, p, x) { let own: Owns = (0..3).map(|i| i as f64).collect(); x * own.0[2] }
            collected_in_a_field(u, c, p, x) { let own = Holder { own: (0..3).map(|i| i as f64).collect() }; x * own.own.0[2] }
            collected_in_an_option(u, c, p, x) { let own: Option<Own> = (0..3).map(|i| Some(i as f64)).collect(); x * own.unwrap().0[2] }
        collected_in_an_option_behind_an_alias(u, c, p, x) { let own: MaybeOwn = (0..3).map(|i| Some(i as f64)).collect(); x * own.unwrap().0[2] }
        collected_in_an_option_in_a_field(u, c, p, x) { let own = MaybeHolder { own: (0..3).map(|i| Some(i as f64)).collect() }; x * own.own.unwrap().0[2] }
        collected_in_a_closure(u, c, p, x) { let f = |n: usize| Holder { own: (0..n).map(|i| i as f64).collect() }; x * f(3).own.0[2] }
            items_behind_an_alias(u, c, p, x) { let odds: Odds = (0..3).map(|n| Odd { n }).collect(); x * odds[1].step() }
        }

    #[traced(allow(recorded_call))]
    fn followed(p: &Pure, by: &Pointer) -> Tensor {
        let f = |by: &Pointer| p.push(by);
        f(by)
    }

    #[test]
    fn an_argument_may_be_followed() {
        let [a, b] = [1.0f64, 2.0].map(|v| Tensor::from([v]));
        let (p, by) = (Pure { w: a.clone() }, Pointer(a, b));
        assert!(followed::RECORDED.is_some());
        let [a, b] = [(); 2].map(|()| followed(&p, &by).to_vec::<f64>());
        assert_ne!(a, b);
        let c = Counting {
            w: by.0.clone(),
            untraced: Untraced { w: by.0.clone() },
        };
        assert_eq!(c.insert(&by.0, &by).to_vec::<f64>(), [1.0]);
    }
}
