//! Invariants of the source tree.

mod messages;
mod modules;
mod requirements;

use gradloom_ir::composites::Role;
use gradloom_ir::op::{Eval, Method, Param};
use gradloom_ir::{Composite, Op};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the names in a section of a manifest.
fn section(manifest: &str, name: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|l| l.trim() != format!("[{name}]"))
        .skip(1)
        .take_while(|l| !l.starts_with('['))
        .filter_map(|l| l.split_once('=').map(|(k, _)| k.trim().to_owned()))
        .filter(|k| !k.starts_with('#'))
        .collect()
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn packages_depend_only_on_lower_layers() {
    assert_eq!(
        section(&read("core/maths/Cargo.toml"), "dependencies"),
        [""; 0],
        "gradloom-maths has no dependencies"
    );
    assert_eq!(
        section(&read("core/ir/Cargo.toml"), "dependencies"),
        ["gradloom-maths"],
        "gradloom-ir has no other dependency"
    );
    let view = section(&read("core/view/Cargo.toml"), "dependencies");
    let own = view.iter().filter(|name| name.starts_with("gradloom"));
    assert_eq!(
        own.collect::<Vec<_>>(),
        ["gradloom-ir"],
        "gradloom-view draws programs of the macro and of the run time"
    );
    let onnx = section(&read("core/onnx/Cargo.toml"), "dependencies");
    let own = onnx.iter().filter(|name| name.starts_with("gradloom"));
    assert_eq!(
        own.collect::<Vec<_>>(),
        ["gradloom", "gradloom-ir"],
        "gradloom-onnx imports models as functions of tensors"
    );
    assert_eq!(
        section(&read("core/stablehlo/Cargo.toml"), "dependencies"),
        ["gradloom-ir", "gradloom-maths", "half"],
        "gradloom-stablehlo exports programs of the macro and of the run time"
    );
    let kernels = section(&read("core/kernels/Cargo.toml"), "dependencies");
    assert!(
        !kernels.contains(&"gradloom".into()),
        "the kernels know no tensors"
    );
    let macros = section(&read("macros/Cargo.toml"), "dependencies");
    assert!(
        !macros.contains(&"gradloom".into()),
        "the macro does not depend on the run time"
    );
    for manifest in ["core/ir/Cargo.toml", "macros/Cargo.toml", "core/Cargo.toml"] {
        for dependency in section(&read(manifest), "dependencies") {
            let upper = ["gradloom-tests", "gradloom-examples"];
            assert!(
                !upper.contains(&dependency.as_str()),
                "{manifest} depends on {dependency}"
            );
        }
    }
}

/// Rows S1.15, S1.17, S1.36 of the requirements.
#[test]
fn each_op_is_one_file() {
    let shared = ["mod", "call"];
    let table: BTreeSet<String> = Op::ALL
        .iter()
        .map(|op| op.def().name().to_owned())
        .collect();
    assert_eq!(table.len(), Op::ALL.len(), "two ops have one name");
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(root().join("core/ir/src/op")).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Helper files, which do not define an op, begin with a module comment.
        if !shared.contains(&stem.as_str()) && !text.starts_with("//!") {
            files.insert(stem);
        }
    }
    assert_eq!(files, table, "core/ir/src/op and the list in ops.rs");
}

/// Returns how users call a method, as `x.softmax(axis)`.
fn call(op: Op, method: &Method) -> String {
    let mut operands = ["x", "y", "z"].into_iter();
    let mut statics = op.def().statics().iter();
    let args = method.params.iter().enumerate().filter_map(|(i, param)| {
        let mut operand = || match method.names.get(i) {
            Some(name) => name,
            None => operands.next().expect("at most three tensors"),
        };
        let is_receiver = i == 0 && !method.assoc;
        match param {
            Param::Data | Param::DataLike | Param::Like if is_receiver => {
                Some(operand().to_owned())
            }
            Param::Data | Param::DataLike | Param::Like => Some(format!("&{}", operand())),
            Param::List => Some("&[&x, &y]".to_owned()),
            Param::Static => statics.next().map(|of| of.name.to_owned()),
            Param::Switch(_) | Param::Number(_) | Param::All => {
                statics.next();
                None
            }
            Param::Count => None,
        }
    });
    let mut args: Vec<String> = args.collect();
    let of = match method.assoc {
        true => "Tensor::".to_owned(),
        false => args.remove(0) + ".",
    };
    format!("`{of}{}({})`", method.name, args.join(", "))
}

/// Returns the row of an op in the table of the book.
fn row(op: Op) -> String {
    let def = op.def();
    let calls: Vec<String> = def.methods().iter().map(|m| call(op, m)).collect();
    let mut paragraphs = op.doc().split("\n\n").map(|text| {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.join(" ")
    });
    let result = paragraphs.next().expect("an op is documented");
    let shapes = match def.eval() {
        Eval::Unary(_) => "Same shape.".to_owned(),
        Eval::Test(_) => "Same shape, dtype `bool`.".to_owned(),
        Eval::Bits(fns) if fns.n_operands() == 1 => "Same shape.".to_owned(),
        Eval::Binary(_) | Eval::Bits(_) => "Broadcast.".to_owned(),
        Eval::Compare(_) => "Broadcast, dtype `bool`.".to_owned(),
        _ => paragraphs
            .next()
            .unwrap_or_else(|| panic!("the entry of `{op}` in ops.rs says which shapes it has")),
    };
    let cells = [format!("`{op}`"), calls.join(", "), shapes, result];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the row of a composite method in the table of the book.
fn composite_row(method: &Composite) -> String {
    let arg = |(name, role): &(&str, Role)| match role {
        Role::Tensor | Role::Operand | Role::Other => format!("&{name}"),
        Role::Function => format!("|x| {name}(x)"),
        _ => (*name).to_owned(),
    };
    let args: Vec<String> = method.params[1..].iter().map(arg).collect();
    let (receiver, name) = (method.params[0].0, method.name);
    let doc: Vec<&str> = method.doc.lines().map(str::trim).collect();
    let lines = doc.split(|line| line.is_empty()).next().unwrap_or_default();
    let result = lines
        .join(" ")
        .replace("[`Tensor::", "`")
        .replace("`]", "`");
    let result = result.replace('|', "\\|");
    let call = format!("{receiver}.{name}({})", args.join(", ")).replace('|', "\\|");
    format!("| `{call}` | {result} |\n")
}

/// Returns a chapter with other rows in the table with this header.
fn with_rows(chapter: &str, header: &str, rows: &str) -> String {
    let (before, table) = chapter.split_once(header).expect("the chapter has a table");
    let after = table.split_once("\n\n").expect("text follows the table").1;
    format!("{before}{header}{rows}\n{after}")
}

/// `BLESS=1` writes the tables.
#[test]
fn the_tables_of_the_book_are_the_lists_of_ops_and_of_composite_methods() {
    let path = "docs/book/src/operations.md";
    let chapter = read(path);
    let ops: String = Op::ALL.iter().map(|op| row(*op)).collect();
    let composites: String = Composite::ALL.iter().map(composite_row).collect();
    let wanted = with_rows(&chapter, "| result |\n|---|---|---|---|\n", &ops);
    let wanted = with_rows(&wanted, "| result |\n|---|---|\n", &composites);
    if std::env::var_os("BLESS").is_some() {
        fs::write(root().join(path), wanted).unwrap();
        return;
    }
    assert!(
        chapter == wanted,
        "{path} and the lists in core/ir/src differ; `BLESS=1` writes the tables"
    );
}

#[test]
fn unsafe_code_is_in_the_kernels_the_c_interface_and_the_map_of_a_file_only() {
    const MAP_OF_A_FILE: [&str; 4] = [
        "core/files/src/loader.rs",
        "core/files/src/tensor_file.rs",
        "core/files/tests/mapped.rs",
        "core/files/tests/mapped_memory.rs",
    ];
    let mut files = Vec::new();
    for dir in ["core", "macros", "tests", "examples"] {
        rust_files(&root().join(dir), &mut files);
    }
    for file in files {
        let is_kernel = |c: std::path::Component| {
            ["kernel", "kernels", "pjrt"]
                .iter()
                .any(|k| c.as_os_str() == *k)
        };
        let allowed = file.components().any(is_kernel)
            || MAP_OF_A_FILE.iter().any(|path| file.ends_with(path))
            || file.ends_with("tests/tests/tidy/main.rs");
        let text = fs::read_to_string(&file).unwrap();
        let found = text.lines().any(|l| {
            l.contains("unsafe {") || l.contains("unsafe impl") || l.contains("unsafe fn ")
        });
        let mentions_only = file
            .components()
            .any(|c| c.as_os_str() == "macros" || c.as_os_str() == "ui");
        assert!(
            allowed || mentions_only || !found,
            "`unsafe` in {}",
            file.display()
        );
    }
}

#[test]
fn the_examples_of_the_documents_are_the_files_that_run() {
    for (page, name) in [
        ("README.md", "first_gradient"),
        ("docs/book/src/derivatives.md", "both_modes"),
        ("docs/book/src/control-flow.md", "square_root"),
    ] {
        let file = format!("examples/src/bin/{name}.rs");
        let example = read(&file);
        let lines = example.lines().filter(|l| !l.starts_with("//!"));
        let body = lines.collect::<Vec<_>>().join("\n");
        assert!(
            read(page).contains(body.trim()),
            "{page} does not hold {file} as it is"
        );
    }
}

/// The files with this extension in a folder, without folders below it, in order.
fn files_in(dir: &str, extension: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(dir)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == extension) {
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn every_chapter_is_tested_and_listed() {
    let (tested, summary) = (read("docs/book/lib.rs"), read("docs/book/src/SUMMARY.md"));
    for chapter in files_in("docs/book/src", "md") {
        if chapter != "SUMMARY.md" {
            assert!(
                tested.contains(&format!("\"{chapter}\"")),
                "{chapter} is not in docs/book/lib.rs"
            );
            assert!(
                summary.contains(&format!("({chapter})")),
                "{chapter} is not in SUMMARY.md"
            );
        }
    }
}

/// A unit test in them would not run.
#[test]
fn targets_that_are_not_built_for_unit_tests_have_none() {
    let mut files = Vec::new();
    let libraries = ["data", "maths", "mpi", "nn", "onnx", "stablehlo", "trace"];
    for library in libraries.map(|name| format!("core/{name}")) {
        assert!(read(&format!("{library}/Cargo.toml")).contains("[lib]\ntest = false"));
        rust_files(&root().join(library).join("src"), &mut files);
    }
    for package in ["examples", "tests"] {
        assert!(read(&format!("{package}/Cargo.toml")).contains("test = false"));
        rust_files(&root().join(package).join("src/bin"), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("#[test]"), "a test in {}", file.display());
    }
}

#[test]
fn every_example_is_in_the_index() {
    let index = read("examples/README.md");
    for example in files_in("examples/src/bin", "rs") {
        let name = example.trim_end_matches(".rs");
        assert!(
            index.contains(&format!("--bin {name}")),
            "{example} is not in examples/README.md"
        );
    }
}

/// The names of the variants of an enum, as its source has them.
fn variants(source: &str, name: &str) -> Vec<String> {
    let body = source
        .lines()
        .skip_while(|l| !l.contains(&format!("enum {name} {{")));
    body.skip(1)
        .take_while(|l| *l != "}")
        .filter_map(|l| l.strip_prefix("    "))
        .filter(|l| l.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|l| l.split([' ', '(', ',']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_error_index_has_every_error() {
    let index = read("docs/book/src/error-index.md");
    let errors = variants(&read("core/src/error.rs"), "Error");
    let faults = variants(&read("core/ir/src/fault.rs"), "Fault");
    assert!(
        errors.len() > 10 && faults.len() > 15,
        "{errors:?} {faults:?}"
    );
    for name in errors.iter().chain(&faults) {
        assert!(
            index.contains(&format!("| `{name}` |")),
            "`{name}` is not in error-index.md"
        );
    }
}

/// The text of a Markdown file outside of blocks of code.
fn prose(text: &str) -> String {
    let blocks = text.split("\n```");
    blocks.step_by(2).collect()
}

#[test]
fn links_between_documents_lead_to_files() {
    let mut pages: Vec<String> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(String::from)
        .into();
    pages.extend(
        [
            "core/ARCHITECTURE.md",
            "examples/README.md",
            "tests/README.md",
        ]
        .map(String::from),
    );
    for (folder, name) in [("docs/book/src", "docs/book/src"), ("docs", "docs")] {
        pages.extend(files_in(folder, "md").iter().map(|f| format!("{name}/{f}")));
    }
    for page in pages {
        let text = prose(&read(&page));
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap();
            let folder = root().join(&page);
            let folder = folder.parent().unwrap();
            assert!(folder.join(file).exists(), "{page} links to {link}");
        }
    }
}

#[test]
fn the_documents_of_the_code_name_paths_that_are_there() {
    for page in ["core/ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(page);
        let spans = text.split('`').skip(1).step_by(2);
        let folders = ["core/", "macros/", "tests/", "examples/", "docs/"];
        let is_path = |span: &&str| {
            let plain = !span.contains([' ', '<', '*', ':']);
            plain && folders.iter().any(|folder| span.starts_with(folder))
        };
        for path in spans.filter(is_path) {
            assert!(root().join(path).exists(), "{page} names `{path}`");
        }
    }
}

#[test]
fn the_documents_for_a_first_look_stay_short() {
    for (page, lines) in [("README.md", 150), ("core/ARCHITECTURE.md", 250)] {
        let found = read(page).lines().count();
        assert!(found <= lines, "{page} has {found} lines");
    }
}

#[test]
fn the_ci_script_runs_the_test_command_of_the_readme() {
    assert!(read("README.md").contains("cargo test --workspace"));
    assert!(read(".ci/run").contains("cargo test --workspace"));
    assert!(read(".github/workflows/ci.yml").contains("run: .ci/run"));
}

#[test]
fn no_code_is_unfinished_or_ignored() {
    let mut files = Vec::new();
    for dir in ["core", "macros", "examples"] {
        rust_files(&root().join(dir), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for word in ["todo!(", "unimplemented!(", "#[ignore"] {
            assert!(!text.contains(word), "`{word}` in {}", file.display());
        }
    }
}
