//! Locals that hold what another local had before it changed.

use gradloom::prelude::*;
use gradloom_tests::derivatives::Companions;
use gradloom_tests::noise;

#[traced]
pub(crate) fn before_a_loop(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    let mut sum = y.clone();
    for i in 0..n {
        let before = h.clone();
        let pair = (h.clone(), i as f64);
        // Each turn changes `h`, and reads what it was before the first one.
        for _ in 0..3 {
            h = h.sin() + y;
            sum = &sum * &before + &pair.0 * pair.1;
        }
    }
    sum + h
}

#[traced]
pub(crate) fn before_a_branch(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.sin();
    if n > 0 {
        h = h.cos();
    }
    let p = h.clone();
    let q = p.clone();
    if n > 1 {
        h = &h * y;
        if n > 2 {
            h = h * &p;
        }
    }
    match n {
        4 => h = q.sin() + h,
        5 => {
            h = h + &p;
            h = h + &q;
        }
        _ => {}
    }
    let z = 'found: {
        if n == 3 {
            h = h * 2.0;
            break 'found p.clone();
        }
        &h * y
    };
    h + p * q + z
}

#[test]
fn an_old_value_outlives_its_local() {
    check_two!(before_a_loop, [0, 1, 3]);
    check_two!(before_a_branch, 0..6);
}

#[traced]
pub(crate) fn in_conditions(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.sum(..) * 10.0 + n as f64;
    let mut k = y.clone();
    for _ in 0..n {
        let old = h.clone();
        h = h.sin() * -1.0;
        if old.item::<f64>() > 0.0 && n != 2 {
            k = k + y;
        }
        let old = h.clone();
        h = h + 1.0;
        match old.item::<f64>() > 0.0 {
            true => k = k.sin(),
            false => k = k * 2.0,
        }
        let old = h.clone();
        h = h * 0.0;
        for _ in 0..(old.item::<f64>().abs() * 3.0) as usize {
            h = h + 1.0;
            k = k.sin() + &h * y;
        }
        let (old, other) = (h.clone(), k.clone());
        (h, k) = (k.sum(..), k.cos());
        // What stands on the left of the branch is what was there before it.
        k = &k + &other * (if n > 1 { x.sin() } else { x.cos() }) + old;
    }
    k * h
}

#[test]
fn a_condition_on_an_old_value_reads_the_old_value() {
    check_two!(in_conditions, 0..5);
}

#[traced]
pub(crate) fn beside_closures(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    for i in 0..n {
        h = h.sin();
        let mut by = 2.0;
        let scaled = move |t: &Tensor| t * by;
        by += i as f64;
        let wave = |t: &Tensor| if i > 0 { t.cos() } else { t.exp() };
        // The closure knows nothing of `h`, and leaves it as it is.
        h = h * 2.0;
        let old = h.clone();
        h = h.sin();
        let z = &old * wave(y);
        h = h + z * by + scaled(x);
    }
    h
}

#[test]
fn a_closure_leaves_the_locals_around_it() {
    check_two!(beside_closures, 0..4);
}

/// The closures keep what `old` was, though its slot changes.
#[traced]
pub(crate) fn captured(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.sin();
    for i in 0..n {
        let old = h.clone();
        let by = |t: &Tensor| if i > 0 { t * &old } else { t + &old };
        h = h.cos() * y;
        if i != 1 {
            h = by(&h) + &h;
        }
        let pair = (h.clone(), i as f64);
        let of = move |t: &Tensor| t * &pair.0 + pair.1;
        h = h.tanh();
        h = of(&by(&h));
    }
    h
}

#[test]
fn a_closure_keeps_what_a_local_was() {
    check_two!(captured, 0..4);
}

/// Names that the macro makes of these are not those of other locals.
#[traced]
pub(crate) fn numbered(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut value = x.sin();
    let mut part = (y.clone(), 1.0, 0usize);
    for index in 0..n {
        value = value.cos() * 0.5;
        if index % 2 != 1 && (x * &value).sum(..).item::<f64>() < 9.0 {
            value = (value * y).sin();
            value = value.cos();
        }
        let mut part = (part.0.sin(), part.1 + 1.0, part.2 + index);
        value = if part.2 > 1 || value.square().sum(..).item::<f64>() > 0.5 {
            part.0 = part.0 * &value;
            part.1 *= 0.5;
            value + part.1
        } else {
            let value_1 = &part.0 * part.1;
            value * value_1
        };
        value = value.tanh() + &part.0;
    }
    part.2 += n;
    value * part.0 * part.2 as f64
}

#[test]
fn made_names_are_no_others() {
    check_two!(numbered, 0..5);
}

#[traced]
pub(crate) fn turned(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let (mut a, mut b) = (x.clone(), y.clone());
    let mut last = (a.clone(), b.clone());
    'turns: for i in 0..n {
        let (a0, b0) = (a.clone(), b.clone());
        let old = last.clone();
        for j in 0..3 {
            let t = a.clone();
            match j {
                0 => {
                    a = b.clone();
                    b = t.sin();
                }
                1 if i > 1 => (a, b) = (b, a),
                _ => b = &t + &b0,
            }
            if i + j == 4 {
                break 'turns;
            }
            b = b * &t;
        }
        last = (last.1, a0.clone());
        a = a.tanh() + a0 * old.0;
    }
    a * b + last.0 * last.1
}

#[test]
fn locals_change_places() {
    check_two!(turned, 0..6);
}

#[traced]
pub(crate) fn borrowed(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.clone();
    for i in 0..n {
        let old = h.clone();
        let s = old.shape();
        h = h.sin();
        if i > 1 {
            h = h * 2.0;
        }
        h = h * s[0] as f64;
    }
    h * y
}

#[traced]
pub(crate) fn exchanged(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let z = x.sin();
    let mut a = x;
    let mut b = &z;
    let mut h = y.clone();
    for i in 0..n {
        h = h * a + b;
        (a, b) = (b, a);
        if i == 1 {
            a = y;
        }
        if i == 3 {
            b = &z;
        }
        let pair = (a, b);
        h = h + pair.0 * pair.1;
    }
    h + a
}

#[test]
fn references_and_shapes_of_old_values_stay() {
    check_two!(borrowed, 0..4);
    check_two!(exchanged, 0..6);
}

#[traced]
pub(crate) fn keywords(r#type: &Tensor, r#loop: &Tensor, r#fn: usize) -> Tensor {
    let mut r#match = r#type.clone();
    for r#in in 0..r#fn {
        let r#if = r#match.clone();
        for _ in 0..2 {
            r#match = r#match * &r#if + r#loop;
        }
        if r#in == 2 {
            r#match = r#if;
        }
    }
    r#match
}

#[test]
fn keywords_may_be_names() {
    for n in [0, 1, 4] {
        Companions {
            call: &|(x, y): &(Tensor, Tensor)| keywords(x, y, n),
            vjp: &|(x, y), ct| {
                let (z, pullback) = keywords::vjp(x, y, n);
                (z, pullback(ct))
            },
            jvp: &|(x, y), (dx, dy)| keywords::jvp((x, y, n), (dx, dy)),
        }
        .check(&(noise(&[3], 1), noise(&[3], 2)));
    }
}

#[traced]
pub(crate) fn chosen(x: &Tensor, y: &Tensor, n: usize) -> Tensor {
    let mut h = x.cos();
    for i in 0..n {
        // A traced function takes references, and the arms give them.
        h = before_a_branch(
            &h,
            match i {
                0 => x,
                1 => y,
                _ => &h,
            },
            i,
        );
    }
    h
}

#[test]
fn arms_may_give_references() {
    check_two!(chosen, [0, 1, 4]);
}
