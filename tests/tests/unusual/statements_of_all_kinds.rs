#![deny(warnings)]
use gradloom::prelude::*;

macro_rules! twice {
    ($h:ident) => {
        $h = $h.sin();
        $h = $h.cos();
    };
}

macro_rules! affine {
    ($x:expr, $w:expr) => {
        $x * $w + 1.0
    };
}

#[traced(allow(recorded_call))]
fn macros(x: &Tensor, n: usize) -> Tensor {
    let mut h = affine!(x, x.exp());
    twice!(h);
    let parts = vec![h.sin(), h.cos()];
    assert!(n > 0, "{n}");
    debug_assert_eq!(parts.len(), 2);
    &parts[0] * &parts[1]
}

#[traced]
fn labels(x: &Tensor, n: usize) -> Tensor {
    let y = 'found: {
        if n > 2 {
            break 'found x.sin();
        }
        let z = x.cos();
        if n > 1 {
            break 'found z.exp();
        }
        z
    };
    let z = loop {
        break y.tanh();
    };
    z * x
}

#[traced]
fn late(x: &Tensor, n: usize) -> Tensor {
    let h;
    let k: usize;
    if n > 1 {
        h = x.sin();
        k = 2;
    } else {
        h = x.cos();
        k = 3;
    }
    let x = h.exp();
    let x = x.tanh();
    let mut total = x.clone();
    for _ in 0..k {
        total += &x;
        total *= 0.5;
    }
    total
}

#[traced]
fn closures(x: &Tensor, n: usize) -> Tensor {
    let w = x.exp();
    let scale = move |y: &Tensor| y * &w;
    let mut sum = x.zeros_like();
    let mut add = |y: Tensor| sum = &sum + y;
    for _ in 0..n {
        add(scale(x));
    }
    sum.tanh()
}

#[traced(allow(recorded_call))]
fn attributes(x: &Tensor) -> Tensor {
    #[cfg(any())]
    let x = x.missing();
    #[cfg(not(any()))]
    let x = &x.sin();
    #[allow(unused_variables)]
    let unused = x.cos();
    #[cfg(any())]
    {
        return x.missing();
    }
    #[rustfmt::skip]
    let y = x . exp();
    // A comment.
    /* Another. */
    y
}

#[traced]
fn same(x: &Tensor, y: &Tensor) -> (Tensor, Tensor, (Tensor, [Tensor; 1])) {
    (x.clone(), x.clone(), (y.clone(), [x * y]))
}

#[traced]
fn many(
    x0: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    x3: &Tensor,
    x4: &Tensor,
    x5: &Tensor,
    x6: &Tensor,
    x7: &Tensor,
    x8: &Tensor,
    x9: &Tensor,
    x10: &Tensor,
    x11: &Tensor,
    x12: &Tensor,
    x13: &Tensor,
    x14: &Tensor,
    x15: &Tensor,
    x16: &Tensor,
    x17: &Tensor,
    x18: &Tensor,
    x19: &Tensor,
    x20: &Tensor,
    x21: &Tensor,
    x22: &Tensor,
    x23: &Tensor,
    x24: &Tensor,
    x25: &Tensor,
    x26: &Tensor,
    x27: &Tensor,
    x28: &Tensor,
    x29: &Tensor,
    x30: &Tensor,
    x31: &Tensor,
    x32: &Tensor,
    x33: &Tensor,
    x34: &Tensor,
    x35: &Tensor,
    x36: &Tensor,
    x37: &Tensor,
    x38: &Tensor,
    x39: &Tensor,
    x40: &Tensor,
    x41: &Tensor,
    x42: &Tensor,
    x43: &Tensor,
    x44: &Tensor,
    x45: &Tensor,
    x46: &Tensor,
    x47: &Tensor,
    x48: &Tensor,
    x49: &Tensor,
    x50: &Tensor,
    x51: &Tensor,
    x52: &Tensor,
    x53: &Tensor,
    x54: &Tensor,
    x55: &Tensor,
    x56: &Tensor,
    x57: &Tensor,
    x58: &Tensor,
    x59: &Tensor,
    x60: &Tensor,
    x61: &Tensor,
    x62: &Tensor,
    x63: &Tensor,
) -> Tensor {
    x0 + x1
        + x2
        + x3
        + x4
        + x5
        + x6
        + x7
        + x8
        + x9
        + x10
        + x11
        + x12
        + x13
        + x14
        + x15
        + x16
        + x17
        + x18
        + x19
        + x20
        + x21
        + x22
        + x23
        + x24
        + x25
        + x26
        + x27
        + x28
        + x29
        + x30
        + x31
        + x32
        + x33
        + x34
        + x35
        + x36
        + x37
        + x38
        + x39
        + x40
        + x41
        + x42
        + x43
        + x44
        + x45
        + x46
        + x47
        + x48
        + x49
        + x50
        + x51
        + x52
        + x53
        + x54
        + x55
        + x56
        + x57
        + x58
        + x59
        + x60
        + x61
        + x62
        + x63
}

fn check(f: &dyn Fn(&Tensor) -> Tensor, ct_x: Tensor) {
    let at = |d: f64| f(&Tensor::scalar(0.5 + d)).item::<f64>();
    let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
    let found = ct_x.item::<f64>();
    assert!(
        (found - difference).abs() < 1e-6,
        "{found} and {difference}"
    );
}

#[test]
fn runs() {
    let x = &Tensor::scalar(0.5f64);
    check(&|x| macros(x, 1), macros::grad(x, 1).x);
    check(&attributes, attributes::grad(x).x);
    for n in 0..4 {
        check(&|x| labels(x, n), labels::grad(x, n).x);
        check(&|x| late(x, n), late::grad(x, n).x);
        check(&|x| closures(x, n), closures::grad(x, n).x);
    }
    let (y, pullback) = same::vjp(x, x);
    let (ct_x, ct_y) = pullback(&y);
    assert_eq!((ct_x.item::<f64>(), ct_y.item::<f64>()), (1.125, 0.625));
    let grads = many::grad(
        x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x,
        x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x,
        x, x, x, x,
    );
    assert_eq!(grads.x63.item::<f64>(), 1.0);
}
