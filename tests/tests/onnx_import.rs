//! Imported ONNX models are functions like any other, and broken ones are named errors.

use gradloom::optim::Sgd;
use gradloom::prelude::*;
use gradloom::testing::gradcheck;
use gradloom::trace::trace;
use gradloom_ir::Program;
use gradloom_onnx::{Dim, Elements, ImportError, Model, Weights, export};

/// A perceptron with weights of `f64`, for exact differences.
fn perceptron() -> (Model, Vec<u8>) {
    let program: Program = "(x: f64[2, 3], w: f64[3, 4], b: f64[4], v: f64[4, 2]) {
        h = matmul x, w, like x, like w  s = add h, b  t = tanh s
        y = matmul t, v, like t, like v  return y
    }"
    .parse()
    .unwrap();
    let weights = |n: u32| {
        (0..n)
            .map(|i| f64::from(i * 7 % 5) / 5.0 - 0.4)
            .collect::<Vec<f64>>()
    };
    let (w, b, v) = (weights(12), weights(4), weights(8));
    let constants = [
        (1, Elements::F64(&w)),
        (2, Elements::F64(&b)),
        (3, Elements::F64(&v)),
    ];
    let bytes = export(&program, "perceptron", &constants).unwrap();
    (Model::read(&bytes).unwrap(), bytes)
}

fn x() -> Tensor {
    Tensor::from([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
}

fn run(model: &Model, x: &Tensor) -> Tensor {
    let outputs = model.run(&[("x", x)]).unwrap();
    outputs.into_iter().next().unwrap()
}

fn by_hand(weights: &Weights, x: &Tensor) -> Tensor {
    (x.matmul(&weights["w"]) + &weights["b"])
        .tanh()
        .matmul(&weights["v"])
}

#[test]
fn a_model_says_what_it_takes_and_gives() {
    let (model, _) = perceptron();
    let [input] = model.inputs() else {
        panic!("{:?}", model.inputs())
    };
    assert_eq!((&*input.name, input.dtype), ("x", DType::F64));
    assert_eq!(input.shape, Some(vec![Dim::Known(2), Dim::Known(3)]));
    assert_eq!(model.outputs().len(), 1);
    assert_eq!(model.weights().keys().collect::<Vec<_>>(), ["b", "v", "w"]);
    assert_eq!(
        run(&model, &x()).to_vec::<f64>(),
        by_hand(model.weights(), &x()).to_vec::<f64>()
    );
}

#[test]
fn gradients_of_a_model_agree_with_differences() {
    let (model, _) = perceptron();
    let loss = |(weights, x): &(Weights, Tensor)| {
        run(&model.with_weights(weights).unwrap(), x)
            .square()
            .sum(..)
    };
    gradcheck(loss, &(model.weights().clone(), x())).unwrap();
}

#[test]
fn a_step_along_the_gradient_of_the_weights_lowers_the_loss() {
    let (model, _) = perceptron();
    let loss = |weights: &Weights| {
        (run(&model.with_weights(weights).unwrap(), &x()) - 1.0)
            .square()
            .mean(..)
    };
    let (optimizer, mut weights) = (
        Sgd {
            lr: 0.1,
            ..Sgd::default()
        },
        model.weights().clone(),
    );
    let mut state = optimizer.init(&weights);
    let first = loss(&weights).item::<f64>();
    for _ in 0..20 {
        let (_, gradient) = value_and_grad(loss)(&weights);
        (weights, state) = optimizer.step(&weights, &gradient, &state);
    }
    assert!(loss(&weights).item::<f64>() < first / 2.0);
}

#[test]
fn a_batch_of_inputs_equals_a_loop() {
    let (model, _) = perceptron();
    let lanes = [x(), x() * 2.0, x() - 1.0];
    let batch = vmap(|x: &Tensor| run(&model, x))(&Tensor::stack(&lanes, 0));
    let one_by_one: Vec<Tensor> = lanes.iter().map(|x| run(&model, x)).collect();
    assert_eq!(
        batch.to_vec::<f64>(),
        Tensor::stack(&one_by_one, 0).to_vec::<f64>()
    );
}

#[test]
fn an_imported_model_exports_again() {
    let (model, _) = perceptron();
    let traced = trace(|x: &Tensor| run(&model, x), &x());
    let program = traced.program();
    let mut weights: Vec<Vec<f64>> = traced.captured().iter().map(Tensor::to_vec).collect();
    // The parameters after the captured tensors are values of which only the shape is read.
    weights.extend(program.params[1 + weights.len()..].iter().map(|param| {
        let shape = program.aval(*param).shape.known().unwrap();
        vec![0.0; shape.iter().product()]
    }));
    let constants = weights.iter().enumerate();
    let constants: Vec<_> = constants.map(|(i, w)| (i + 1, Elements::F64(w))).collect();
    let bytes = export(program, "again", &constants).unwrap();
    let again = Model::read(&bytes).unwrap();
    let name = again.inputs()[0].name.clone();
    let y = again.run(&[(&name, &x())]).unwrap();
    assert_eq!(y[0].to_vec::<f64>(), run(&model, &x()).to_vec::<f64>());
}

/// Returns a field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 1 << 14 && number < 16);
    let len = bytes.len();
    let head = [number << 3 | 2, (len & 0x7f) as u8 | 0x80, (len >> 7) as u8];
    [&head[..], bytes].concat()
}

fn int(number: u8, n: u8) -> Vec<u8> {
    vec![number << 3, n]
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = inputs
        .iter()
        .flat_map(|name| field(1, name.as_bytes()))
        .collect();
    bytes.extend(outputs.iter().flat_map(|name| field(2, name.as_bytes())));
    bytes.extend([field(4, op.as_bytes()), attributes.to_vec()].concat());
    field(1, &bytes)
}

/// Returns a model with an input `x` of `f32[2]`, an output `y`, and these fields of its graph.
fn model(fields: &[Vec<u8>]) -> Vec<u8> {
    let shape = field(2, &field(1, &int(1, 2)));
    let ty = field(1, &[int(1, 1), shape].concat());
    let port = |number: u8, name: &str| {
        field(number, &[field(1, name.as_bytes()), field(2, &ty)].concat())
    };
    let graph = [fields.concat(), port(11, "x"), port(12, "y")].concat();
    [int(1, 10), field(7, &graph), field(8, &int(2, 21))].concat()
}

fn tensor(name: &str, dtype: u8, len: u8, raw: &[u8]) -> Vec<u8> {
    field(
        5,
        &[
            int(1, len),
            int(2, dtype),
            field(8, name.as_bytes()),
            field(9, raw),
        ]
        .concat(),
    )
}

fn refused(bytes: &[u8]) -> String {
    Model::read(bytes)
        .expect_err("the model is broken")
        .to_string()
}

#[test]
fn a_truncated_model_is_an_error_at_each_byte() {
    let (_, bytes) = perceptron();
    for n in 0..bytes.len() {
        refused(&bytes[..n]);
    }
    assert_eq!(refused(&[]), "not a whole ONNX model: it has no graph");
    assert_eq!(
        refused(&bytes[..20]),
        "not a whole ONNX model: expected 1 more bytes, found 0"
    );
}

#[test]
fn a_changed_byte_is_an_error_or_another_model() {
    let (_, bytes) = perceptron();
    for i in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[i] ^= flip;
            if let Ok(model) = Model::read(&bytes) {
                let _ = model.run(&[("x", &x())]);
            }
        }
    }
}

#[test]
fn nodes_that_are_not_supported_are_named() {
    assert_eq!(
        refused(&model(&[node("Frobnicate", &["x"], &["y"], &[])])),
        "node `y`: `Frobnicate` is not supported: the import has no such op"
    );
    let attribute = field(
        5,
        &[field(1, b"speed"), int(3, 1), vec![0xa0, 1, 2]].concat(),
    );
    let bytes = model(&[node("Relu", &["x"], &["y"], &attribute)]);
    let run = |bytes: &[u8]| {
        let model = Model::read(bytes).unwrap();
        model
            .run(&[("x", &Tensor::from([1.0f32, 2.0]))])
            .expect_err("the node is wrong")
            .to_string()
    };
    assert_eq!(
        run(&bytes),
        "node `y`: `Relu` is not supported: its attribute `speed` is not"
    );
    let bytes = model(&[node("Relu", &["x", "x"], &["y"], &[])]);
    assert_eq!(
        run(&bytes),
        "node `y`: `Relu` is not supported: its input 1, `x`, is not"
    );
    let bytes = model(&[node("Relu", &["x"], &["y", "z"], &[])]);
    assert_eq!(
        run(&bytes),
        "node `y`: `Relu` is not supported: its output `z` is not"
    );
    let bytes = model(&[node("Add", &["x"], &["y"], &[])]);
    assert_eq!(run(&bytes), "node `y`: `Add` has no input 1");
    let bytes = model(&[
        tensor("n", 7, 1, &3i64.to_le_bytes()),
        node("Add", &["x", "n"], &["y"], &[]),
    ]);
    assert_eq!(
        run(&bytes),
        "node `y`: `Add` has inputs of f32 and i64, expected one dtype"
    );
}

#[test]
fn versions_that_are_not_known_are_named() {
    let graph = field(7, &[]);
    assert_eq!(
        refused(&[int(1, 10), graph.clone()].concat()),
        "not a whole ONNX model: it does not say the version of its operators"
    );
    assert_eq!(
        refused(&[int(1, 10), graph, field(8, &int(2, 99))].concat()),
        "not a whole ONNX model: it has operators of version 99, expected up to 28"
    );
}

#[test]
fn graphs_that_are_not_whole_are_named() {
    let cycle = [
        node("Add", &["x", "b"], &["a"], &[]),
        node("Relu", &["a"], &["b"], &[]),
        node("Relu", &["b"], &["y"], &[]),
    ];
    assert_eq!(
        refused(&model(&cycle)),
        "node `a`: `Add` reads `b`, which no input, initializer or earlier node gives: the graph has a cycle, or is not complete"
    );
    assert_eq!(refused(&model(&[])), "`y`: no node computes this output");
    let twice = [
        node("Relu", &["x"], &["y"], &[]),
        node("Abs", &["x"], &["y"], &[]),
    ];
    assert_eq!(
        refused(&model(&twice)),
        "node `y`: `Abs` computes `y`, which another part of the graph gives too"
    );
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let with = |w: Vec<u8>| model(&[w, node("Add", &["x", "w"], &["y"], &[])]);
    assert_eq!(
        refused(&with(tensor("w", 1, 2, &[0; 7]))),
        "`w`: has 7 bytes, expected 8 for f32[2]"
    );
    assert_eq!(
        refused(&with(tensor("w", 13, 2, &[0; 16]))),
        "`w`: has the dtype `uint64`, expected `float`, `double`, `float16`, `bfloat16`, `bool`, `int64` or an integer of up to 32 bits"
    );
    // A length of 2^63 - 1, twice.
    let huge = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let bytes = field(5, &[&huge[..], &huge, &int(2, 1), &field(8, b"w")].concat());
    assert_eq!(
        refused(&with(bytes)),
        "`w`: has the shape [9223372036854775807, 9223372036854775807], which cannot be addressed"
    );
    let bytes = field(5, &[&huge[..], &int(2, 9), &field(8, b"w")].concat());
    assert_eq!(
        refused(&with(bytes)),
        "`w`: the shape [9223372036854775807] has more elements than can be addressed"
    );
    // A tensor that is made from a length in the file.
    let shape = tensor("n", 7, 1, &(1i64 << 62).to_le_bytes());
    let bytes = model(&[
        shape,
        node("ConstantOfShape", &["n"], &["w"], &[]),
        node("Add", &["x", "w"], &["y"], &[]),
    ]);
    assert_eq!(
        refused(&bytes),
        "node `w`: `ConstantOfShape` makes a tensor of the shape [4611686018427387904], which has more than 2147483648 elements"
    );
}

#[test]
fn computed_shapes_are_read_inside_of_transforms() {
    let axis = field(
        5,
        &[field(1, b"axis"), int(3, 0), vec![0xa0, 1, 2]].concat(),
    );
    let graph = [
        tensor("one", 7, 1, &1i64.to_le_bytes()),
        node("Shape", &["x"], &["shape"], &[]),
        node("Concat", &["one", "shape"], &["longer"], &axis),
        node("Reshape", &["x", "longer"], &["row"], &[]),
        node("Mul", &["row", "row"], &["square"], &[]),
        node("Reshape", &["square", "shape"], &["y"], &[]),
    ];
    let model = Model::read(&model(&graph)).unwrap();
    let run = |x: &Tensor| model.run(&[("x", x)]).unwrap().remove(0);
    let x = Tensor::from([3.0f32, -4.0]);
    assert_eq!(run(&x).to_vec::<f32>(), [9.0, 16.0]);
    assert_eq!(
        grad(|x: &Tensor| run(x).sum(..))(&x).to_vec::<f32>(),
        [6.0, -8.0]
    );
    let lanes = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    assert_eq!(vmap(run)(&lanes).to_vec::<f32>(), [1.0, 4.0, 9.0, 16.0]);
    let traced = trace(run, &x);
    assert!(
        traced.program().to_string().contains("mul"),
        "{}",
        traced.program()
    );
}

#[test]
fn a_shape_that_depends_on_an_argument_of_a_transform_is_a_named_error() {
    let attribute = field(5, &[field(1, b"to"), int(3, 7), vec![0xa0, 1, 2]].concat());
    let graph = [
        node("Cast", &["x"], &["shape"], &attribute),
        node("ConstantOfShape", &["shape"], &["y"], &[]),
    ];
    let model = Model::read(&model(&graph)).unwrap();
    let x = Tensor::from([2.0f32, 1.0]);
    assert_eq!(model.run(&[("x", &x)]).unwrap()[0].shape(), [2, 1]);
    let lanes = Tensor::stack(&[&x, &x], 0);
    let errors = std::cell::RefCell::new(Vec::new());
    vmap(|x: &Tensor| {
        errors.borrow_mut().push(
            model
                .run(&[("x", x)])
                .expect_err("a lane has no elements")
                .to_string(),
        );
        x.clone()
    })(&lanes);
    let errors = errors.into_inner();
    assert!(
        errors[0].starts_with("node `y`: `ConstantOfShape`: "),
        "{errors:?}"
    );
}

#[test]
fn integers_of_few_bits_are_computed_modulo_their_size() {
    let cast = |x: &str, y: &str, to: u8| {
        let attribute = [field(1, b"to"), int(3, to), vec![0xa0, 1, 2]].concat();
        node("Cast", &[x], &[y], &field(5, &attribute))
    };
    let run = |op: &str, to: [u8; 2]| {
        let add = node(op, &["a", "b"], &["s"], &[]);
        let bytes = model(&[
            cast("x", "a", to[0]),
            cast("x", "b", to[1]),
            add,
            cast("s", "y", 1),
        ]);
        let outputs = Model::read(&bytes)
            .unwrap()
            .run(&[("x", &Tensor::from([200.0f32, -7.0]))]);
        outputs
            .map(|y| y[0].to_vec::<f32>())
            .map_err(|error| error.to_string())
    };
    // `uint8` and `int8`.
    assert_eq!(run("Add", [2, 2]).unwrap(), [144.0, 242.0]);
    assert_eq!(run("Mul", [3, 3]).unwrap(), [64.0, 49.0]);
    assert_eq!(
        run("Add", [2, 6]).unwrap_err(),
        "node `s`: `Add` has inputs of `uint8` and of another dtype"
    );
    assert_eq!(
        run("MatMul", [2, 2]).unwrap_err(),
        "node `s`: `MatMul` is not supported: its input of the dtype `uint8` is not"
    );
}

#[test]
fn inputs_and_weights_that_do_not_fit_are_named() {
    let (model, _) = perceptron();
    let failed = |inputs: &[(&str, &Tensor)]| {
        model
            .run(inputs)
            .expect_err("the inputs do not fit")
            .to_string()
    };
    assert_eq!(failed(&[]), "`x`: this input is missing");
    assert_eq!(
        failed(&[("z", &x())]),
        "`z`: the model has no such input; its inputs are [\"x\"]"
    );
    assert_eq!(
        failed(&[("x", &x()), ("x", &x())]),
        "`x`: this input is given twice"
    );
    assert_eq!(
        failed(&[("x", &x().transpose())]),
        "`x`: this input is f64[3, 2], expected f64[2, 3]"
    );
    assert_eq!(
        failed(&[("x", &x().cast(DType::F32))]),
        "`x`: this input is f32[2, 3], expected f64[2, 3]"
    );
    let mut weights = model.weights().clone();
    let v = weights.remove("v").unwrap();
    let refused = |weights: &Weights| {
        model
            .with_weights(weights)
            .expect_err("the weights do not fit")
            .to_string()
    };
    assert_eq!(refused(&weights), "`v`: this weight is missing");
    weights.insert("v".to_owned(), v.cast(DType::F32));
    assert_eq!(
        refused(&weights),
        "`v`: this weight has the dtype f32, expected f64"
    );
    weights.insert("v".to_owned(), v.transpose());
    let run = model.with_weights(&weights).unwrap().run(&[("x", &x())]);
    assert!(matches!(run, Err(ImportError::Op { op, .. }) if op == "MatMul"));
}

#[test]
fn tensors_in_other_files_are_read_from_the_folder_of_the_model_only() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("model");
    std::fs::create_dir(&inner).unwrap();
    let bytes: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(inner.join("w.bin"), &bytes).unwrap();
    std::fs::write(folder.path().join("w.bin"), &bytes).unwrap();
    let load = |location: &str, offset: &str| {
        let entry = |key: &str, value: &str| {
            field(
                13,
                &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat(),
            )
        };
        let parts = [
            int(1, 2),
            int(2, 1),
            field(8, b"w"),
            entry("location", location),
            entry("offset", offset),
            int(14, 1),
        ];
        let bytes = model(&[
            field(5, &parts.concat()),
            node("Add", &["x", "w"], &["y"], &[]),
        ]);
        std::fs::write(inner.join("model.onnx"), bytes).unwrap();
        Model::load(inner.join("model.onnx"))
    };
    let y = load("w.bin", "0")
        .unwrap()
        .run(&[("x", &Tensor::from([1.0f32, 1.0]))])
        .unwrap();
    assert_eq!(y[0].to_vec::<f32>(), [2.0, 3.0]);
    let failed = |location: &str, offset: &str| {
        load(location, offset)
            .expect_err("the data is wrong")
            .to_string()
    };
    let outside = "`w`: is in `../w.bin`, which is outside of the folder of the model";
    assert_eq!(failed("../w.bin", "0"), outside);
    let absolute = folder.path().join("w.bin").display().to_string();
    assert!(failed(&absolute, "0").ends_with("which is outside of the folder of the model"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("w.bin"), inner.join("link.bin")).unwrap();
        assert!(failed("link.bin", "0").ends_with("which is outside of the folder of the model"));
    }
    assert!(failed("missing.bin", "0").starts_with("cannot read `"));
    assert_eq!(
        failed("w.bin", "4"),
        "`w`: has the bytes 4..4+8 of `w.bin`, which has 8"
    );
    assert_eq!(
        failed("w.bin", "four"),
        "`w`: has the offset `four`, expected a number"
    );
    assert!(matches!(
        Model::load(inner.join("none.onnx")),
        Err(ImportError::Read { .. })
    ));
}
