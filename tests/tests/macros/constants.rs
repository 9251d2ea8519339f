//! Compile-time facts in the binary: cost formulas, named values, and the hash.

use gradloom::prelude::*;
use gradloom::{Cost, Formula, Point, Traced};

/// The book prints the costs of this function in `traced-functions.md`.
#[traced]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    (x.matmul(w) + b).tanh()
}

#[traced]
fn mlp(
    #[shape(B, 784)] x: &Tensor,
    #[shape(784, 128)] w1: &Tensor,
    #[shape(128)] b1: &Tensor,
    #[shape(128, 10)] w2: &Tensor,
    #[shape(10)] b2: &Tensor,
) -> Tensor {
    let h = (x.matmul(w1) + b1).tanh();
    h.matmul(w2) + b2
}

#[traced]
fn total(#[shape(B, 2 * T)] x: &Tensor) -> Tensor {
    let rows = x.sum(1);
    rows.mean(..)
}

#[traced]
fn chain(#[shape(A, B)] a: &Tensor, #[shape(B, C)] b: &Tensor, #[shape(C)] c: &Tensor) -> Tensor {
    a.matmul(b).matmul(c)
}

#[traced]
fn shorter(#[shape(f32; B)] x: &Tensor) -> Tensor {
    x.slice([1], [-1], [1]).exp()
}

#[traced]
fn unknown(x: &Tensor) -> Tensor {
    let y = x.exp();
    y.t()
}

#[traced]
fn caller(#[shape(B)] x: &Tensor) -> Tensor {
    let y = unknown(x);
    y + x
}

#[traced(record)]
fn recorded(#[shape(B)] x: &Tensor) -> Tensor {
    x.exp()
}

/// Its only residual is the result of `tanh`, whose dtype is known from the cast.
#[traced]
fn typed(#[shape(B, T)] x: &Tensor) -> Tensor {
    x.cast(DType::F32).tanh()
}

#[traced]
fn looped(#[shape(B)] x: &Tensor, n: usize) -> Tensor {
    let mut h = x.sin();
    for _ in 0..n {
        let z = h.tanh();
        h = &z * x;
    }
    h
}

#[traced]
fn typed_mlp(
    #[shape(f32; B, I)] x: &Tensor,
    #[shape(f32; I, 4 * H)] w1: &Tensor,
    #[shape(f32; 4 * H, O)] w2: &Tensor,
    #[nodiff]
    #[shape(i64; B)]
    labels: &Tensor,
) -> Tensor {
    let h = x.matmul(w1).tanh();
    h.matmul(w2).cross_entropy(labels)
}

#[derive(Tree)]
struct Scale {
    w: Tensor,
}

#[traced]
impl Scale {
    fn forward(&self, #[shape(B)] x: &Tensor) -> Tensor {
        let y = x.sin();
        y * &self.w
    }
}

fn number(formula: Option<Formula>, dims: &[(&str, u64)]) -> Option<u64> {
    formula.expect("the cost is known").eval(dims)
}

#[test]
fn cost_formulas_agree_with_counts_by_hand() {
    let b = 64;
    let dims = [("B", b)];
    // `2 m k n` for each product, and one for each element of a sum of two tensors.
    let by_hand = 2 * b * 784 * 128 + b * 128 + 2 * b * 128 * 10 + b * 10;
    assert_eq!(number(mlp::COST.value.flops, &dims), Some(by_hand));
    assert_eq!(
        number(mlp::COST.value.transcendentals, &dims),
        Some(b * 128)
    );
    // Two products for each product, one per operand; then `ct (1 - h^2)`, and the sums for the
    // biases.
    let products = 2 * (2 * b * 784 * 128 + 2 * b * 128 * 10);
    let by_hand = products + 3 * b * 128 + b * 128 + b * 10;
    assert_eq!(number(mlp::COST.pullback.flops, &dims), Some(by_hand));
    assert_eq!(number(mlp::COST.pullback.transcendentals, &dims), Some(0));
    // Sum of all elements into rows, sum of the rows, and a division.
    let dims = [("B", 3), ("T", 5)];
    assert_eq!(number(total::COST.value.flops, &dims), Some(30 + 3 + 1));
    let dims = [("A", 2), ("B", 3), ("C", 5)];
    assert_eq!(number(chain::COST.value.flops, &dims), Some(60 + 20));
}

#[test]
fn cost_formulas_are_readable() {
    insta::assert_snapshot!(dense::COST, @r"
    value: 2*B*I*O + B*O flops, B*O transcendentals, ? bytes
    pullback: 4*B*I*O + 4*B*O flops, 0 transcendentals, ? bytes
    saved: ? bytes
    ");
    insta::assert_snapshot!(mlp::COST, @r"
    value: 203402*B flops, 128*B transcendentals, ? bytes
    pullback: 407050*B flops, 0 transcendentals, ? bytes
    saved: ? bytes
    ");
    insta::assert_snapshot!(total::COST, @r"
    value: 2*B*T + B + 1 flops, 0 transcendentals, ? bytes
    pullback: 1 flops, 0 transcendentals, ? bytes
    saved: 0 bytes
    ");
    insta::assert_snapshot!(chain::COST, @r"
    value: 2*A*B*C + 2*A*C flops, 0 transcendentals, ? bytes
    pullback: 4*A*B*C + 4*A*C flops, 0 transcendentals, ? bytes
    saved: ? bytes
    ");
    insta::assert_snapshot!(shorter::COST, @r"
    value: 0 flops, B - 2 transcendentals, 8*B - 16 bytes
    pullback: B - 2 flops, 0 transcendentals, 20*B - 32 bytes
    saved: 4*B - 8 bytes
    ");
    insta::assert_snapshot!(typed::COST, @r"
    value: 0 flops, B*T transcendentals, ? bytes
    pullback: 3*B*T flops, 0 transcendentals, ? bytes
    saved: 4*B*T bytes
    ");
    insta::assert_snapshot!(typed_mlp::COST, @r"
    value: 8*B*H*I + 8*B*H*O + 3*B*O + 3*B flops, 4*B*H + B*O + B transcendentals, 64*B*H + 4*B*I + 8*B*O + 16*H*I + 16*H*O + 8*B + 4 bytes
    pullback: 16*B*H*I + 16*B*H*O + 12*B*H + B*O + 1 flops, 0 transcendentals, 176*B*H + 8*B*I + 20*B*O + 32*H*I + 32*H*O + 4*B + 8 bytes
    saved: 16*B*H + 4*B*I + 4*B*O + 16*H*I + 16*H*O bytes
    ");
    insta::assert_snapshot!(Scale::FORWARD_COST, @r"
    value: ? flops, B transcendentals, ? bytes
    pullback: ? flops, 0 transcendentals, ? bytes
    saved: ? bytes
    ");
}

#[test]
fn an_unknown_cost_is_none() {
    assert_eq!(
        unknown::COST.value.flops.map(|f| f.to_string()).as_deref(),
        Some("0")
    );
    assert_eq!(unknown::COST.value.transcendentals, None);
    assert_eq!((unknown::COST.saved, mlp::COST.value.bytes), (None, None));
    assert_eq!(UnknownSaved::bytes_for(&[]), None);
    // The cost of a call is known only to the callee.
    assert_eq!(caller::COST.value.flops, None);
    assert_eq!(recorded::COST, Cost::UNKNOWN);
    // The number of iterations of a loop is not known.
    assert_eq!(looped::COST, Cost::UNKNOWN);
    assert_eq!(RecordedSaved::bytes_for(&[("B", 1)]), None);
    assert_eq!(<mlp as Traced>::COST, mlp::COST);
}

#[test]
fn residuals_take_the_bytes_given_by_the_formula() {
    for (b, t) in [(3, 5), (1, 0), (7, 2)] {
        let x = Tensor::ones([b, t], DType::F64);
        let (_, saved) = typed::saved(&x);
        let dims = [("B", b as u64), ("T", t as u64)];
        assert_eq!(TypedSaved::bytes_for(&dims), Some(saved.bytes() as u64));
        assert_eq!(number(typed::COST.saved, &dims), Some(saved.bytes() as u64));
    }
    assert_eq!(TypedSaved::bytes_for(&[("B", 3)]), None);

    let (b, i, h, o) = (5, 3, 2, 7);
    let ones = |shape: [usize; 2]| Tensor::ones(shape, DType::F32);
    let labels = Tensor::zeros([b], DType::I64);
    let (_, saved) = typed_mlp::saved(&ones([b, i]), &ones([i, 4 * h]), &ones([4 * h, o]), &labels);
    let dims = [
        ("B", b as u64),
        ("I", i as u64),
        ("H", h as u64),
        ("O", o as u64),
    ];
    let bytes = TypedMlpSaved::bytes_for(&dims);
    assert_eq!(bytes, Some(saved.bytes() as u64));
    // x, w1, h, w2, and the derivative of the loss with respect to the logits.
    let by_hand = 4 * (b * i + i * 4 * h + b * 4 * h + 4 * h * o + b * o);
    assert_eq!(bytes, Some(by_hand as u64));
    // Each op reads its operands and writes its result: two products, `tanh`, the loss.
    let products = 4 * (b * i + 4 * i * h + 2 * 4 * b * h + 4 * h * o + b * o);
    let by_hand = products + 4 * (2 * 4 * b * h) + 4 * (b * o) + 8 * b + 4;
    assert_eq!(
        number(typed_mlp::COST.value.bytes, &dims),
        Some(by_hand as u64)
    );
}

#[test]
fn named_values_are_listed_with_their_positions() {
    // Each value with the source text at its position.
    let show = |points: &[Point]| {
        let line = |p: &Point| {
            let source = include_str!("constants.rs")
                .lines()
                .nth(p.line as usize - 1);
            let at = &source.expect("the line exists")[p.column as usize - 1..];
            let saved = if p.saved { ", saved" } else { "" };
            format!("{}{saved}: {at}", p.name)
        };
        points.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(show(mlp::POINTS), @r"
    h, saved: h = (x.matmul(w1) + b1).tanh();
    y: + b2
    ");
    insta::assert_snapshot!(show(looped::POINTS), @r"
    h: h = x.sin();
    z, saved: z = h.tanh();
    h_2: * x;
    ");
    assert!(mlp::POINTS.iter().all(|p| p.file == file!()));
    assert_eq!(Scale::FORWARD_POINTS[0].name, "y");
    assert!(recorded::POINTS.is_empty());
}

mod callees {
    pub(crate) mod first {
        use gradloom::prelude::*;

        #[traced]
        pub(crate) fn leaf(x: &Tensor) -> Tensor {
            x.sin()
        }
    }

    pub(crate) mod second {
        use gradloom::prelude::*;

        #[traced]
        pub(crate) fn leaf(x: &Tensor) -> Tensor {
            x.cos()
        }
    }

    /// Functions with the same bodies that call different `leaf` functions.
    macro_rules! callers {
        ($name:ident) => {
            pub(crate) mod $name {
                use super::super::$name::leaf;
                use gradloom::prelude::*;

                #[traced]
                pub(crate) fn straight(x: &Tensor) -> Tensor {
                    leaf(x) * 2.0
                }

                #[traced]
                pub(crate) fn looped(x: &Tensor, n: usize) -> Tensor {
                    let mut y = x.clone();
                    for _ in 0..n {
                        y = straight(&y);
                    }
                    y
                }

                /// Calls itself through another function.
                #[traced]
                pub(crate) fn ping(x: &Tensor, n: usize) -> Tensor {
                    if n == 0 { looped(x, 2) } else { pong(x, n) }
                }

                #[traced]
                pub(crate) fn pong(x: &Tensor, n: usize) -> Tensor {
                    ping(&x.exp(), n - 1)
                }
            }
        };
    }

    pub(crate) mod callers {
        callers!(first);
        callers!(second);
    }
}

#[test]
fn a_hash_covers_the_functions_that_are_called() {
    use callees::callers::{first, second};
    let pairs = [
        (first::straight::HASH, second::straight::HASH),
        (first::looped::HASH, second::looped::HASH),
        (first::ping::HASH, second::ping::HASH),
        (first::pong::HASH, second::pong::HASH),
    ];
    for (i, (a, b)) in pairs.iter().enumerate() {
        assert_ne!(a, b, "function {i}");
    }
    let x = Tensor::scalar(0.5f64);
    let expected = x.exp();
    let expected = ((expected.sin() * 2.0).sin() * 2.0).item::<f64>();
    assert!((first::ping(&x, 1).item::<f64>() - expected).abs() < 1e-12);
}
