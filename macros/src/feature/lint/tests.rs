//! Tests of the warnings for given source text.

use super::warnings;
use crate::program::Body;
use crate::traced::lowered;

/// Returns the warnings of a function, each with the token that it points at.
fn warnings_of(source: &str) -> Vec<String> {
    let (func, body) = lowered(source);
    if let Body::Recorded(reason) = &body {
        panic!("{source}: {reason}");
    }
    let item: syn::ItemFn = syn::parse_str(source).expect("the test's source parses");
    let warnings = warnings(&func, &item.block, &body, &[]);
    let lines: Vec<&str> = source.lines().collect();
    let shown = warnings.iter().map(|w| {
        let (start, end) = (w.span.start(), w.span.end());
        let token: String = lines[start.line - 1].chars().collect::<Vec<_>>()
            [start.column..end.column]
            .iter()
            .collect();
        format!("at `{token}` in line {}: {w}", start.line)
    });
    shown.collect()
}

/// Functions that probably do not do what is intended.
const SUSPICIOUS: &[&str] = &[
    // No result depends on the parameter.
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { let _z = y.sin(); x.cos() }",
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.reshape((y.dim(0), -1)) }",
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.broadcast_like(y) }",
    "fn f(x: &Tensor, pair: &(Tensor, Tensor)) -> Tensor { let _z = pair.0.sin(); x.cos() }",
    "fn f(x: &Tensor) -> Tensor { x.ones_like() }",
    // The gradient ends on every path to a result.
    "fn f(x: &Tensor, y: &Tensor) -> Tensor {\n  let h = y.square();\n  let i = h.argmax(0).cast(DType::F32);\n  x * i\n}",
    "fn f(x: &Tensor, limit: &Tensor) -> Tensor { x.gt(limit).select(x, &x.zeros_like()) }",
    "fn f(x: &Tensor, on: &Tensor) -> Tensor { on.select(x, &x.zeros_like()) }",
    "fn f(x: &Tensor, labels: &Tensor) -> Tensor { x.cross_entropy(labels) }",
    "fn f(x: &Tensor) -> Tensor { x.sign() }",
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { x * y.cast(DType::I32).cast(DType::F32) + y.stop_gradient() }",
    "fn f(pair: &(Tensor, Tensor), x: &Tensor) -> Tensor { pair.0.gt(&pair.1).select(x, &x.neg()) }",
    "fn f(x: &Tensor, y: &Tensor, n: usize) -> Tensor {\n  let mut h = x.clone();\n  for _ in 0..n {\n    h = h * y.sign();\n  }\n  h\n}",
    "fn f(x: &Tensor, y: &Tensor, n: usize) -> Tensor {\n  let mut h = x.clone();\n  let mut g = y.clone();\n  for _ in 0..n {\n    h = h.sin();\n    g = g * h.stop_gradient();\n  }\n  g\n}",
    "fn f(x: &Tensor, y: &Tensor, deep: bool) -> Tensor { if deep { x.sin() } else { x.broadcast_like(y) } }",
    // A slope is infinite where the other operand is selected.
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.gt(0.0).select(&x.log(), y) }",
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { let bad = x.le(0.0); bad.select(y, &x.sqrt()) }",
    "fn f(x: &Tensor, y: &Tensor, n: &Tensor) -> Tensor { let ok = n.gt(0.0); ok.select(&(x / n * 2.0), y) }",
    "fn f(x: &Tensor, #[nodiff] n: &Tensor) -> Tensor { n.gt(0.0).select(&(x / n), &x.zeros_like()) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(0.0).select(x, &(x.exp() - 1.0)) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(-1.0).select(&x.log1p(), x) }",
    "fn f(x: &Tensor) -> Tensor { let c = x.gt(0.0); c.select(&x.pow(0.5), &x.rsqrt()) + c.select(&x.reciprocal(), x) }",
    "fn f(x: &Tensor, p: &Tensor) -> Tensor { x.gt(0.0).select(&x.pow(p), x) }",
    "fn f(x: &Tensor, deep: bool) -> Tensor {\n  let mut h = x.clone();\n  if deep { h = h.gt(0.0).select(&x.log(), &h); }\n  h\n}",
    // Reverse mode saves more than the size of the arguments.
    "fn f(#[shape(1000)] x: &Tensor, #[shape(1000)] y: &Tensor) -> Tensor { let all = (x.reshape([1000, 1]) * y).tanh(); all.square().sum(..) }",
    "fn f(#[shape(B, 2)] x: &Tensor) -> Tensor { (x.sum_keepdims(1) * Tensor::arange(100, DType::F32)).sin().exp().sum(..) }",
];

#[test]
fn suspicious_functions_cause_warnings() {
    let mut out = String::new();
    for source in SUSPICIOUS {
        let warnings = warnings_of(source);
        assert!(!warnings.is_empty(), "{source}");
        out += &format!("{source}\n  {}\n\n", warnings.join("\n  "));
    }
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "../../snapshots" }, {
        insta::assert_snapshot!("warnings", out);
    });
}

/// Functions similar to those above that deserve no warning.
const SOUND: &[&str] = &[
    "fn f(x: &Tensor, _y: &Tensor) -> Tensor { let _z = _y.sin(); x.cos() }",
    "fn f(x: &Tensor, #[nodiff] y: &Tensor) -> Tensor { x.broadcast_like(y) }",
    // rustc reports the unused parameter.
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { x.cos() }",
    // One path with a gradient is enough.
    "fn f(x: &Tensor) -> Tensor { x.argmax(0).cast(DType::F32) + x }",
    "fn f(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) { (x.gt(y).select(x, y), y.sign()) }",
    // A tree may have leaves that are not trained.
    "fn f(model: &Norm, x: &Tensor) -> Tensor { x * &model.gain + model.mean.stop_gradient() }",
    // The callee decides what the gradient of its argument is.
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { dense(x, y) }",
    "fn f(x: &Tensor) -> Tensor { let c = x.gt(0.0); let safe = c.select(x, &x.ones_like()); c.select(&safe.log(), &x.zeros_like()) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(0.0).select(&x.maximum(1e-6).log(), x) }",
    "fn f(x: &Tensor, eps: f32) -> Tensor { x.gt(0.0).select(&(x.square() + eps).sqrt(), x) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(0.0).select(&(x / 2.0), &(x / (x.square() + 1.0))) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(0.0).select(&x.abs().neg().exp(), &x.tanh().exp()) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(0.0).select(&x.pow(2.0), &(x / Tensor::scalar(3.0))) }",
    "fn f(x: &Tensor, #[nodiff] n: &Tensor) -> Tensor { n.gt(0.0).select(&(n.log() * x), x) }",
    "fn f(x: &Tensor) -> Tensor { x.gt(0.0).select(x, &x.stop_gradient().log()) }",
    "fn f(x: &Tensor) -> Tensor { x.log() + x.gt(0.0).select(x, &x.neg()) }",
    "fn f(x: &Tensor, n: usize) -> Tensor {\n  let c = x.gt(0.0);\n  let safe = c.select(x, &x.ones_like());\n  let mut h = x.clone();\n  for _ in 0..n { h = c.select(&safe.log(), &h); }\n  h\n}",
    "fn f(x: &Tensor, y: &Tensor, n: usize) -> Tensor {\n  let mut h = x.clone();\n  for _ in 0..n { h = h.sin() * y; }\n  h\n}",
    "fn f(x: &Tensor, y: &Tensor) -> Tensor { if y.sum(..).item::<f64>() > 0.0 { x.sin() } else { x.cos() } }",
    "fn f(x: &Tensor, y: &Tensor, n: usize) -> Tensor {\n  let mut a = x.clone();\n  let mut b = y.clone();\n  for _ in 0..n {\n    let t = a.sin();\n    a = b;\n    b = t;\n  }\n  a\n}",
    "fn f(#[shape(B, 10)] x: &Tensor, #[shape(10, 100)] w: &Tensor) -> Tensor { x.matmul(w).tanh().sum(..) }",
    "fn f(#[shape(1000, 1)] x: &Tensor, #[shape(1000)] y: &Tensor) -> Tensor { #[recompute] let all = (x * y).tanh(); all.square().sum(..) }",
    "fn f(#[shape(1000, 1)] x: &Tensor, #[shape(1000)] y: &Tensor) -> Tensor { #[save] let all = (x * y).tanh(); all.square().sum(..) }",
    "fn f(#[shape(1000, 1)] x: &Tensor, y: &Tensor) -> Tensor { let all = (x * y).tanh(); all.square().sum(..) }",
];

#[test]
fn sound_functions_cause_no_warnings() {
    for source in SOUND {
        assert_eq!(warnings_of(source), [""; 0], "{source}");
    }
}
