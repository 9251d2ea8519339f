//! Shape annotations. Inferred shapes agree with the run time, and the macro rejects no program
//! that would run. Annotations are checked at each call of the function and its companions.

#![allow(non_snake_case)]

use gradloom::evaluate;
use gradloom::prelude::*;
use gradloom_tests::graphs::Rng;
use gradloom_tests::panics::panic_of;
use insta::assert_snapshot;

/// A function with annotations, called with lengths for its dims.
struct Case {
    name: &'static str,
    program: &'static str,
    /// Calls the function, and returns the annotated shape of the result and its actual shape.
    run: fn([usize; 4]) -> [Vec<usize>; 2],
}

/// Defines functions with fully annotated dims, and a list of them.
macro_rules! functions {
    ($list:ident, $names:tt; $($name:ident($($x:ident: [$($dims:tt)*]),*) -> [$($out:tt)*] { $($body:tt)* })*) => {
        $(functions!(@one $names $name ($($x [$($dims)*])*) [$($out)*] { $($body)* });)*
        const $list: &[Case] = &[$(Case {
            name: stringify!($name),
            program: $name::PROGRAM,
            run: $name::run,
        }),*];
    };
    (@one ($($n:ident)*) $name:ident ($($x:ident [$($dims:tt)*])*) [$($out:tt)*] { $($body:tt)* }) => {
        #[traced(returns(f32; $($out)*), allow(unused_parameter))]
        fn $name($(#[shape(f32; $($dims)*)] $x: &Tensor),*) -> Tensor { $($body)* }

        impl $name {
            #[allow(unused_variables)]
            fn run([$($n),*]: [usize; 4]) -> [Vec<usize>; 2] {
                $(let $x = numbers(&[$($dims)*]);)*
                let y = $name($(&$x),*);
                evaluate(&y).expect("the result can be computed");
                let (z, _) = $name::vjp($(&$x),*);
                assert_eq!(z.shape(), y.shape());
                [vec![$($out)*], y.shape().to_vec()]
            }
        }
    };
}

/// Returns numbers between 0.5 and 1.5.
fn numbers(shape: &[usize]) -> Tensor {
    let len: usize = shape.iter().product();
    let values = (0..len).map(|i| 0.5 + (i * 7 % 11) as f32 / 11.0);
    Tensor::from_vec(values.collect(), shape)
}

functions! { FUNCTIONS, (B I O T);
    same(x: [B, I]) -> [B, I] { x.tanh() }
    negative(x: [B]) -> [B] { -x }
    dense(x: [B, I], w: [I, O], b: [O]) -> [B, O] { (x.matmul(w) + b).relu() }
    two_layers(x: [B, 5], w: [5, I], v: [I, O]) -> [B, O] { x.matmul(w).tanh().matmul(v) }
    row_by_matrix(x: [I], w: [I, O]) -> [O] { x.matmul(w) }
    matrix_by_column(x: [B, I], w: [I]) -> [B] { x.matmul(w) }
    inner(x: [I], w: [I]) -> [] { x.matmul(w) }
    batches(x: [T, B, I], w: [I, O]) -> [T, B, O] { x.matmul(w) }
    batches_by_batches(x: [T, B, I], w: [T, I, O]) -> [T, B, O] { x.matmul(w) }
    scores(q: [T, I], k: [B, I]) -> [T, B] { q.matmul(k.transpose()).softmax(-1) }
    attention(q: [T, I], k: [B, I], v: [B, O]) -> [T, O] { q.matmul(k.t()).softmax(-1).matmul(v) }
    broadcast_column(x: [B, I], c: [B, 1]) -> [B, I] { x * c }
    broadcast_row(x: [B, I], r: [1, I]) -> [B, I] { x - r }
    outer(x: [B, 1], y: [1, O]) -> [B, O] { x * y }
    broadcast_rank(x: [T, B, I], r: [I]) -> [T, B, I] { x / r }
    broadcast_number(x: [B, I], a: []) -> [B, I] { a * x + 1.0 }
    chosen(x: [B, I], y: [B, I]) -> [B, I] { x.gt(y).select(x, y) }
    chosen_by_row(x: [B, I], y: [I]) -> [B, I] { x.gt(y).select(x, y) }
    larger(x: [B, I], y: [B, 1]) -> [B, I] { x.maximum(y) }
    total(x: [B, I]) -> [] { x.sum(..) }
    total_of_unknown_rank(x: [T, B, I, O]) -> [] { x.mean(..) }
    over_rows(x: [B, I]) -> [I] { x.sum(0) }
    over_columns(x: [B, I]) -> [B] { x.mean(-1) }
    over_two(x: [T, B, I]) -> [B] { x.sum([0, 2]) }
    kept(x: [B, I]) -> [B, 1] { x.max_keepdims(1) }
    centred(x: [B, I]) -> [B, I] { x - x.mean_keepdims(-1) }
    logarithm(x: [B, I]) -> [B] { x.logsumexp(1) }
    best(x: [B, I]) -> [B] { x.argmax(1).cast(DType::F32) + x.sum(1) }
    turned(x: [B, I]) -> [I, B] { x.transpose() }
    permuted(x: [T, B, I]) -> [I, T, B] { x.permute([2, 0, 1]) }
    swapped(x: [T, B, I]) -> [I, B, T] { x.swap_axes(0, -1) }
    moved(x: [T, B, I]) -> [B, I, T] { x.moveaxis(0, 2) }
    flat(x: [B, I]) -> [B * I] { x.reshape([-1]) }
    flat_but_one(x: [B, 2, 3]) -> [B, 6] { x.reshape([-1, 6]) }
    refilled(x: [B, 6]) -> [2 * B, 3] { x.reshape([-1, 3]) }
    six(x: [2, 3]) -> [3, 2] { x.reshape([3, 2]) }
    from_numbers(x: [B, I]) -> [I, B] { x.reshape([x.dim(1), x.dim(0)]) }
    heads(x: [B, T, 2 * I]) -> [B * T, I] { let (b, t) = (x.dim(0), x.dim(1)); let i = x.dim(-1) / 2; x.reshape([b * t, 2, i]).sum(1) }
    heads_inferred(x: [B, T, 2 * I]) -> [B * T, I] { let n = x.dim(0) * x.dim(1); x.reshape([n as i64, 2, -1]).mean(1) }
    spread_to_another(x: [I], y: [B, T]) -> [B, I] { let b = y.shape()[0]; x.broadcast_to([b, x.numel()]) }
    squeezed(x: [B, 1, I]) -> [B, I] { x.squeeze(1) }
    unsqueezed(x: [B, I]) -> [B, 1, I] { x.unsqueeze(1) }
    spread(x: [3]) -> [2, 3] { x.broadcast_to([2, 3]) }
    like_another(x: [I], y: [B, I]) -> [B, I] { x.broadcast_like(y) }
    joined(x: [B, I], y: [T, I]) -> [B + T, I] { Tensor::concat(&[x, y], 0) }
    joined_to_itself(x: [B, I]) -> [B, 2 * I] { Tensor::concat(&[x, x], 1) }
    joined_to_one(x: [B, I], y: [1, I]) -> [B + 1, I] { Tensor::concat(&[x, y], 0) }
    stacked(x: [B, I], y: [B, I]) -> [2, B, I] { Tensor::stack(&[x, y], 0) }
    stacked_last(x: [B], y: [B], z: [B]) -> [B, 3] { Tensor::stack(&[x, y, z], -1) }
    halves(x: [2 * B, I]) -> [B, I] { let [a, b] = x.split(0); a * b }
    sizes(x: [B, 5]) -> [B, 2] { let parts = x.split_sizes([2, 2, 1], 1); &parts[0] + &parts[1] }
    parts(x: [B, 2]) -> [B] { let [a, b] = x.unbind(1); a - b }
    cut(x: [6, I]) -> [2, I] { x.slice([1], [5], [2]) }
    normal(x: [B, I], w: [I], b: [I]) -> [B, I] { x.layer_norm(w, b, 1e-5) }
    normal_plain(x: [B, I]) -> [B, I] { x.normalize(-1, 1e-3) }
    with_zeros(x: [B, I]) -> [B, I] { x + Tensor::zeros([1], DType::F32) }
    filled(x: [B, I]) -> [B, I] { x.full_like(2.0) * x }
    powers(x: [B, I], p: [I]) -> [B, I] { x.pow(p) }
    shadowed(x: [B, I], w: [I, T]) -> [T, B] { let x = x.matmul(w); let x = x.t(); x.exp() }
    in_a_block(x: [B, I]) -> [I] { let s = { let y = x.square(); y.sum(0) }; s.sqrt() }
    assigned(x: [B, I], w: [I, I]) -> [B, I] { let mut h = x.matmul(w); h += x; h = h.sin(); h }
    in_a_loop(x: [B, I], w: [I, I]) -> [B, I] { let mut h = x.clone(); for _ in 0..3 { h = h.matmul(w).tanh(); } h }
    in_a_branch(x: [B, I]) -> [I] { if x.rank() == 2 { x.sum(0) } else { x.mean(0) } }
    squares(x: [B, B]) -> [B] { x.matmul(x).sum(1) }
}

#[test]
fn inferred_shapes_are_the_computed_shapes() {
    let mut rng = Rng::new(7);
    for case in FUNCTIONS {
        for _ in 0..12 {
            let names = std::array::from_fn(|_| 1 + rng.below(4));
            let [expected, found] = (case.run)(names);
            assert_eq!(
                found, expected,
                "{} at {names:?}\n{}",
                case.name, case.program
            );
        }
    }
    assert!(FUNCTIONS.len() >= 40, "{}", FUNCTIONS.len());
}

#[traced(returns(B, O))]
fn product(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor) -> Tensor {
    x.matmul(w)
}

#[traced(returns(B, 2))]
fn fallible(#[shape(B, 3)] x: &Tensor, #[shape(f32; B, 2)] y: Tensor) -> gradloom::Result<Tensor> {
    Ok(y + x.sum(1).unsqueeze(1))
}

#[traced(returns((B, 1), (f32; ..)))]
fn pair(#[shape(B)] x: &Tensor) -> (Tensor, Tensor) {
    (x.unsqueeze(1), x.clone())
}

#[traced(returns((2 * B, _), _))]
fn doubled(
    #[shape(2 * B, H + 1)] x: &Tensor,
    #[shape(B, H)] y: &Tensor,
    #[nodiff]
    #[shape(i64; B)]
    labels: &Tensor,
    rows: usize,
) -> (Tensor, Tensor) {
    if rows == 0 {
        return (y.clone(), y.clone());
    }
    (x.slice([0, 0], [rows, 1], [1, 1]), y.cross_entropy(labels))
}

/// `2*K` is bound by its first occurrence, because `K` does not occur on its own.
#[traced]
fn even(#[shape(2 * K)] x: &Tensor, #[shape(2 * K)] y: &Tensor) -> Tensor {
    x * y
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced]
impl Layer {
    #[traced(returns(B, 4))]
    fn forward(&self, #[shape(B, I)] x: &Tensor, #[shape(B)] scale: &Tensor) -> Tensor {
        let y = x.matmul(&self.w);
        y * scale.unsqueeze(1)
    }
}

/// The result does not match its annotation, which the macro cannot know.
#[traced(returns(B, N))]
fn crooked(#[shape(B, N)] x: &Tensor, len: usize) -> Tensor {
    x.slice([0], [len], [1])
}

/// Returns the message of a panic, and checks that it is at a line of this file that contains
/// `call`.
fn panic_at(call: &str, f: impl FnOnce()) -> String {
    let (text, file, line) = panic_of(f);
    assert!(file.ends_with("shapes.rs"), "{text}: at {file}:{line}");
    let mut source = include_str!("shapes.rs").lines();
    let found = source
        .nth(line as usize - 1)
        .expect("the panic is in this file");
    assert!(found.contains(call), "{text}: at {found}");
    text
}

#[test]
fn dims_are_bound_by_the_first_argument_that_names_them() {
    let x = numbers(&[4, 3]);
    assert_eq!(product(&x, &numbers(&[3, 2])).shape(), [4, 2]);
    let w = numbers(&[2, 2]);
    let call = panic_at("product(&x, &w)", || drop(product(&x, &w)));
    assert_snapshot!(call, @"`product`: `I` is 3 in axis 1 of `x`, and 2 in axis 0 of `w`");
    // Every companion gives the same message at the line of the call.
    let vjp = panic_at("product::vjp(&x, &w)", || drop(product::vjp(&x, &w)));
    let grad = panic_at("product::grad(&x, &w)", || drop(product::grad(&x, &w)));
    let saved = panic_at("product::saved(&x, &w)", || drop(product::saved(&x, &w)));
    let jvp = panic_at("product::jvp((&x, &w), (&x, &w))", || {
        drop(product::jvp((&x, &w), (&x, &w)))
    });
    let closure = panic_at("product(x, &w)", || {
        drop(gradloom::vjp(|x: &Tensor| product(x, &w), &x))
    });
    for other in [vjp, grad, saved, jvp, closure] {
        assert_eq!(other, call);
    }
}

#[test]
fn ranks_numbers_and_dtypes_are_checked() {
    let (x, y) = (numbers(&[4, 3]), numbers(&[4, 2]));
    let error = |x: &Tensor, y: &Tensor| fallible(x, y.clone()).unwrap_err().to_string();
    assert!(fallible(&x, y.clone()).is_ok());
    assert_snapshot!(error(&numbers(&[4]), &y), @"`fallible`: `x` has rank 1, expected rank 2, as in (B, 3)");
    assert_snapshot!(error(&y, &y), @"`fallible`: axis 1 of `x` is 2, expected 3");
    assert_snapshot!(error(&x, &y.cast(DType::F64)), @"`fallible`: `y` is f64, expected f32");
    assert_snapshot!(error(&x, &numbers(&[5, 2])), @"`fallible`: `B` is 4 in axis 0 of `x`, and 5 in axis 0 of `y`");
    // The companions return the same `Err`.
    let vjp = fallible::vjp(&x, numbers(&[5, 2])).map(drop).unwrap_err();
    let jvp = fallible::jvp((&x, numbers(&[5, 2])), (&x, &numbers(&[5, 2]))).map(drop);
    assert_eq!(vjp, fallible(&x, numbers(&[5, 2])).unwrap_err());
    assert_eq!(jvp.unwrap_err(), vjp);
}

#[test]
fn polynomial_dims_are_checked_once_their_names_are_bound() {
    let labels = Tensor::from([0i64, 1]);
    let (x, y) = (numbers(&[4, 4]), numbers(&[2, 3]));
    let (a, b) = doubled(&x, &y, &labels, 4);
    assert_eq!((a.shape(), b.shape()), (&[4, 1][..], &[][..]));
    let text = panic_at("doubled(&y", || drop(doubled(&y, &y, &labels, 4)));
    assert_snapshot!(text, @"`doubled`: axis 0 of `x` is 2, expected `2*B`, which is 4");
    let wide = numbers(&[4, 5]);
    let text = panic_at("doubled(&wide", || drop(doubled(&wide, &y, &labels, 4)));
    assert_snapshot!(text, @"`doubled`: axis 1 of `x` is 5, expected `H + 1`, which is 4");
    let floats = numbers(&[2]);
    let text = panic_at("doubled(&x, &y, &floats", || {
        drop(doubled(&x, &y, &floats, 4))
    });
    assert_snapshot!(text, @"`doubled`: `labels` is f32, expected i64");

    assert_eq!(even(&numbers(&[4]), &numbers(&[4])).shape(), [4]);
    let text = panic_at("even(&numbers", || {
        drop(even(&numbers(&[4]), &numbers(&[1])))
    });
    assert_snapshot!(text, @"`even`: `2*K` is 4 in axis 0 of `x`, and 1 in axis 0 of `y`");
}

#[test]
fn results_that_the_macro_cannot_infer_are_checked_at_run_time() {
    let labels = Tensor::from([0i64, 1]);
    let (x, y) = (numbers(&[4, 4]), numbers(&[2, 3]));
    // An early return is checked, too.
    let text = panic_at("doubled(&x, &y, &labels, 0)", || {
        drop(doubled(&x, &y, &labels, 0))
    });
    assert_snapshot!(text, @"`doubled`: axis 0 of result 0 is 2, expected `2*B`, which is 4");
    let x = numbers(&[2, 3]);
    assert_eq!(crooked(&x, 2).shape(), [2, 3]);
    let call = panic_at("crooked(&x, 1)", || drop(crooked(&x, 1)));
    assert_snapshot!(call, @"`crooked`: `B` is 2 in axis 0 of `x`, and 1 in axis 0 of the result");
    let vjp = panic_at("crooked::vjp(&x, 1)", || drop(crooked::vjp(&x, 1)));
    let jvp = panic_at("crooked::jvp((&x, 1), &x)", || {
        drop(crooked::jvp((&x, 1), &x))
    });
    assert_eq!((&vjp, &jvp), (&call, &call));
    let (a, b) = pair(&numbers(&[3]));
    assert_eq!((a.shape(), b.shape()), (&[3, 1][..], &[3][..]));
}

#[test]
fn methods_have_annotations_of_their_own() {
    let layer = Layer {
        w: numbers(&[3, 4]),
    };
    let (x, scale) = (numbers(&[2, 3]), numbers(&[2]));
    assert_eq!(layer.forward(&x, &scale).shape(), [2, 4]);
    let narrow = Layer {
        w: numbers(&[3, 3]),
    };
    let call = panic_at("narrow.forward(&x", || drop(narrow.forward(&x, &scale)));
    assert_snapshot!(call, @"`forward`: axis 1 of the result is 3, expected 4");
    let vjp = panic_at("narrow.forward_vjp(&x", || {
        drop(narrow.forward_vjp(&x, &scale))
    });
    assert_eq!(vjp, call);
    let text = panic_at("layer.forward(&x, &x)", || drop(layer.forward(&x, &x)));
    assert_snapshot!(text, @"`forward`: `scale` has rank 2, expected rank 1, as in (B)");
}

/// The shape of `w` is not annotated.
#[traced(returns(B, _))]
fn inside(#[shape(B, _)] x: &Tensor, w: &Tensor) -> Tensor {
    let h = x.sin();
    h.matmul(w)
}

#[test]
fn an_error_of_an_op_in_an_annotated_function_is_at_its_line() {
    let x = numbers(&[2, 3]);
    let call = panic_at("h.matmul(w)", || drop(inside(&x, &x)));
    assert_snapshot!(call, @"matmul: inner dimensions differ: the left operand is f32[2, 3], the right operand is f32[2, 3]");
    panic_at("h.matmul(w)", || drop(inside::vjp(&x, &x)));
    panic_at("h.matmul(w)", || drop(inside::jvp((&x, &x), (&x, &x))));
}
