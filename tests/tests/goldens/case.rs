//! Golden cases, read from their files.

use gradloom::{DType, Tensor};
use serde_json::Value;
use std::path::Path;

/// An expected tensor and its tolerances.
pub(crate) struct Expected {
    pub(crate) tensor: Tensor,
    rtol: f64,
    atol: f64,
}

/// A function with inputs, results and derivatives.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) family: String,
    /// The function as JAX text.
    pub(crate) source: String,
    pub(crate) inputs: Vec<Tensor>,
    /// Positions of the differentiated inputs.
    pub(crate) diff: Vec<usize>,
    pub(crate) outputs: Vec<Expected>,
    /// Cotangents of the results, and of the differentiated inputs.
    pub(crate) vjp: Option<(Vec<Tensor>, Vec<Expected>)>,
    /// Tangents of the differentiated inputs, and of the results.
    pub(crate) jvp: Option<(Vec<Tensor>, Vec<Expected>)>,
    /// Tangents, and the product of the Hessian with them.
    pub(crate) hvp: Option<(Vec<Tensor>, Vec<Expected>)>,
    pub(crate) lanes: Option<Lanes>,
}

/// A case applied to several examples.
pub(crate) struct Lanes {
    pub(crate) in_axes: Vec<Option<i32>>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Expected>,
    /// Cotangents of the results, and of the differentiated inputs for each example.
    pub(crate) vjp: Option<(Vec<Tensor>, Vec<Expected>)>,
}

impl Expected {
    /// Returns the first difference of `got` from the expected tensor.
    pub(crate) fn difference(&self, got: &Tensor) -> Option<String> {
        let want = &self.tensor;
        if got.aval() != want.aval() {
            return Some(format!("{}, expected {}", got.aval(), want.aval()));
        }
        if !want.dtype().is_float() {
            let integers = |x: &Tensor| x.cast(DType::I64).to_vec::<i64>();
            return (integers(got) != integers(want)).then(|| format!("{got}, expected {want}"));
        }
        let numbers = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
        let (rtol, atol) = (self.rtol, self.atol);
        let equal = |a: f64, b: f64| {
            (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= atol + rtol * b.abs()
        };
        let mut pairs = numbers(got).into_iter().zip(numbers(want)).enumerate();
        let (i, (a, b)) = pairs.find(|(_, (a, b))| !equal(*a, *b))?;
        Some(format!(
            "element {i} is {a:e}, expected {b:e} (rtol {rtol:e}, atol {atol:e})"
        ))
    }
}

/// Returns the cases of all files of a folder, in the order of their families, and the names of those that
/// do not have the form of a case.
pub(crate) fn read_folder(folder: &Path) -> Result<(Vec<Case>, Vec<String>), String> {
    let cannot = |what: &str, path: &Path, e: &dyn std::fmt::Display| {
        format!("cannot {what} {}: {e}", path.display())
    };
    let entries = folder.read_dir();
    let entries = entries.map_err(|e| cannot("read the folder", folder, &e))?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    let (mut cases, mut malformed) = (Vec::new(), Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|e| cannot("read", &path, &e))?;
        let file: Value = serde_json::from_str(&text).map_err(|e| cannot("parse", &path, &e))?;
        // An index of the folder lists no cases.
        for v in file["cases"].as_array().into_iter().flatten() {
            match std::panic::catch_unwind(|| case(v)) {
                Ok(case) => cases.push(case),
                Err(_) => malformed.push(format!("{}/{}", v["family"], v["name"])),
            }
        }
    }
    Ok((cases, malformed))
}

fn case(v: &Value) -> Case {
    let inputs = tensors(&v["inputs"]);
    let names: Vec<&str> = list(&v["inputs"])
        .iter()
        .map(|i| text(&i["name"]))
        .collect();
    let position = |name: &Value| names.iter().position(|n| *n == text(name)).unwrap();
    let pair = |v: Option<&Value>, left: &str, right: &str| {
        v.map(|v| (tensors(&v[left]), expected(&v[right])))
    };
    let tangents = |v: &Value| {
        let own = v["hvp"].get("tangents");
        tensors(own.unwrap_or_else(|| &v["jvp"]["tangents"]))
    };
    Case {
        name: text(&v["name"]).to_owned(),
        family: text(&v["family"]).to_owned(),
        source: text(&v["jax_source"]).to_owned(),
        diff: list(&v["diff_args"]).iter().map(position).collect(),
        outputs: expected(&v["outputs"]),
        vjp: pair(field(v, "vjp"), "cotangents", "grads"),
        jvp: pair(field(v, "jvp"), "tangents", "tangents_out"),
        hvp: field(v, "hvp").map(|h| (tangents(v), expected(&h["result"]))),
        lanes: field(v, "vmap").map(|lanes| Lanes {
            in_axes: list(&lanes["in_axes"])
                .iter()
                .map(|axis| axis.as_i64().map(|axis| axis as i32))
                .collect(),
            inputs: list(&lanes["inputs"])
                .iter()
                .zip(&inputs)
                .map(|(v, shared)| {
                    if v.is_null() {
                        shared.clone()
                    } else {
                        tensor(v)
                    }
                })
                .collect(),
            outputs: expected(&lanes["outputs"]),
            vjp: pair(field(lanes, "grads").map(|_| lanes), "cotangents", "grads"),
        }),
        inputs,
    }
}

fn field<'a>(v: &'a Value, name: &str) -> Option<&'a Value> {
    v.get(name).filter(|v| !v.is_null())
}

fn list(v: &Value) -> &[Value] {
    v.as_array().expect("a list")
}

fn text(v: &Value) -> &str {
    v.as_str().expect("a text")
}

fn tensors(v: &Value) -> Vec<Tensor> {
    list(v).iter().map(tensor).collect()
}

fn expected(v: &Value) -> Vec<Expected> {
    let tolerance = |v: &Value, name: &str| v[name].as_f64().unwrap_or(0.0);
    let one = |v| Expected {
        tensor: tensor(v),
        rtol: tolerance(v, "rtol"),
        atol: tolerance(v, "atol"),
    };
    list(v).iter().map(one).collect()
}

fn tensor(v: &Value) -> Tensor {
    let shape = list(&v["shape"])
        .iter()
        .map(|n| n.as_u64().unwrap() as usize);
    let shape: Vec<usize> = shape.collect();
    let data = list(&v["data"]);
    let integers = || data.iter().map(|x| x.as_i64().unwrap());
    match text(&v["dtype"]) {
        "f32" => Tensor::from_vec(data.iter().map(|x| number(x) as f32).collect(), shape),
        "f64" => Tensor::from_vec(data.iter().map(number).collect(), shape),
        "i32" => Tensor::from_vec(integers().map(|x| x as i32).collect(), shape),
        "i64" => Tensor::from_vec(integers().collect(), shape),
        "bool" => Tensor::from_vec(
            data.iter()
                .map(|x| x.as_bool().unwrap())
                .collect::<Vec<bool>>(),
            shape,
        ),
        other => panic!("unknown dtype `{other}`"),
    }
}

fn number(v: &Value) -> f64 {
    match v.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => v.as_f64().unwrap(),
    }
}
