//! Each method and function of `Tensor` in a traced function: lowered, read, or recorded as a step; and
//! the tables of methods of keys and of transforms.

use crate::method_table::{BUILDERS, FUNCTIONS, METHODS, class};
use crate::program::Body;
use crate::traced::body_of;
use gradloom_ir::composites::Role;
use gradloom_ir::op::{Method, Param};
use gradloom_ir::{Composite, Op, StaticKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Calls of methods and functions that neither the table of ops nor that of composites lists.
const BY_HAND: &[(&str, &str)] = &[
    ("add_at", "x.add_at((0, 1..3), y)"),
    ("aval", "x * x.aval().shape()[0] as f64"),
    ("batch_dims", "x * x.batch_dims() as f64"),
    ("batch_shape", "x * x.batch_shape().len() as f64"),
    ("chunks", "{ let parts = x.chunks(2, 0); parts[0].sin() }"),
    ("decr_batch_dims", "x.decr_batch_dims(1)"),
    ("dim", "x.reshape([x.dim(0), -1])"),
    ("dtype", "x * x.dtype().size() as f64"),
    ("einsum", "Tensor::einsum(\"...ij,...jk->...ik\", &[x, y])"),
    (
        "from_ndarray",
        "x * Tensor::from_ndarray(&Array::zeros([2]))",
    ),
    (
        "from_vec",
        "x * Tensor::from_vec(vec![1.0; x.dim(0)], [x.dim(0)])",
    ),
    ("i", "x.i((0, 1..3, ..))"),
    ("incr_batch_dims", "x.incr_batch_dims(1)"),
    (
        "is_realised",
        "if x.is_realised() { x.sin() } else { x.cos() }",
    ),
    ("item", "x * x.item::<f64>()"),
    ("bartlett", "x * Tensor::bartlett(x.dim(0), DType::F32)"),
    ("blackman", "x * Tensor::blackman(x.dim(0), DType::F32)"),
    (
        "geomspace",
        "x * Tensor::geomspace(1.0, 2.0, x.dim(0), DType::F32)",
    ),
    ("hamming", "x * Tensor::hamming(x.dim(0), DType::F32)"),
    ("hann", "x * Tensor::hann(x.dim(0), DType::F32)"),
    ("tri", "x * Tensor::tri(x.dim(0), x.dim(1), 0, DType::F32)"),
    (
        "tril_indices",
        "x * Tensor::tril_indices(x.dim(0), x.dim(1), 0).row(0)",
    ),
    (
        "triu_indices",
        "x * Tensor::triu_indices(x.dim(0), x.dim(1), 0).row(0)",
    ),
    (
        "linspace",
        "x * Tensor::linspace(0.0, 1.0, x.dim(0), DType::F32)",
    ),
    (
        "logspace",
        "x * Tensor::logspace(0.0, 1.0, x.dim(0), DType::F32)",
    ),
    (
        "meshgrid",
        "{ let grid = Tensor::meshgrid(&[x, y]); &grid[0] * &grid[1] }",
    ),
    (
        "move_axis_from_batch_dims",
        "x.move_axis_from_batch_dims(0, 0)",
    ),
    ("move_axis_to_batch_dims", "x.move_axis_to_batch_dims(0, 0)"),
    ("numel", "x / x.numel() as f64"),
    ("physical_shape", "x * x.physical_shape().len() as f64"),
    ("rank", "x * x.rank() as f64"),
    ("rows", "x.rows().map(|row| row.sin()).sum::<Tensor>()"),
    ("scalar", "x * Tensor::scalar(2.0)"),
    ("set", "x.set((0, 1..3), y)"),
    ("shape", "x.reshape(x.shape())"),
    ("split_every", "x.split_every(2, 0)[0].clone()"),
    (
        "to_ndarray",
        "x * Tensor::from_ndarray(&x.to_ndarray::<f64>())",
    ),
    ("to_vec", "x * Tensor::from(x.to_vec::<f64>())"),
    (
        "try_from_bytes",
        "x * Tensor::try_from_bytes::<f64>(vec![0u8; 8], [1]).unwrap()",
    ),
    (
        "try_from_le_bytes",
        "x * Tensor::try_from_le_bytes(DType::F64, &[0u8; 8], [1]).unwrap()",
    ),
    ("to_le_bytes", "x * x.to_le_bytes().len() as f64"),
    (
        "try_to_le_bytes",
        "x * x.try_to_le_bytes().unwrap().len() as f64",
    ),
    (
        "try_from_vec",
        "x * Tensor::try_from_vec(vec![1.0], [1]).unwrap()",
    ),
    ("try_item", "x * x.try_item::<f64>().unwrap()"),
    (
        "try_to_vec",
        "x * Tensor::from(x.try_to_vec::<f64>().unwrap())",
    ),
    ("unbind_all", "x.unbind_all(0)[0].clone()"),
];

/// Arguments by the kind of a static.
fn argument(kind: StaticKind) -> &'static str {
    match kind {
        StaticKind::DType => "DType::F64",
        StaticKind::Number | StaticKind::Fill | StaticKind::Epsilon | StaticKind::Probability => {
            "0.5"
        }
        StaticKind::Flag | StaticKind::KnownFlag => "true",
        StaticKind::Permutation | StaticKind::Shape | StaticKind::Reshape => "[0, 1]",
        StaticKind::Starts | StaticKind::Stops | StaticKind::Steps | StaticKind::Sizes => "[1, 1]",
        _ => "1",
    }
}

/// Returns a call of a method of the table of ops.
fn op_call(op: Op, method: &Method) -> String {
    let kinds = op.def().statics();
    let (mut args, mut n_statics) = (Vec::new(), 0);
    for param in method.params {
        match param {
            Param::Data | Param::DataLike | Param::Like => args.push(match args.len() {
                0 if !method.assoc => "x".to_owned(),
                _ => "y".to_owned(),
            }),
            Param::List => args.push("&[x, y]".to_owned()),
            Param::Static => args.push(argument(kinds[n_statics].kind).to_owned()),
            Param::Switch(_) | Param::Number(_) | Param::All | Param::Count => {}
        }
        n_statics += matches!(
            param,
            Param::Static | Param::Switch(_) | Param::Number(_) | Param::All
        ) as usize;
    }
    let count = match method.params.contains(&Param::Count) {
        true => "::<2>",
        false => "",
    };
    let call = match method.assoc {
        true => format!("Tensor::{}({})", method.name, args.join(", ")),
        false => format!("x.{}{count}({})", method.name, args[1..].join(", ")),
    };
    match method.results > 1 || method.params.contains(&Param::Count) {
        true => {
            let (open, close) = if count.is_empty() {
                ('(', ')')
            } else {
                ('[', ']')
            };
            let names: Vec<String> = (0..method.results.max(2))
                .map(|i| format!("p{i}"))
                .collect();
            format!("{{ let {open}{}{close} = {call}; p0 }}", names.join(", "))
        }
        false => call,
    }
}

/// Returns a call of a composite method.
fn composite_call(method: &Composite) -> String {
    let arg = |(_, role): &(&str, Role)| match role {
        Role::Tensor | Role::Operand | Role::Other => "y",
        Role::Float => "0.5",
        Role::Int | Role::Count | Role::Static => "1",
        Role::Counts => "[1, 1]",
        Role::Pairs => "(&[0], &[0])",
        Role::Key => "key.duplicate()",
        Role::Function => "|x| x.sin()",
    };
    let args: Vec<&str> = method.params[1..].iter().map(arg).collect();
    format!("x.{}({})", method.name, args.join(", "))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the public methods and functions of a type that the files of a folder of `core/src` define.
fn written(folder: &str, ty: &str) -> Vec<syn::Signature> {
    let mut written = Vec::new();
    for entry in fs::read_dir(root().join("core/src").join(folder)).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(path).expect("the source");
        let file = syn::parse_file(&source).expect("the source parses");
        let of_type = |item: &syn::Item| match item {
            syn::Item::Impl(block) if block.trait_.is_none() => match &*block.self_ty {
                syn::Type::Path(path)
                    if path.path.segments.last().is_some_and(|s| s.ident == ty) =>
                {
                    Some(block.items.clone())
                }
                _ => None,
            },
            _ => None,
        };
        for item in file.items.iter().filter_map(of_type).flatten() {
            if let syn::ImplItem::Fn(f) = item
                && matches!(f.vis, syn::Visibility::Public(_))
            {
                written.push(f.sig);
            }
        }
    }
    written
}

/// Returns their names, for the methods or for the functions without a receiver.
fn names(written: &[syn::Signature], methods: bool) -> BTreeSet<String> {
    let written = written.iter();
    let written = written.filter(|sig| sig.receiver().is_some() == methods);
    written.map(|sig| sig.ident.to_string()).collect()
}

#[test]
fn the_methods_of_a_key_are_those_of_the_table() {
    let written = written("random", "Key");
    let rows = METHODS.iter().filter(|row| row.of == class::KEY);
    let listed: BTreeSet<String> = rows
        .flat_map(|row| row.names)
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(listed, names(&written, true));
    for name in names(&written, false) {
        let path = format!("Key::{name}");
        let mut known = FUNCTIONS.iter().flat_map(|(names, ..)| *names);
        assert!(known.any(|name| *name == path), "`{path}` is not known");
    }
}

#[test]
fn the_methods_of_types_that_hold_a_function_are_those_of_the_table() {
    for (ty, methods) in BUILDERS {
        let written = written("transform", ty);
        // `Clone` is derived.
        let mut found = names(&written, true);
        found.insert("clone".to_owned());
        let listed: BTreeSet<String> = methods.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed, found, "{ty}");
        assert_eq!(names(&written, false), BTreeSet::from(["new".to_owned()]));
    }
}

/// Returns what becomes of an expression in a traced function.
fn fate(call: &str) -> String {
    let source =
        format!("fn f(x: &Tensor, y: &Tensor, key: Key) -> Tensor {{ let z = {call}; z }}");
    match body_of(&source) {
        (_, errors) if !errors.is_empty() => format!("error: {}", errors.join("; ")),
        (Body::Recorded(reason), _) => format!("recorded: {reason}"),
        (Body::Compiled(flow), _) => match flow.text().contains("call[") {
            true => "step".to_owned(),
            false => "lowered".to_owned(),
        },
    }
}

/// Methods and functions that are not lowered. `limits.md` of the book gives the reasons.
const NOT_LOWERED: &[(&str, &str)] = &[
    ("chunks", "step"),
    (
        "decr_batch_dims",
        "recorded: it changes batch prefixes by `decr_batch_dims`",
    ),
    (
        "incr_batch_dims",
        "recorded: it changes batch prefixes by `incr_batch_dims`",
    ),
    ("meshgrid", "step"),
    (
        "move_axis_from_batch_dims",
        "recorded: it changes batch prefixes by `move_axis_from_batch_dims`",
    ),
    (
        "move_axis_to_batch_dims",
        "recorded: it changes batch prefixes by `move_axis_to_batch_dims`",
    ),
    ("nan_median", "step"),
    ("nan_quantile", "step"),
    ("poch", "step"),
    ("rows", "recorded: the method `rows` at line 1"),
    ("split_every", "step"),
    ("unbind_all", "step"),
];

#[test]
fn each_method_of_a_tensor_is_lowered_or_recorded_for_a_reason() {
    let mut calls: BTreeMap<String, String> = BTreeMap::new();
    for op in Op::ALL {
        for method in op.def().methods() {
            calls.insert(method.name.to_owned(), op_call(*op, &method));
        }
    }
    for method in Composite::ALL {
        calls.insert(method.name.to_owned(), composite_call(method));
    }
    for (name, call) in BY_HAND {
        calls.insert((*name).to_owned(), (*call).to_owned());
    }
    let missing: Vec<String> = written("tensor", "Tensor")
        .into_iter()
        .map(|sig| sig.ident.to_string())
        .filter(|n| !calls.contains_key(n))
        .collect();
    assert!(missing.is_empty(), "no call in this test of {missing:?}");
    let fates = calls.iter().map(|(name, call)| (&**name, fate(call)));
    let others: Vec<(&str, String)> = fates.filter(|(_, fate)| fate != "lowered").collect();
    let expected: Vec<(&str, String)> = NOT_LOWERED
        .iter()
        .map(|(name, fate)| (*name, (*fate).to_owned()))
        .collect();
    let limits = fs::read_to_string(root().join("docs/book/src/limits.md")).expect("the chapter");
    for (name, _) in NOT_LOWERED {
        assert!(
            limits.contains(&format!("`{name}`")),
            "`{name}` is not in limits.md"
        );
    }
    let listed = |all: &[(&str, String)]| -> String {
        all.iter()
            .map(|(name, fate)| format!("{name}: {fate}\n"))
            .collect()
    };
    assert!(others == expected, "found:\n{}", listed(&others));
}
