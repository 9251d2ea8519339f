//! Programs that must not compile, with their error messages.
//!
//! `TRYBUILD=overwrite cargo test -p gradloom-tests --test ui` writes the actual messages into
//! `ui/`. Review the difference.

use std::fs;
use std::path::Path;

const TOPICS: [&str; 15] = [
    "attribute",
    "call",
    "check",
    "companion",
    "expression",
    "fallback",
    "key",
    "names",
    "shape",
    "signature",
    "statement",
    "static_args",
    "tree",
    "user",
    "warning",
];

#[test]
#[cfg_attr(
    not(ui_compiler),
    ignore = "parts of the expected texts are those of rustc 1.95, and this is another compiler"
)]
fn mistakes_are_reported_at_their_location() {
    let cases = trybuild::TestCases::new();
    for topic in TOPICS {
        cases.compile_fail(format!("ui/{topic}/*.rs"));
    }
}

#[test]
fn a_mistake_has_at_most_two_errors_and_no_panic_of_the_macro() {
    let exceptions = [
        // Two mistakes, both reported in one build.
        ("statement/two_mistakes.stderr", 4),
        // rustc rejects attributes on expressions twice before it expands the macro.
        ("attribute/on_a_closure.stderr", 3),
        // rustc rejects the enum, the import, the struct, the impl and the constant that are emitted
        // inside the impl block, and does not find the struct in the constant.
        ("attribute/on_an_associated_function.stderr", 6),
        // rustc rejects both sides of `||`.
        ("expression/or_of_two_conditions.stderr", 3),
        // rustc checks the user's call, and then the calls of the two companions generated for it.
        // The first error is the user's.
        ("call/a_result_that_is_not_taken_apart.stderr", 3),
        ("call/more_results_than_there_are.stderr", 3),
        ("call/too_few_arguments.stderr", 3),
        ("call/too_many_arguments.stderr", 3),
        // rustc looks for both companions, and for the metadata of the callee.
        ("call/an_associated_function_that_is_not_traced.stderr", 3),
        ("call/a_method_that_is_not_traced.stderr", 4),
        ("call/a_method_of_an_impl_that_is_not_traced.stderr", 4),
        // The name is defined twice, and rustc reports each field that the user's struct lacks,
        // both for reads and for construction.
        ("names/of_the_struct_of_gradients.stderr", 3),
        // Its type is not a tree, which each companion needs.
        ("warning/a_wrapper_that_is_passed_as_a_tensor.stderr", 3),
        // Three functions, each with a mistake.
        ("shape/a_float_beside_an_integer_tensor.stderr", 6),
        // Three functions, each with a warning.
        ("warning/a_trait_that_is_not_traced.stderr", 3),
    ];
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let mut cases = 0;
    for topic in TOPICS {
        for entry in fs::read_dir(ui.join(topic)).expect("a folder for each topic") {
            let path = entry.expect("the folder can be read").path();
            if path.extension().is_none_or(|e| e != "stderr") {
                continue;
            }
            cases += 1;
            let name = format!("{topic}/{}", path.file_name().unwrap().display());
            let text = fs::read_to_string(&path).expect("the file is valid UTF-8");
            let errors = text.lines().filter(|l| l.starts_with("error")).count();
            let most = exceptions
                .iter()
                .find(|(exception, _)| *exception == name)
                .map_or(2, |(_, most)| *most);
            assert!((1..=most).contains(&errors), "{name}: {errors} errors");
            for word in ["panicked", "unexpected end of input"] {
                assert!(!text.contains(word), "{name}: `{word}`");
            }
        }
    }
    assert!(cases >= 150, "{cases} cases");
}

#[test]
fn the_index_names_existing_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let index = fs::read_to_string(root.join("README.md")).expect("the file is valid UTF-8");
    let files: Vec<&str> = index
        .split('`')
        .filter(|part| part.ends_with(".rs") && part.contains('/'))
        .collect();
    assert!(files.len() > 80, "{} files", files.len());
    for file in files {
        assert!(root.join(file).exists(), "{file}");
    }
}
