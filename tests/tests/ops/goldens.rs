//! Values and derivatives compared with reference results. `tests/goldens/README.md` describes
//! their origin.

use gradloom::{DType, Tensor, hvp, jvp, vjp};
use serde_json::Value;

type F = fn(&[Tensor]) -> Vec<Tensor>;

/// The function of each case, written with our ops.
#[rustfmt::skip]
const CASES: &[(&str, F)] = &[
    ("neg", |a| vec![-&a[0]]),
    ("abs_at_zero", |a| vec![a[0].sign() * &a[0]]),
    ("exp", |a| vec![a[0].exp()]),
    ("exp_large", |a| vec![a[0].exp()]),
    ("exp_overflow", |a| vec![a[0].exp()]),
    ("log_at_zero", |a| vec![a[0].log()]),
    ("log1p", |a| vec![a[0].log1p()]),
    ("sqrt", |a| vec![a[0].sqrt()]),
    ("sqrt_near_zero", |a| vec![a[0].sqrt()]),
    ("rsqrt", |a| vec![a[0].rsqrt()]),
    ("square", |a| vec![a[0].square()]),
    ("reciprocal", |a| vec![a[0].reciprocal()]),
    ("sin", |a| vec![a[0].sin()]),
    ("tanh_saturated", |a| vec![a[0].tanh()]),
    ("sigmoid", |a| vec![a[0].sigmoid()]),
    ("log_sigmoid", |a| vec![a[0].log_sigmoid()]),
    ("softplus", |a| vec![a[0].softplus()]),
    ("relu", |a| vec![a[0].relu()]),
    ("mish", |a| vec![a[0].mish()]),
    ("gelu_erf", |a| vec![a[0].gelu()]),
    ("erf", |a| vec![a[0].erf()]),
    ("erfc", |a| vec![a[0].erfc()]),
    ("xlogx_safe", |a| {
        let positive = a[0].gt(a[0].zeros_like());
        let safe = positive.select(&a[0], a[0].ones_like());
        vec![positive.select(&a[0] * safe.log(), a[0].zeros_like())]
    }),
    ("log10", |a| vec![a[0].log10()]),
    ("cbrt", |a| vec![a[0].cbrt()]),
    ("acos", |a| vec![a[0].acos()]),
    ("sinh", |a| vec![a[0].sinh()]),
    ("cosh", |a| vec![a[0].cosh()]),
    ("acosh", |a| vec![a[0].acosh()]),
    ("elu", |a| vec![a[0].elu(1.0)]),
    ("selu", |a| vec![a[0].selu()]),
    ("celu", |a| vec![a[0].celu(0.7)]),
    ("erfinv", |a| vec![a[0].erf_inv()]),
    ("lgamma", |a| vec![a[0].lgamma()]),
    ("rem_trunc", |a| vec![a[0].rem(&a[1])]),
    ("mod_floor", |a| vec![a[0].mod_floor(&a[1])]),
    ("atan2_axes", |a| vec![a[0].atan2(&a[1])]),
    ("pow_int_zero", |a| vec![a[0].pow(0.0) + a[0].pow(1.0)]),
    ("i32_bitwise", |a| {
        let (x, y) = (&a[0], &a[1]);
        vec![x & y, x | y, x ^ y, !x, x << 2, x >> 1]
    }),
    ("bool_logic", |a| {
        let (x, y) = (&a[0], &a[1]);
        vec![x & y, x | y, x ^ y, !x, x.cast(DType::I32) + y.cast(DType::I32)]
    }),
    ("stop_gradient", |a| {
        let x = &a[0];
        vec![x * (x * x).stop_gradient() + x.sin().stop_gradient()]
    }),
    ("straight_through", |a| vec![&a[0] + (a[0].round() - &a[0]).stop_gradient()]),
    ("add", |a| vec![&a[0] + &a[1]]),
    ("mul", |a| vec![&a[0] * &a[1]]),
    ("div", |a| vec![&a[0] / &a[1]]),
    ("div_by_zero", |a| vec![&a[0] / &a[1]]),
    ("pow_zero_base", |a| vec![a[0].pow(&a[1])]),
    ("pow_int", |a| vec![a[0].pow(a[0].ones_like() * 3.0)]),
    ("maximum", |a| vec![a[0].maximum(&a[1])]),
    ("minimum", |a| vec![a[0].minimum(&a[1])]),
    ("minimum_ties", |a| vec![a[0].minimum(&a[1])]),
    ("where", |a| vec![a[0].select(&a[1], &a[2])]),
    ("clamp", |a| vec![a[0].maximum(&a[1]).minimum(&a[2])]),
    ("lerp", |a| vec![&a[0] + &a[2] * (&a[1] - &a[0])]),
    ("compare_bool", compare),
    ("compare_nan", compare),
    ("bc_scalar_matrix", |a| vec![&a[0] * &a[1] + &a[0]]),
    ("bc_trailing", |a| vec![&a[0] - &a[1] * &a[1]]),
    ("bc_len1_vector", |a| vec![&a[0] * &a[1]]),
    ("bc_zero_rows", |a| vec![&a[0] + &a[1]]),
    ("bc_zero_times_scalar_sum", |a| vec![(&a[0] * &a[1]).sum(..) + &a[1]]),
    ("bc_broadcast_to", |a| {
        vec![a[0].broadcast_to([2, 3, 4]) * Tensor::arange(24, a[0].dtype()).reshape([2, 3, 4])]
    }),
    ("bc_pow", |a| vec![a[0].pow(&a[1])]),
    ("bc_max_ties", |a| vec![a[0].maximum(&a[1])]),
    ("bc_rank0_rank0", |a| vec![&a[0] * &a[1] + &a[0] / &a[1]]),
    ("bc_rank5", |a| vec![&a[0] * &a[1]]),
    ("bc_bias_reuse", |a| vec![(&a[0] + &a[1]) * a[1].tanh()]),
    ("sum_all", |a| vec![a[0].sum(..)]),
    ("sum_axis_neg_keepdims", |a| vec![a[0].sum_keepdims(-1)]),
    ("sum_multi_axes", |a| vec![(&a[0] * &a[0]).sum([0, 2])]),
    ("sum_zero_size", |a| vec![a[0].sum(0)]),
    ("mean_all", |a| vec![a[0].mean(..)]),
    ("mean_axis_keepdims", |a| vec![&a[0] - a[0].mean_keepdims(1)]),
    ("max_all_ties", |a| vec![a[0].max(..)]),
    ("max_neg_inf", |a| vec![a[0].max(1)]),
    ("var_population", |a| vec![variance(&a[0], 1)]),
    ("std_eps", |a| vec![(variance(&a[0], -1) + 1e-5).sqrt()]),
    ("logsumexp_axis", |a| vec![a[0].logsumexp(1)]),
    ("logsumexp_large", |a| vec![a[0].logsumexp(1)]),
    ("mm", |a| vec![a[0].matmul(&a[1])]),
    ("vm", |a| vec![a[0].matmul(&a[1])]),
    ("bmm", |a| vec![a[0].matmul(&a[1])]),
    ("bmm_broadcast", |a| vec![a[0].matmul(&a[1])]),
    ("mm_left_shared", |a| vec![a[0].matmul(&a[1])]),
    ("mv_batched", |a| vec![a[0].matmul(&a[1])]),
    ("mm_zero_inner", |a| vec![a[0].matmul(&a[1])]),
    ("mm_zero_rows", |a| vec![a[0].matmul(&a[1])]),
    ("mm_transposed_operands", |a| vec![a[0].transpose().matmul(a[1].transpose())]),
    ("bilinear_form", |a| vec![a[0].matmul(&a[1]).matmul(&a[2])]),
    ("matrix_power3", |a| vec![a[0].matmul(&a[0]).matmul(&a[0])]),
    ("transpose_2d", |a| vec![a[0].transpose() * Tensor::arange(12, a[0].dtype()).reshape([4, 3])]),
    ("reshape", |a| vec![a[0].reshape([2, 6]) * Tensor::arange(6, a[0].dtype())]),
    ("squeeze_expand", |a| {
        let y = a[0].squeeze(1).unsqueeze([0, 2]);
        vec![&y * &y * &y]
    }),
    ("slice_basic", |a| vec![a[0].slice([1, 0], [3, 2], [1, 1]).square()]),
    ("slice_negative", |a| {
        let end = i64::MAX;
        vec![a[0].slice([-2, 0], [end, -1], [1, 1]) + a[0].slice([0, 1], [2, end], [1, 1])]
    }),
    ("concat_axis0", |a| vec![Tensor::concat(&[&a[0], &a[1], &a[0]], 0).square()]),
    ("split3", |a| {
        let [x, y, z] = a[0].split(1);
        vec![x * 1.0, y * 2.0, z * 3.0]
    }),
    ("split_unused_piece", |a| {
        let [_, y, _] = a[0].split(0);
        vec![y.square()]
    }),
    ("transpose_roundtrip", |a| vec![a[0].permute([1, 2, 0]).permute([2, 0, 1]) - &a[0]]),
    ("softmax", |a| vec![a[0].softmax(-1)]),
    ("softmax_axis0_large", |a| vec![a[0].softmax(0)]),
    ("softmax_masked", |a| vec![a[1].select(&a[0], a[0].full_like(-1e9)).softmax(-1)]),
    ("log_softmax", |a| vec![a[0].log_softmax(-1)]),
    ("log_softmax_extreme", |a| vec![a[0].log_softmax(-1)]),
    ("layer_norm", |a| vec![a[0].layer_norm(&a[1], &a[2], 1e-5)]),
    ("rms_norm", |a| vec![a[0].rms_norm(&a[1], 1e-6)]),
    ("cross_entropy_int", |a| vec![a[0].cross_entropy(&a[1])]),
    ("cross_entropy_smoothed", |a| {
        let p = a[1].one_hot(3, a[0].dtype()) * 0.9 + 0.1 / 3.0;
        vec![-(p * a[0].log_softmax(-1)).sum(-1)]
    }),
    ("cross_entropy_extreme", |a| vec![a[0].cross_entropy(&a[1])]),
    ("bce_with_logits", |a| {
        let x = &a[0];
        vec![(x.relu() - x * &a[1] + (-x.abs()).exp().log1p()).mean(..)]
    }),
    ("dropout_given_mask", |a| vec![a[1].select(&a[0] / 0.75, a[0].zeros_like())]),
    ("l2_regularised_loss", |a| {
        let error = a[1].matmul(&a[0]).tanh() - &a[2];
        vec![error.square().mean(..) + 0.01 * (&a[0] * &a[0]).sum(..)]
    }),
    ("diamond_deep", |a| {
        let mut y = a[0].clone();
        for _ in 0..20 {
            y = 0.5 * (&y + &y) + 0.01 * &y * &y;
        }
        vec![y]
    }),
    ("unused_input", |a| vec![&a[0] * 2.0]),
    ("output_is_input", |a| vec![a[0].clone(), a[1].clone(), a[0].clone()]),
    ("nested_grad_product", |a| {
        let x = &a[0];
        vec![x * gradloom::grad(|y: &Tensor| (x * (y * y * y)).sum(..))(x)]
    }),
    ("third_derivative", |a| {
        let f = |t: &Tensor| (t.sin() * (t * t * t)).sum(..);
        let f1 = |t: &Tensor| gradloom::grad(f)(t).sum(..);
        let f2 = |t: &Tensor| gradloom::grad(f1)(t).sum(..);
        vec![gradloom::grad(f2)(&a[0])]
    }),
    ("grad_as_function", |a| vec![gradloom::grad(|v: &Tensor| (v.tanh().square() * v).sum(..))(&a[0])]),
    ("jvp_inside", |a| vec![jvp(|v: &Tensor| v.exp() * v, &a[0], &a[1]).1]),
    ("zero_cotangent", |a| vec![&a[0] * &a[0], a[0].sin()]),
    ("one_hot_matmul", |a| vec![a[1].one_hot(5, a[0].dtype()).matmul(&a[0])]),
    ("masked_sum", |a| vec![a[1].select(&a[0], a[0].zeros_like()).square().sum(1)]),
    ("take_axis0", |a| vec![a[0].take(&a[1], 0)]),
    ("take_duplicates", |a| vec![a[0].take(&a[1], 0).square()]),
    ("take_empty_index", |a| vec![a[0].take(&a[1], 0)]),
    ("scatter_add_duplicates", |a| vec![a[0].scatter_add(&a[2], &a[1], 0)]),
    ("scatter_set", |a| vec![a[0].scatter_set(&a[2], &a[1], 0)]),
    ("segment_sum", |a| vec![a[0].segment_sum(&a[1], 4)]),
    ("dynamic_slice", |a| {
        let rows = a[1].clamp(0, 3) + Tensor::arange(2, DType::I32);
        vec![a[0].take(rows, 0).square()]
    }),
    ("dynamic_update_slice", |a| {
        let at = a[2].clamp(0, 4) + Tensor::arange(2, DType::I32);
        vec![a[0].scatter_set(at, &a[1], 0) * &a[0]]
    }),
    ("update_in_loop", |a| {
        let mut y = a[0].clone();
        for k in 0..3i64 {
            let [at, next] = [k, k + 1].map(|k| Tensor::from([k]));
            let product = y.take(&at, 0) * y.take(&next, 0);
            y = y.scatter_set(&at, &product, 0);
        }
        vec![y]
    }),
    ("permutation_inverse", |a| {
        let (x, p) = (&a[0], &a[1]);
        let inverse = p.scatter_set(p, Tensor::arange(5, p.dtype()), 0);
        vec![x.take(p, 0).take(inverse, 0) * x]
    }),
    ("f64_matmul", |a| vec![a[0].matmul(&a[1])]),
    ("f64_softmax", |a| vec![a[0].softmax(-1)]),
    ("f64_layer_norm", |a| vec![a[0].normalize(-1, 1e-5)]),
    ("f64_precision_probe", |a| vec![a[0].sin() * (1e-9 * &a[0]).exp() + 0.1]),
    ("i32_arithmetic", |a| {
        let (x, y) = (&a[0], &a[1]);
        vec![x + y, x - y, x * y, x.abs(), -x, x.maximum(y)]
    }),
    ("i64_large", |a| vec![&a[0] + &a[1], &a[0] * &a[1], a[0].sum(..)]),
    ("mixed_f32_f64_inputs", |a| vec![a[0].cast(DType::F64) * &a[1]]),
    ("bool_mask_mean", |a| {
        let count = a[1].cast(a[0].dtype()).sum(..);
        vec![a[1].select(&a[0], a[0].zeros_like()).sum(..) / count.maximum(count.ones_like())]
    }),
    ("negative_zero", |a| {
        let x = &a[0];
        vec![x + 0.0, -x, x * 0.0, x.abs(), x.abs().sqrt()]
    }),
    ("conv2d_valid", |a| vec![a[0].conv_valid(&a[1], 1)]),
    ("conv2d_same", |a| vec![a[0].conv_same(&a[1], 1)]),
    ("conv2d_stride_leftover", |a| vec![a[0].conv_valid(&a[1], 2)]),
    ("conv2d_dilated", |a| vec![a[0].conv(&a[1], 1, 0, 2, 1)]),
    ("conv2d_depthwise", |a| vec![a[0].conv(&a[1], 1, [1, 0, 0, 1], 1, 3)]),
    ("conv2d_1x1", |a| vec![a[0].conv_valid(&a[1], 1)]),
    ("maxpool2x2", |a| vec![a[0].max_pool([2, 2], 2, 0)]),
    ("maxpool_ties", |a| vec![a[0].max_pool([2, 2], 2, 0)]),
    ("avgpool2x2", |a| vec![a[0].avg_pool([2, 2], 2, 0)]),
    ("global_avgpool_sq", |a| vec![a[0].square().mean([2, 3])]),
    ("upsample_nearest", |a| vec![a[0].upsample([2, 2]).square()]),
];

fn compare(a: &[Tensor]) -> Vec<Tensor> {
    let (x, y) = (&a[0], &a[1]);
    vec![x.lt(y), x.le(y), x.gt(y), x.ge(y), x.eq(y), x.ne(y)]
}

fn variance(x: &Tensor, axis: i64) -> Tensor {
    (x - x.mean_keepdims(axis)).square().mean(axis)
}

fn number(v: &Value) -> f64 {
    match v.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => v.as_f64().unwrap(),
    }
}

fn tensor(v: &Value) -> Tensor {
    let shape: Vec<usize> = v["shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap() as usize)
        .collect();
    let data = v["data"].as_array().unwrap();
    match v["dtype"].as_str().unwrap() {
        "f32" => Tensor::from_vec(data.iter().map(|x| number(x) as f32).collect(), shape),
        "f64" => Tensor::from_vec(data.iter().map(number).collect(), shape),
        "i32" => Tensor::from_vec(
            data.iter().map(|x| x.as_i64().unwrap() as i32).collect(),
            shape,
        ),
        "i64" => Tensor::from_vec(data.iter().map(|x| x.as_i64().unwrap()).collect(), shape),
        "bool" => Tensor::from_vec(
            data.iter()
                .map(|x| x.as_bool().unwrap())
                .collect::<Vec<bool>>(),
            shape,
        ),
        other => panic!("dtype {other}"),
    }
}

fn tensors(v: &Value) -> Vec<Tensor> {
    v.as_array().unwrap().iter().map(tensor).collect()
}

/// Appends to `out` each difference of `got` from the expected tensors, by their tolerances.
fn differences(what: &str, got: &[Tensor], expected: &Value, out: &mut Vec<String>) {
    let expected = expected.as_array().unwrap();
    if got.len() != expected.len() {
        out.push(format!(
            "{what}: {} results, expected {}",
            got.len(),
            expected.len()
        ));
        return;
    }
    for (i, (got, v)) in got.iter().zip(expected).enumerate() {
        let want = tensor(v);
        if got.aval() != want.aval() {
            out.push(format!(
                "{what} {i}: {}, expected {}",
                got.aval(),
                want.aval()
            ));
            continue;
        }
        if !want.dtype().is_float() {
            if got.cast(DType::I64).to_vec::<i64>() != want.cast(DType::I64).to_vec::<i64>() {
                out.push(format!("{what} {i}: {got}, expected {want}"));
            }
            continue;
        }
        let (rtol, atol) = (v["rtol"].as_f64().unwrap(), v["atol"].as_f64().unwrap());
        let (a, b) = (
            got.cast(DType::F64).to_vec::<f64>(),
            want.cast(DType::F64).to_vec::<f64>(),
        );
        for (a, b) in a.iter().zip(&b) {
            let same =
                (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= atol + rtol * b.abs();
            if !same {
                out.push(format!(
                    "{what} {i}: {a}, expected {b} (rtol {rtol:e}, atol {atol:e})"
                ));
            }
        }
    }
}

fn check(case: &Value, f: F, out: &mut Vec<String>) {
    let inputs = tensors(&case["inputs"]);
    let names: Vec<&str> = case["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["name"].as_str().unwrap())
        .collect();
    let wrt: Vec<usize> = case["diff_args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| {
            names
                .iter()
                .position(|m| *m == n.as_str().unwrap())
                .unwrap()
        })
        .collect();
    differences("output", &f(&inputs), &case["outputs"], out);
    let g = |x: &Vec<Tensor>| {
        let mut all = inputs.clone();
        for (i, x) in wrt.iter().zip(x) {
            all[*i] = x.clone();
        }
        f(&all)
    };
    let x: Vec<Tensor> = wrt.iter().map(|i| inputs[*i].clone()).collect();
    if let Some(v) = case.get("vjp").filter(|v| !v.is_null()) {
        let (_, pullback) = vjp(g, &x);
        let cts = tensors(&v["cotangents"]);
        differences("vjp", &pullback.call(&cts), &v["grads"], out);
        if let Some(h) = case.get("hvp").filter(|h| !h.is_null()) {
            let scalar = |x: &Vec<Tensor>| {
                let parts = g(x)
                    .into_iter()
                    .zip(&cts)
                    .filter(|(y, _)| y.dtype().is_float());
                parts
                    .map(|(y, c)| (y * c).sum(..))
                    .reduce(|a, b| a + b)
                    .unwrap()
            };
            let direction = tensors(&case["jvp"]["tangents"]);
            differences("hvp", &hvp(scalar, &x, &direction), &h["result"], out);
        }
    }
    if let Some(j) = case.get("jvp").filter(|j| !j.is_null()) {
        let (_, dy) = jvp(g, &x, &tensors(&j["tangents"]));
        differences("jvp", &dy, &j["tangents_out"], out);
    }
}

#[test]
fn every_golden_case_agrees_with_its_reference() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens");
    let mut found = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let family: Value =
                serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            for case in family["cases"].as_array().unwrap() {
                found.insert(case["name"].as_str().unwrap().to_owned(), case.clone());
            }
        }
    }
    let mut wrong = Vec::new();
    for (name, f) in CASES {
        let case = found
            .remove(*name)
            .unwrap_or_else(|| panic!("there is no case `{name}`"));
        let mut differences = Vec::new();
        check(&case, *f, &mut differences);
        wrong.extend(differences.into_iter().map(|d| format!("{name}: {d}")));
    }
    let unused: Vec<&String> = found.keys().collect();
    assert!(unused.is_empty(), "cases without a function: {unused:?}");
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
