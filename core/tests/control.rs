//! Loops and conditionals as ops, in closures: values, derivatives in both modes, lanes, and errors.

use gradloom::{
    Checkpoint, DType, Error, Key, Result, Scan, Tensor, Vmap, checkpoint, cond, custom_jvp,
    custom_vjp, fori_loop, grad, hessian, hvp, jacfwd, jacrev, jvp, map, scan, switch, vjp, vmap,
    while_loop,
};

fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.aval(), b.aval());
    let [a, b] = [a, b].map(|x| x.cast(DType::F64).to_vec::<f64>());
    for (x, y) in a.iter().zip(&b) {
        assert!((x - y).abs() <= 1e-9 * (1.0 + y.abs()), "{a:?}\n{b:?}");
    }
}

/// Compares a function with one that does the same, with its derivatives to second order in all ways,
/// and on lanes.
fn same(f: impl Fn(&Tensor) -> Tensor, g: impl Fn(&Tensor) -> Tensor, x: &Tensor) {
    let dx = x.cos();
    close(&f(x), &g(x));
    close(&jvp(&f, x, &dx).1, &jvp(&g, x, &dx).1);
    let ct = f(x).sin();
    close(&vjp(&f, x).1.call(&ct), &vjp(&g, x).1.call(&ct));
    let loss_f = |x: &Tensor| (f(x) * &ct).sum(..);
    let loss_g = |x: &Tensor| (g(x) * &ct).sum(..);
    let second = hvp(loss_g, x, &dx);
    close(&hvp(loss_f, x, &dx), &second);
    let along = |x: &Tensor| jvp(loss_f, x, &dx).1;
    close(&grad(along)(x), &second);
    close(&jacrev(&f)(x), &jacrev(&g)(x));
    close(&jacfwd(&f)(x), &jacfwd(&g)(x));
    close(&jacfwd(grad(loss_f))(x), &hessian(loss_g)(x));
    let lanes = Tensor::stack(&[x, &(x * 0.5), &(x * 1.5)], 0);
    close(&vmap(&f)(&lanes), &vmap(&g)(&lanes));
    close(&vmap(grad(loss_f))(&lanes), &vmap(grad(loss_g))(&lanes));
    let all = |x: &Tensor| vmap(&f)(x).square().sum(..);
    let each = |x: &Tensor| vmap(&g)(x).square().sum(..);
    close(&grad(all)(&lanes), &grad(each)(&lanes));
}

/// Also compares reverse over reverse.
fn same_in_reverse(f: impl Fn(&Tensor) -> Tensor, g: impl Fn(&Tensor) -> Tensor, x: &Tensor) {
    same(&f, &g, x);
    let square = |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| {
        grad(|x: &Tensor| grad(|x: &Tensor| f(x).sin().sum(..))(x).square().sum(..))(x)
    };
    close(&square(&f, x), &square(&g, x));
}

fn values(n: usize) -> Tensor {
    (Tensor::arange(n, DType::F64) + 1.0).sin()
}

#[test]
fn a_scan_is_its_turns_one_after_the_other() {
    let xs = values(12).reshape([4, 3]);
    let w = values(9).reshape([3, 3]);
    let turn = |h: &Tensor, x: &Tensor, w: &Tensor| (h.matmul(w) + x).tanh();
    let looped = |x: &Tensor| {
        let mut h = x.clone();
        let mut all = Vec::new();
        for t in 0..4 {
            h = turn(&h, &xs.slice([t], [t + 1], [1]).squeeze(0), &w);
            all.push(&h * 2.0);
        }
        Tensor::stack(&all.iter().collect::<Vec<_>>(), 0) * &h
    };
    let scanned = |x: &Tensor| {
        let (h, all) = scan(
            |h: &Tensor, x: &Tensor| {
                let h = turn(h, x, &w);
                (h.clone(), h * 2.0)
            },
            x,
            &xs,
        );
        all * h
    };
    same_in_reverse(scanned, looped, &values(3));
    // The weights are captured, and so are the slices.
    let of_weights = |w: &Tensor| {
        let step = |h: &Tensor, x: &Tensor| {
            let h = turn(h, x, w);
            (h.clone(), h)
        };
        scan(step, &values(3), &xs).1
    };
    let loop_weights = |w: &Tensor| {
        let mut h = values(3);
        let mut all = Vec::new();
        for t in 0..4 {
            h = turn(&h, &xs.slice([t], [t + 1], [1]).squeeze(0), w);
            all.push(h.clone());
        }
        Tensor::stack(&all.iter().collect::<Vec<_>>(), 0)
    };
    same_in_reverse(of_weights, loop_weights, &w);
    let of_slices = |xs: &Tensor| {
        let turn = |h: &Tensor, x: &Tensor| (h * x, h.clone());
        let (last, all) = Scan::new(turn).reverse().checkpoint().call(&values(3), xs);
        all + last
    };
    let loop_slices = |xs: &Tensor| {
        let mut h = values(3);
        let mut all = vec![h.clone(); 4];
        for t in (0..4).rev() {
            all[t as usize] = h.clone();
            h *= xs.slice([t], [t + 1], [1]).squeeze(0);
        }
        Tensor::stack(&all.iter().collect::<Vec<_>>(), 0) + h
    };
    same_in_reverse(of_slices, loop_slices, &xs);
}

#[test]
fn loops_nest() {
    let nested = |x: &Tensor| {
        fori_loop(
            0..3,
            |i: &Tensor, y: &Tensor| {
                let inner = |_: &Tensor, y: &Tensor| (y * x).sin();
                fori_loop(0..2, inner, y) + i.cast(DType::F64)
            },
            x,
        )
    };
    let looped = |x: &Tensor| {
        let mut y = x.clone();
        for i in 0..3 {
            for _ in 0..2 {
                y = (y * x).sin();
            }
            y += f64::from(i);
        }
        y
    };
    same_in_reverse(nested, looped, &values(2));
}

#[test]
fn a_while_loop_goes_on_as_long_as_its_condition_holds() {
    let doubled = |x: &Tensor| {
        let (y, _) = while_loop(
            |(y, _): &(Tensor, Tensor)| y.abs().sum(..).lt(Tensor::from(10.0f64)),
            |(y, z): &(Tensor, Tensor)| (y * 1.5 + z * x, z.sin()),
            &(x.clone(), x.clone()),
        );
        y
    };
    let looped = |x: &Tensor| {
        let (mut y, mut z) = (x.clone(), x.clone());
        for _ in 0..turns(x) {
            (y, z) = (y * 1.5 + &z * x, z.sin());
        }
        y
    };
    // The number of turns depends on the values, so lanes have different ones.
    fn turns(x: &Tensor) -> usize {
        let (mut y, mut z) = (x.to_vec::<f64>(), x.to_vec::<f64>());
        let x = y.clone();
        let mut n = 0;
        while y.iter().map(|y| y.abs()).sum::<f64>() < 10.0 {
            for i in 0..y.len() {
                (y[i], z[i]) = (y[i] * 1.5 + z[i] * x[i], z[i].sin());
            }
            n += 1;
        }
        n
    }
    let x = values(3);
    close(&doubled(&x), &looped(&x));
    close(
        &grad(|x: &Tensor| doubled(x).sum(..))(&x),
        &grad(|x: &Tensor| looped(x).sum(..))(&x),
    );
    let loss = |x: &Tensor| doubled(x).square().sum(..);
    let loss_of_loop = |x: &Tensor| looped(x).square().sum(..);
    let v = x.cos();
    close(&hvp(loss, &x, &v), &hvp(loss_of_loop, &x, &v));
    close(&jvp(doubled, &x, &v).1, &jvp(looped, &x, &v).1);
    let lanes = [1.0, 0.1, 20.0].map(|s| &x * s);
    let all = Tensor::stack(&lanes.iter().collect::<Vec<_>>(), 0);
    let each = |f: &dyn Fn(&Tensor) -> Tensor| {
        let outs = lanes.each_ref().map(f);
        Tensor::stack(&outs.iter().collect::<Vec<_>>(), 0)
    };
    close(&vmap(doubled)(&all), &each(&looped));
    close(&vmap(grad(loss))(&all), &each(&|x| grad(loss_of_loop)(x)));
    close(&jacfwd(grad(loss))(&x), &hessian(loss_of_loop)(&x));
    let hvps = vmap(|x: &Tensor| hvp(loss, x, &v));
    close(&hvps(&all), &each(&|x| hvp(loss_of_loop, x, &v)));
}

#[test]
fn reverse_mode_of_the_gradient_of_a_while_loop_is_refused() {
    let f = |x: &Tensor| -> Result<Tensor> {
        while_loop(
            |y: &Tensor| y.lt(Tensor::from(9.0f64)),
            |y: &Tensor| -> Result<Tensor> { Ok(y * x) },
            x,
        )
    };
    let x = Tensor::from(2.0f64);
    let first = |x: &Tensor| -> Result<Tensor> { grad(f)(x) };
    assert_eq!(first(&x).unwrap().item::<f64>(), 32.0);
    let error = grad(first)(&x).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`while_loop`: its gradient cannot be differentiated in reverse mode: use forward mode, as `hvp` and `jvp` do, or a loop with a known number of turns, such as `scan`"
    );
}

#[test]
fn a_conditional_computes_the_branch_that_is_taken() {
    for flag in [true, false] {
        let p = Tensor::from(flag);
        let chosen = |x: &Tensor| {
            let y = x.exp();
            cond(
                &p,
                |x: &Tensor| (x * &y).sin(),
                |x: &Tensor| x / 2.0 + x.square(),
                x,
            )
        };
        let plain = |x: &Tensor| match flag {
            true => (x * x.exp()).sin(),
            false => x / 2.0 + x.square(),
        };
        same_in_reverse(chosen, plain, &values(3));
    }
    for i in -1..4i64 {
        let [f, g, h] = [0, 1, 2].map(|n| {
            move |x: &Tensor| match n {
                0 => x.sin(),
                1 => x.square(),
                _ => x.exp(),
            }
        });
        let chosen = |x: &Tensor| switch(&Tensor::from(i), &[&f, &g, &h], x);
        let plain = |x: &Tensor| match i {
            ..=0 => x.sin(),
            1 => x.square(),
            _ => x.exp(),
        };
        same_in_reverse(chosen, plain, &values(2));
    }
    // A condition that differs between lanes.
    let sign = |x: &Tensor| {
        let positive = x.sum(..).gt(Tensor::from(0.0f64));
        cond(&positive, |x: &Tensor| x * 2.0, |x: &Tensor| x.square(), x)
    };
    let xs = Tensor::from([[1.0f64, 2.0], [-1.0, -3.0], [1.0, -1.0]]);
    assert_eq!(
        vmap(sign)(&xs).to_vec::<f64>(),
        [2.0, 4.0, 1.0, 9.0, 1.0, 1.0]
    );
    let slopes = vmap(grad(|x: &Tensor| sign(x).sum(..)));
    assert_eq!(
        slopes(&xs).to_vec::<f64>(),
        [2.0, 2.0, -2.0, -6.0, 2.0, -2.0]
    );
    let shared = Vmap::new(|(p, x): &(Tensor, Tensor)| {
        cond(p, |x: &Tensor| x * 2.0, |x: &Tensor| x.square(), x)
    });
    let out = shared
        .in_axes((None, 0))
        .call(&(Tensor::from(false), xs.clone()));
    close(&out, &xs.square());
}

#[test]
fn a_branch_that_is_not_taken_does_not_spoil_the_gradient() {
    let log = |x: &Tensor| {
        let zero = x.zeros_like();
        cond(
            &x.gt(&zero),
            |x: &Tensor| x.log(),
            |x: &Tensor| x.zeros_like(),
            x,
        )
    };
    assert_eq!(grad(log)(&Tensor::from(0.0f32)).item::<f32>(), 0.0);
    assert_eq!(grad(log)(&Tensor::from(4.0f32)).item::<f32>(), 0.25);
}

#[test]
fn checkpoints_have_the_same_derivatives() {
    let w = values(4).reshape([2, 2]);
    let block = |x: &Tensor| (x.matmul(&w).tanh() * x).exp();
    same_in_reverse(checkpoint(block), block, &values(2));
}

#[test]
fn a_map_is_a_loop_without_state() {
    let f = |x: &Tensor| x.softmax(-1) * x.sum(..);
    let x = values(6).reshape([3, 2]);
    same_in_reverse(|x: &Tensor| map(f, x), |x: &Tensor| vmap(f)(x), &x);
}

#[test]
fn loops_of_length_zero_return_their_start() {
    let none = Tensor::zeros([0, 2], DType::F32);
    let start = Tensor::from([1.0f32, 2.0]);
    let (last, all) = scan(|h: &Tensor, x: &Tensor| (h * x, h.sum(..)), &start, &none);
    assert_eq!(last.to_vec::<f32>(), [1.0, 2.0]);
    assert_eq!(all.shape(), [0]);
    let through = |x: &Tensor| {
        scan(|h: &Tensor, x: &Tensor| (h * x, ()), x, &none)
            .0
            .sum(..)
    };
    assert_eq!(grad(through)(&start).to_vec::<f32>(), [1.0, 1.0]);
    let end = 1;
    assert_eq!(
        fori_loop(3..end, |_: &Tensor, h: &Tensor| h * 2.0, &start).to_vec::<f32>(),
        [1.0, 2.0]
    );
}

#[test]
fn states_of_several_dtypes_travel_together() {
    let start = (
        Tensor::from(0i32),
        Tensor::from(true),
        Tensor::from([0.5f64, 1.0]),
    );
    let (n, flag, x) = fori_loop(
        0..5,
        |_: &Tensor, (n, flag, x): &(Tensor, Tensor, Tensor)| {
            (
                n + Tensor::from(2i32),
                flag.eq(Tensor::from(false)),
                x * 2.0,
            )
        },
        &start,
    );
    assert_eq!(n.item::<i32>(), 10);
    assert!(!flag.item::<bool>());
    assert_eq!(x.to_vec::<f64>(), [16.0, 32.0]);
}

#[test]
fn keys_are_split_in_a_loop() {
    let draw = |key: &Key| key.duplicate().normal([2], DType::F64);
    let keys = Key::new(3).split_lanes(4);
    assert_eq!(
        map(draw, &keys).to_vec::<f64>(),
        vmap(draw)(&keys).to_vec::<f64>()
    );
    let walk = |key: &Key, _: &()| {
        let (now, next) = key.duplicate().split();
        (next, now.normal([], DType::F64))
    };
    let (_, all) = Scan::new(walk).turns(3).call(&Key::new(1), &());
    let mut key = Key::new(1);
    let one_by_one = (0..3).map(|_| {
        let (now, next) = std::mem::replace(&mut key, Key::new(0)).split();
        key = next;
        now.normal([], DType::F64).item::<f64>()
    });
    assert_eq!(all.to_vec::<f64>(), one_by_one.collect::<Vec<_>>());
}

#[test]
fn a_loop_that_fails_names_the_op() {
    let x = Tensor::from([1i32, 2, 0]);
    let f = |h: &Tensor, x: &Tensor| (h / x, ());
    let (last, ()) = scan(f, &Tensor::from(10i32), &x);
    let error = gradloom::evaluate(&last).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`div`: integer division by 0 at element 0"
    );
    let label = |i: &Tensor| Tensor::from([[1.0f32, 2.0]]).cross_entropy(i);
    let ys = map(label, &Tensor::from([[0i64], [5]]));
    let error = gradloom::evaluate(&ys).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Label {
                op: "cross_entropy",
                label: 5,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn misfits_are_errors() {
    let text = |error: Error| error.to_string();
    let step = |h: &Tensor, x: &Tensor| -> Result<(Tensor, Tensor)> { Ok((h + x, h.clone())) };
    let x = Tensor::from([[1.0f32, 2.0]]);
    let grown = scan(step, &Tensor::from(0.0f32), &x).unwrap_err();
    insta::assert_snapshot!(text(grown), @"the next state of `carry` is f32[2], expected f32[]");
    let one = scan(step, &Tensor::from(0.0f32), &Tensor::from(0.0f32)).unwrap_err();
    insta::assert_snapshot!(text(one), @"`scan`: `xs` is f32[], which has no axis 0 for the turns");
    let pair = |h: &Tensor, _: &(Tensor, Tensor)| -> Result<(Tensor, Tensor)> {
        Ok((h.clone(), h.clone()))
    };
    let xs = (Tensor::from([1.0f32]), Tensor::from([1.0f32, 2.0]));
    let differ = scan(pair, &Tensor::from(0.0f32), &xs).unwrap_err();
    insta::assert_snapshot!(text(differ), @"`scan`: the numbers of turns differ: 1 in `xs.0`, 2 in `xs.1`");
    let none = |h: &Tensor, (): &()| -> Result<(Tensor, Tensor)> { Ok((h.clone(), h.clone())) };
    let endless = scan(none, &Tensor::from(0.0f32), &()).unwrap_err();
    insta::assert_snapshot!(text(endless), @"`scan`: no operand has slices, so give the number of turns by `turns`");
    let reads = |h: &Tensor, _: &Tensor| -> Result<(Tensor, Tensor)> {
        Ok((h * h.try_item::<f32>()?, h.clone()))
    };
    let read = scan(reads, &Tensor::from(0.0f32), &Tensor::from([1.0f32])).unwrap_err();
    insta::assert_snapshot!(text(read), @"this value differs between the lanes of `vmap`, the turns of a loop or the devices of `shard_map`, so it cannot be read there: write `select` or `cond` for a choice, and return what you want to read");
    let f = |x: &Tensor| -> Result<Tensor> { Ok(x.clone()) };
    let number = cond(&Tensor::from(1.0f32), f, f, &x).unwrap_err();
    insta::assert_snapshot!(text(number), @"`cond`: the condition is f32[], expected bool[]");
    let g = |x: &Tensor| -> Result<Tensor> { Ok(x.sum(0)) };
    let other = cond(&Tensor::from(true), f, g, &x).unwrap_err();
    insta::assert_snapshot!(text(other), @"the branch of `result` is f32[1, 2], expected f32[2]");
    let empty = &[&f as &dyn Fn(&Tensor) -> Result<Tensor>][..0];
    insta::assert_snapshot!(text(switch(&Tensor::from(0i32), empty, &x).unwrap_err()), @"`switch`: there is no branch");
    let half = switch(&Tensor::from(0.5f32), &[&f], &x).unwrap_err();
    insta::assert_snapshot!(text(half), @"`switch`: the index is f32[], expected i32[] or i64[]");
    let long = while_loop(|x: &Tensor| x.gt(x.zeros_like()), f, &x).unwrap_err();
    insta::assert_snapshot!(text(long), @"`while_loop`: the condition is bool[1, 2], expected bool[]");
}

#[test]
fn a_rule_of_the_user_replaces_the_derivative() {
    // The rules are those of other functions, so that it shows which derivative is taken.
    let sine = |x: &Tensor| x.sin();
    let plus = |x: &Tensor| x.sin() + x * 2.0;
    let x = values(3);
    let c = Tensor::from([2.0f64, 3.0, 4.0]);
    let forward = custom_jvp(sine, |x: &Tensor, _: &Tensor, dx: &Tensor| {
        dx * x.cos() + dx * 2.0
    });
    close(&forward(&x), &x.sin());
    close(&jvp(&forward, &x, &c).1, &jvp(plus, &x, &c).1);
    let sum = |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| (f(x) * &c).sum(..);
    close(
        &grad(|x: &Tensor| sum(&forward, x))(&x),
        &grad(|x: &Tensor| sum(&plus, x))(&x),
    );
    close(
        &hvp(|x: &Tensor| sum(&forward, x), &x, &c),
        &hvp(|x: &Tensor| sum(&plus, x), &x, &c),
    );
    let twice = |f: &dyn Fn(&Tensor) -> Tensor| {
        grad(|x: &Tensor| grad(|x: &Tensor| sum(f, x))(x).square().sum(..))(&x)
    };
    close(&twice(&forward), &twice(&plus));
    let lanes = Tensor::stack(&[&x, &c], 0);
    let per_lane = |f: &dyn Fn(&Tensor) -> Tensor| vmap(grad(|x: &Tensor| sum(f, x)))(&lanes);
    close(&per_lane(&forward), &per_lane(&plus));
    let of_lanes =
        |f: &dyn Fn(&Tensor) -> Tensor| grad(|x: &Tensor| vmap(f)(x).square().sum(..))(&lanes);
    let rule = custom_jvp(
        |x: &Tensor| x.sin() + x * 2.0,
        |x: &Tensor, _: &Tensor, dx: &Tensor| dx * (x.cos() + 2.0),
    );
    close(&of_lanes(&rule), &of_lanes(&plus));

    let backward = custom_vjp(
        |x: &Tensor| x.sin() + x * 2.0,
        |x: &Tensor| (x.sin() + x * 2.0, (x.clone(), x.cos())),
        |(_, cos): &(Tensor, Tensor), ct: &Tensor| ct * (cos + 2.0),
    );
    close(
        &grad(|x: &Tensor| sum(&backward, x))(&x),
        &grad(|x: &Tensor| sum(&plus, x))(&x),
    );
    close(&twice(&backward), &twice(&plus));
    close(
        &hvp(|x: &Tensor| sum(&backward, x), &x, &c),
        &hvp(|x: &Tensor| sum(&plus, x), &x, &c),
    );
    close(&per_lane(&backward), &per_lane(&plus));
    close(&of_lanes(&backward), &of_lanes(&plus));
    // In a loop, and with an argument that lanes share.
    let looped = |f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor| {
        fori_loop(0..3, |_: &Tensor, y: &Tensor| f(y), x).sum(..)
    };
    close(
        &grad(|x: &Tensor| looped(&backward, x))(&x),
        &grad(|x: &Tensor| looped(&plus, x))(&x),
    );
    close(
        &grad(|x: &Tensor| looped(&rule, x))(&x),
        &grad(|x: &Tensor| looped(&plus, x))(&x),
    );
    let product = custom_vjp(
        |(x, y): &(Tensor, Tensor)| x * y,
        |(x, y): &(Tensor, Tensor)| (x * y, (x.clone(), y.clone())),
        |(x, y): &(Tensor, Tensor), ct: &Tensor| (ct * y, ct * x),
    );
    let shared = |x: &Tensor| {
        Vmap::new(&product)
            .in_axes((None, 0))
            .call(&(x.clone(), lanes.clone()))
            .square()
            .sum(..)
    };
    close(
        &grad(shared)(&x),
        &grad(|x: &Tensor| (x * &lanes).square().sum(..))(&x),
    );
}

#[test]
fn a_checkpoint_keeps_the_results_of_chosen_ops() {
    let w = Tensor::from([[0.5f64, 1.0], [-1.0, 0.25]]);
    let f = |x: &Tensor| x.sin().matmul(&w).tanh().matmul(&w).exp();
    let (x, v) = (
        Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]),
        Tensor::from([[1.0f64, 0.5], [-1.0, 2.0]]),
    );
    let expected = grad(|x: &Tensor| f(x).sum(..))(&x);
    let second = hvp(|x: &Tensor| f(x).sum(..), &x, &v);
    for keep in [&[][..], &["matmul"], &["sin", "tanh", "exp"], &["identity"]] {
        let block = Checkpoint::new(f).keep(keep);
        close(&block.call(&x), &f(&x));
        close(
            &jvp(|x: &Tensor| block.call(x), &x, &v).1,
            &jvp(f, &x, &v).1,
        );
        let sum = |x: &Tensor| block.call(x).sum(..);
        close(&grad(sum)(&x), &expected);
        close(&hvp(sum, &x, &v), &second);
        let twice = grad(|x: &Tensor| (grad(sum)(x) * &v).sum(..))(&x);
        close(&twice, &second);
        let each = vmap(grad(sum))(&x);
        close(&each, &grad(|x: &Tensor| vmap(f)(x).sum(..))(&x));
    }
    let block = Checkpoint::new(|x: &Tensor| -> Result<Tensor> { Ok(x.exp()) }).keep(&["dot"]);
    insta::assert_snapshot!(block.call(&x).unwrap_err(), @"`checkpoint`: no op has the name `dot`: the names to keep are those that a program prints, such as `matmul`");
}

/// Row S1.35a of the requirements.
#[test]
fn the_result_has_the_derivative_of_its_rule_to_all_orders() {
    // Straight through a step: the derivative is 1, and not the 0 of `round`.
    let round = custom_jvp(
        |x: &Tensor| x.round(),
        |_: &Tensor, _: &Tensor, dx: &Tensor| dx.clone(),
    );
    let f = |x: &Tensor| (round(x).square() * round(x)).sum(..);
    let (x, v) = (Tensor::from([1.25f64, 2.75]), Tensor::from([1.0f64, -10.0]));
    assert_eq!(grad(f)(&x).to_vec::<f64>(), [3.0, 27.0]);
    let forward_over_reverse = hvp(f, &x, &v);
    let reverse_over_forward = grad(|x: &Tensor| jvp(f, x, &v).1)(&x);
    let reverse_over_reverse = grad(|x: &Tensor| (grad(f)(x) * &v).sum(..))(&x);
    let forward_over_forward =
        |u: &Tensor| jvp(|x: &Tensor| jvp(f, x, &v).1, &x, u).1.item::<f64>();
    for second in [
        forward_over_reverse,
        reverse_over_forward,
        reverse_over_reverse,
    ] {
        assert_eq!(second.to_vec::<f64>(), [6.0, -180.0]);
    }
    assert_eq!(forward_over_forward(&Tensor::from([1.0f64, 0.0])), 6.0);
    // The rule reads the result, whose derivative is that of the rule, too: y' = 2 y, y'' = 4 y.
    let growth = custom_jvp(
        |x: &Tensor| x.round(),
        |_: &Tensor, y: &Tensor, dx: &Tensor| y * dx * 2.0,
    );
    let g = |x: &Tensor| growth(x).sum(..);
    assert_eq!(hvp(g, &x, &v).to_vec::<f64>(), [4.0, -120.0]);
    let reverse_over_forward = grad(|x: &Tensor| jvp(g, x, &v).1)(&x);
    assert_eq!(reverse_over_forward.to_vec::<f64>(), [4.0, -120.0]);
}

#[test]
fn misfits_of_rules_are_errors() {
    let x = Tensor::from([1.0f32, 2.0]);
    let f = |x: &Tensor| -> Result<Tensor> { Ok(x * 2.0) };
    let short = custom_jvp(f, |_: &Tensor, _: &Tensor, dx: &Tensor| dx.sum(..))(&x).unwrap_err();
    insta::assert_snapshot!(short, @"the tangent of `result` is f32[], expected f32[2]");
    let back = custom_vjp(
        f,
        |x: &Tensor| (x * 2.0, ()),
        |_: &(), ct: &Tensor| ct.sum(..),
    );
    insta::assert_snapshot!(back(&x).unwrap_err(), @"the cotangent of `argument` is f32[], expected f32[2]");
    let rule = custom_vjp(
        f,
        |x: &Tensor| (x * 2.0, ()),
        |_: &(), ct: &Tensor| ct * 2.0,
    );
    let ahead = jvp(|x: &Tensor| rule(x), &x, &x).unwrap_err();
    insta::assert_snapshot!(ahead, @"`custom_vjp`: it has a rule for reverse mode only: use `grad` or `vjp`, or give a rule for forward mode by `custom_jvp` or `#[traced(jvp = ..)]`");
    let captures = |w: &Tensor| -> Result<Tensor> {
        let f = |x: &Tensor| -> Result<Tensor> { Ok(x * w) };
        Ok(custom_jvp(f, |_: &Tensor, _: &Tensor, dx: &Tensor| dx * w)(&x)?.sum(..))
    };
    let captured = grad(captures)(&x).unwrap_err();
    insta::assert_snapshot!(captured, @"`custom_jvp`: a function captures f32[2], which a transform traces: pass it as an argument");
}

#[test]
fn a_rule_that_is_not_linear_in_its_tangent_is_refused() {
    let x = Tensor::from([1.0f64, -2.0]);
    let f = |x: &Tensor| -> Result<Tensor> { Ok(x * 2.0) };
    let squares = custom_jvp(f, |_: &Tensor, _: &Tensor, dx: &Tensor| dx.square())(&x);
    insta::assert_snapshot!(squares.unwrap_err(), @"`custom_jvp`: the rule is not linear in the tangent of the argument, because of `square`");
    let sizes = custom_jvp(f, |_: &Tensor, _: &Tensor, dx: &Tensor| dx.abs())(&x);
    insta::assert_snapshot!(sizes.unwrap_err(), @"`custom_jvp`: the rule is not linear in the tangent of the argument, because of `abs`");
    // The condition is not a tangent, and each branch is linear.
    let branches = custom_jvp(
        |x: &Tensor| x.sum(..),
        |x: &Tensor, _: &Tensor, dx: &Tensor| {
            let operands = (x.clone(), dx.clone());
            let (twice, dot) = (
                |(_, dx): &(Tensor, Tensor)| dx.sum(..) * 2.0,
                |(x, dx): &(Tensor, Tensor)| (x * dx).sum(..),
            );
            cond(&x.sum(..).gt(0.0), twice, dot, &operands)
        },
    );
    assert_eq!(grad(branches)(&x).to_vec::<f64>(), [1.0, -2.0]);
}

/// A state that a turn changes in place must not change what the turn reads besides.
mod in_place {
    use gradloom::prelude::*;
    use gradloom::{fori_loop, grad, scan, while_loop};

    fn rows() -> Tensor {
        Tensor::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    }

    /// Returns the states after `n` turns on the host, each realised before the next.
    fn on_host<S: Tree + Clone>(n: i64, first: &S, turn: impl Fn(&Tensor, &S) -> S) -> S {
        (0..n).fold(first.clone(), |state, i| {
            let state = turn(&Tensor::from(i), &state);
            gradloom::evaluate(&state).unwrap();
            state
        })
    }

    fn check<S: Tree + Clone>(first: &S, turn: impl Fn(&Tensor, &S) -> S) {
        for n in 0..5 {
            let expected = on_host(n, first, &turn);
            let found = fori_loop(0..n, &turn, first);
            let elements = |state: &S| -> Vec<Vec<f64>> {
                let leaves = gradloom::tree::leaves_with_paths(state);
                let of = |(_, x): &(String, Tensor)| x.cast(DType::F64).to_vec::<f64>();
                leaves.iter().map(of).collect()
            };
            assert_eq!(elements(&found), elements(&expected), "{n} turns");
        }
    }

    #[test]
    fn rows_are_replaced_at_indices_and_in_windows() {
        let y = Tensor::from([7.0, 8.0]);
        check(&rows(), |i, x: &Tensor| {
            x.scatter_set(i.rem(3), &(&y * i), 0)
        });
        check(&rows(), |i, x: &Tensor| {
            x.dynamic_update_slice(i, y.reshape([1, 2]))
        });
        check(&rows(), |_, x: &Tensor| {
            x.set((1, ..), &(x.row(0) + x.row(1)))
        });
    }

    #[test]
    fn the_old_state_may_be_read_before_and_after() {
        // A view of the state is the update.
        check(&rows(), |_, x: &Tensor| x.set((0..2, ..), x.i((1..3, ..))));
        // The old state is read by what follows.
        check(&rows(), |i, x: &Tensor| {
            let y = x.scatter_set(i.rem(3), x.row(0), 0);
            &y + x
        });
        check(&(rows(), rows()), |i, (x, sum)| {
            let y = x.scatter_add(i.rem(3), x.row(2), 0);
            (y, sum + x)
        });
        // The old state is the next value of another.
        check(&(rows(), rows() * 2.0), |i, (x, before)| {
            (x.scatter_add(i.rem(3), before.row(1), 0), x.clone())
        });
    }

    #[test]
    fn states_that_change_places_or_stay_are_right() {
        check(&(rows(), rows() * 2.0), |_, (x, y)| (y + 1.0, x.clone()));
        check(&(rows(), rows() * 2.0), |i, (x, y)| (x.clone(), x * i + y));
        check(&(rows(), rows() * 2.0), |_, (x, y)| (x + y, x + y));
        let mask = Tensor::from([true, false, true]);
        check(&(mask, rows()), |i, (mask, x)| {
            let hit = mask.take(i.rem(3), 0);
            let x = hit.select(&(x + 1.0), x);
            (mask.scatter_set((i + 1).rem(3), &hit, 0), x)
        });
    }

    #[test]
    fn stacked_results_keep_the_state_of_their_turn() {
        let ys = Tensor::from([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]);
        let (last, all) = scan(
            |x: &Tensor, y: &Tensor| {
                let next = x.set((0, ..), &(x.row(0) + y));
                (next.clone(), (x.clone(), next))
            },
            &rows(),
            &ys,
        );
        let (before, after) = all;
        let first = |x: &Tensor| x.i((.., 0, 0)).to_vec::<f64>();
        assert_eq!(first(&before), [1.0, 2.0, 4.0]);
        assert_eq!(first(&after), [2.0, 4.0, 7.0]);
        assert_eq!(last.row(0).to_vec::<f64>(), [7.0, 8.0]);
    }

    #[test]
    fn a_condition_reads_a_state_that_is_changed_in_place() {
        let goes_on = |x: &Tensor| x.sum(..).lt(40.0);
        let body = |x: &Tensor| x.set((1, ..), &(x.row(1) * 2.0));
        let found = while_loop(goes_on, body, &rows());
        assert_eq!(found.row(1).to_vec::<f64>(), [12.0, 16.0]);
        assert_eq!(found.row(0).to_vec::<f64>(), [1.0, 2.0]);
    }

    #[test]
    fn gradients_of_rows_are_those_of_the_whole() {
        let by_row = |x: &Tensor| {
            let body = |i: &Tensor, s: &Tensor| s + (x.take(i.rem(3), 0) * (i + 1)).sin().sum(..);
            fori_loop(0..5i64, body, &Tensor::from(0.0))
        };
        let unrolled = |x: &Tensor| {
            let turn = |s: Tensor, i: i64| s + (x.row(i % 3) * (i + 1) as f64).sin().sum(..);
            (0..5).fold(Tensor::from(0.0), turn)
        };
        let (a, b) = (grad(by_row)(&rows()), grad(unrolled)(&rows()));
        let x = rows().to_vec::<f64>();
        for (at, (a, b)) in a.to_vec::<f64>().iter().zip(b.to_vec::<f64>()).enumerate() {
            let of = |i: usize| ((i + 1) as f64) * (x[at] * (i + 1) as f64).cos();
            let expected: f64 = (0..5).filter(|i| i % 3 == at / 2).map(of).sum();
            assert!((a - expected).abs() < 1e-12 && (b - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn parts_of_every_kind_add_up_to_the_gradient() {
        let starts = Tensor::from([1i64]);
        let f = |x: &Tensor| {
            let parts = [
                x.row(-1).sum(..),
                x.select_index(1, -2).square().sum(..),
                (x.i((1.., ..)) * 3.0).sum(..),
                x.slice([-1, 0], [0, 2], [-1, 1]).square().sum(..),
                x.dynamic_slice(&starts, [2]).square().sum(..),
                (x.take(Tensor::from([2i64, 2, 0]), 0) * 5.0).sum(..),
                x.square().sum(..),
            ];
            parts.iter().fold(Tensor::from(0.0), |s, part| s + part)
        };
        let found = grad(f)(&rows()).to_vec::<f64>();
        let x = rows().to_vec::<f64>();
        for (at, found) in found.iter().enumerate() {
            let (row, column) = (at / 2, at % 2);
            let mut expected = 2.0 * x[at];
            expected += if row == 2 { 1.0 } else { 0.0 };
            expected += if column == 0 { 2.0 * x[at] } else { 0.0 };
            expected += if row >= 1 {
                3.0 + 2.0 * x[at] + 2.0 * x[at]
            } else {
                0.0
            };
            expected += [5.0, 0.0, 10.0][row];
            assert_eq!(*found, expected, "element {at}");
        }
    }

    #[test]
    fn a_repeated_row_has_the_gradient_of_all_its_reads() {
        let x = Tensor::from([[1.0, 2.0, 3.0]]);
        let i = Tensor::from([[0i64], [2]]);
        let j = Tensor::from([[1i64], [1]]);
        let f = |x: &Tensor| x.take_along_axis(&i, 1).sum(..) + x.take_along_axis(&j, 1).sum(..);
        assert_eq!(grad(f)(&x).to_vec::<f64>(), [1.0, 2.0, 1.0]);
        let body = |x: &Tensor| {
            let turn = |_: &Tensor, s: &Tensor| s + x.take_along_axis(&i, 1).sum(..);
            fori_loop(0..3i64, turn, &Tensor::from(0.0))
        };
        assert_eq!(grad(body)(&x).to_vec::<f64>(), [3.0, 0.0, 3.0]);
        let ids = Tensor::from([0i64, 1]);
        let look_up = |w: &Tensor| {
            let lane = |i: &Tensor| (w.take(i, 0) * w.take(&(i + 1), 0)).sum(..);
            gradloom::vmap(lane)(&ids).sum(..)
        };
        let found = grad(look_up)(&rows()).to_vec::<f64>();
        assert_eq!(found, [3.0, 4.0, 6.0, 8.0, 3.0, 4.0]);
    }

    #[test]
    fn the_bits_of_a_sum_do_not_depend_on_what_is_computed() {
        #[traced]
        fn of_rows(x: &Tensor, #[nodiff] i: &Tensor, scales: &[f32]) -> Tensor {
            let mut sum = Tensor::from(0.0f32);
            for scale in scales {
                sum += (x.take(i, 0) * *scale).sum(..);
                sum += (x.row(0) * *scale).sum(..);
                sum += (x.i((1.., ..)) * -0.0f32).sum(..);
            }
            sum
        }
        let x = Tensor::from([[0.0f32], [1.0], [2.0]]);
        let (i, scales) = (Tensor::from([0i64, 0]), [1.0f32, 8388608.0]);
        gradloom::testing::lazy_equals_op_by_op(|| of_rows::grad(&x, &i, &scales).x).unwrap();
    }

    #[test]
    fn a_wrong_index_leaves_the_state_and_its_operand() {
        let x = rows();
        let bad = fori_loop(
            0..4i64,
            |i: &Tensor, x: &Tensor| x.scatter_set(i, x.row(0), 0),
            &x,
        );
        assert!(gradloom::evaluate(&bad).is_err());
        assert_eq!(x.to_vec::<f64>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}

#[test]
fn explain_lists_the_tasks_of_a_turn() {
    let (x, w) = (values(4), values(4));
    let step = |h: &Tensor, x: &Tensor| ((h * x).sin(), h.sum(..));
    let inner = |h: &Tensor, x: &Tensor| scan(step, h, &Tensor::stack(&[x, x], 0));
    let xs = Tensor::stack(&[&w, &w, &w], 0);
    let plan = gradloom::explain(&scan(inner, &x, &xs).1);
    let lines: Vec<&str> = plan
        .lines()
        .map(|line| line.split(':').next().unwrap_or(line))
        .collect();
    let at = lines
        .iter()
        .position(|line| line.trim_start().ends_with("scan"));
    insta::assert_snapshot!(lines[at.expect(&plan)..].join("\n"));
}
