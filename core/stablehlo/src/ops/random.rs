//! Random numbers: Threefry-2x32 in 20 rounds by integer ops, so that the bits are those of gradloom.
//!
//! A key and a 64-bit counter give two words. Element `i` of an array has counter `i`.

use crate::equation::Equation;
use crate::text::{Element, Number, Order, Text, Value};

/// Two words for each element.
type Words = [Value; 2];

/// Appends the two words of each key, as `[keys]`.
fn keys(t: &mut Text, x: &Value) -> Words {
    let n = x.numel() / 2;
    let x = t.reshape(x, &[n, 2]);
    let x = t.convert(&x, Element::U32);
    [0, 1].map(|i| {
        let word = t.part(&x, 1, i, i + 1);
        t.reshape(&word, &[n])
    })
}

fn rotated(t: &mut Text, x: &Value, by: i64) -> Value {
    let left = t.full_like(by, x);
    let left = t.binary("shift_left", x, &left);
    let right = t.full_like(32 - by, x);
    let right = t.binary("shift_right_logical", x, &right);
    t.or(&left, &right)
}

/// Appends the two words of a counter of two words, the high one first.
fn hash(t: &mut Text, key: &Words, counter: &Words) -> Words {
    let [a, b] = key;
    let last = t.binary("xor", a, b);
    let parity = t.full_like(0x1BD1_1BDA, a);
    let last = t.binary("xor", &last, &parity);
    let schedule = [a.clone(), b.clone(), last];
    let mut x = t.add(&counter[0], &schedule[0]);
    let mut y = t.add(&counter[1], &schedule[1]);
    for round in 0..20 {
        x = t.add(&x, &y);
        y = rotated(t, &y, [13, 15, 26, 6, 17, 29, 16, 24][round % 8]);
        y = t.binary("xor", &y, &x);
        if round % 4 == 3 {
            let n = round / 4 + 1;
            x = t.add(&x, &schedule[n % 3]);
            y = t.add(&y, &schedule[(n + 1) % 3]);
            y = t.plus(&y, n);
        }
    }
    [x, y]
}

/// Appends the two words of `n` counters from 0 for each key, as `[keys, n]`.
fn words(t: &mut Text, key: &Words, n: usize) -> Words {
    let shape = [key[0].numel(), n];
    let key = key.clone().map(|word| t.broadcast(&word, &[0], &shape));
    let counter = t.iota(1, Element::U64, &shape);
    let by = t.full_like(32, &counter);
    let high = t.binary("shift_right_logical", &counter, &by);
    let counter = [high, counter].map(|word| t.convert(&word, Element::U32));
    hash(t, &key, &counter)
}

/// Appends the two words of each element of the result, which has `n` elements for each key.
fn drawn(t: &mut Text, of: &Equation<'_>) -> Words {
    let keys = keys(t, of.x());
    let n: usize = of.shape().iter().product();
    let per_key = n.checked_div(keys[0].numel()).unwrap_or(0);
    words(t, &keys, per_key)
}

/// Appends the word of each element.
fn word(t: &mut Text, [x, y]: &Words) -> Value {
    t.binary("xor", x, y)
}

/// Appends floats in `[0, 1)`: as many high bits as a float has digits.
fn units(t: &mut Text, of: &Equation<'_>) -> Value {
    let words = drawn(t, of);
    let (bits, skipped, scale) = match of.out().element {
        Element::F32 => (word(t, &words), 9, 2f64.powi(-23)),
        _ => {
            let [x, y] = words.map(|word| t.convert(&word, Element::U64));
            let by = t.full_like(32, &x);
            let high = t.binary("shift_left", &x, &by);
            (t.or(&high, &y), 12, 2f64.powi(-52))
        }
    };
    let by = t.full_like(skipped, &bits);
    let bits = t.binary("shift_right_logical", &bits, &by);
    let digits = t.convert(&bits, of.out().element);
    t.times(&digits, scale)
}

/// Appends elements in the shape of the result.
fn shaped(t: &mut Text, of: &Equation<'_>, x: &Value) -> Value {
    t.reshape(x, of.shape())
}

pub(super) fn fold_in(t: &mut Text, of: &Equation<'_>) -> Value {
    let keys = keys(t, of.x());
    let data = t.reshape(of.y(), &keys[0].shape);
    let data = t.convert(&data, Element::U32);
    let high = t.full_like(0, &data);
    let words = hash(t, &keys, &[high, data]);
    let n = keys[0].numel();
    let words = words.map(|word| {
        let word = t.convert(&word, Element::I64);
        t.reshape(&word, &[n, 1])
    });
    let words = t.concat(&words, 1);
    shaped(t, of, &words)
}

pub(super) fn random_bits(t: &mut Text, of: &Equation<'_>) -> Value {
    let words = drawn(t, of);
    let word = word(t, &words);
    let bits = t.convert(&word, Element::I64);
    shaped(t, of, &bits)
}

pub(super) fn random_uniform(t: &mut Text, of: &Equation<'_>) -> Value {
    let units = units(t, of);
    shaped(t, of, &units)
}

/// `sqrt(2) erf_inv(u)` for `u` uniform in `(-1, 1)`.
pub(super) fn random_normal(t: &mut Text, of: &Equation<'_>) -> Value {
    let units = units(t, of);
    let low = match units.element {
        Element::F32 => f64::from(-1f32.next_down()),
        _ => -1f64.next_down(),
    };
    let doubled = t.add(&units, &units);
    let shifted = t.plus(&doubled, low);
    let low = t.full_like(low, &shifted);
    let u = t.max(&shifted, &low);
    let y = t.same("chlo.erf_inv", &[&u]);
    let y = t.times(&y, std::f64::consts::SQRT_2);
    shaped(t, of, &y)
}

/// A unit with digits `k` is below `p` if `k` is below `p 2^23` rounded up.
pub(super) fn random_bernoulli(t: &mut Text, of: &Equation<'_>) -> Value {
    let p = match Number::from(&of.statics[1]) {
        Number::Int(n) => n as f32,
        Number::Float(p) => p as f32,
    };
    let bound = (f64::from(p) * 2f64.powi(23)).ceil() as i64;
    let words = drawn(t, of);
    let word = word(t, &words);
    let by = t.full_like(9, &word);
    let digits = t.binary("shift_right_logical", &word, &by);
    let hit = t.compare_to(Order::Lt, &digits, bound);
    shaped(t, of, &hit)
}

/// Each round sorts by fresh words. There are as many rounds as gradloom has.
pub(super) fn random_permutation(t: &mut Text, of: &Equation<'_>) -> Value {
    let n = of.int(0) as usize;
    let rounds = (3.0 * (n.max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil() as usize;
    let mut key = keys(t, of.x());
    let mut order = t.iota(1, Element::I64, &[key[0].numel(), n]);
    for _ in 0..rounds {
        let [next, round] = [0, 1].map(|counter| {
            let high = t.full_like(0, &key[0]);
            let low = t.full_like(counter, &key[0]);
            hash(t, &key, &[high, low])
        });
        let words = words(t, &round, n);
        let word = word(t, &words);
        let sorted = t.sort(&[word, order], 1, |t, args| {
            t.compare(Order::Lt, &args[0], &args[1])
        });
        order = sorted
            .into_iter()
            .last()
            .expect("as many results as operands");
        key = next;
    }
    shaped(t, of, &order)
}
