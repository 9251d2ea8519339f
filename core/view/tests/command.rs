//! The binary `gradloom-view`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn program(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    folder
        .join(name)
        .to_str()
        .expect("a path in UTF-8")
        .to_owned()
}

fn run(args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gradloom-view"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // It does not read its input if the arguments are wrong.
    let _ = child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes());
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("the binary ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

const SMALL: &str = "(x: f32[3]) {\n  y = tanh x\n  return y\n}\n";

#[test]
fn each_format_is_written() {
    let (code, html, errors) = run(&[&program("dense.txt")], "");
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<h1>dense</h1>"));
    let starts = [
        ("html", "<!DOCTYPE html>"),
        ("svg", "<svg "),
        ("dot", "digraph program {"),
        ("text", SMALL),
    ];
    for (format, start) in starts {
        let (code, text, errors) = run(&["--format", format], SMALL);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(text.starts_with(start), "{format}: {text}");
    }
}

#[test]
fn the_format_is_that_of_the_name_of_the_output() {
    let folder = std::env::temp_dir().join(format!("gradloom-view-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, start) in [
        ("a.svg", "<svg "),
        ("a.dot", "digraph"),
        ("a.html", "<!DOCTYPE"),
        ("a.txt", "(x"),
        ("a", "<!DOCTYPE"),
    ] {
        let file: PathBuf = folder.join(name);
        let (code, out, _) = run(&["-", "-o", file.to_str().expect("UTF-8")], SMALL);
        assert_eq!((code, out.as_str()), (Some(0), ""));
        let text = std::fs::read_to_string(&file).expect("a file");
        assert!(text.starts_with(start), "{name}");
    }
    std::fs::remove_dir_all(folder).expect("the folder is removed");
}

#[test]
fn the_backward_program_and_the_plan_are_shown() {
    let plan = program("flow.txt");
    let (code, html, _) = run(
        &[
            &program("digits.txt"),
            "--backward",
            &program("dense.txt"),
            "--plan",
            &plan,
            "--title",
            "both",
        ],
        "",
    );
    assert_eq!(code, Some(0));
    for part in [
        "<h1>both</h1>",
        "id=\"f-e2\"",
        "id=\"b-e2\"",
        "id=\"tab-plan\"",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let (code, html, _) = run(&[&program("digits.txt"), "--vjp"], "");
    assert_eq!(code, Some(0));
    assert!(html.contains("ct_w1"));
}

#[track_caller]
fn fails(args: &[&str], input: &str, code: i32, message: &str) {
    let (found, out, errors) = run(args, input);
    assert_eq!((found, out.as_str()), (Some(code), ""), "{errors}");
    let message = format!("gradloom-view: {message}");
    assert!(errors.starts_with(&message), "{errors}");
}

#[test]
fn wrong_usage_has_the_exit_code_1() {
    fails(
        &["--nothing"],
        "",
        1,
        "there is no option `--nothing`\n\nusage: ",
    );
    fails(&["--format", "png"], "", 1, "there is no format `png`");
    fails(&["--format"], "", 1, "`--format` needs a value");
    fails(&["a", "b"], "", 1, "`b` is a second input");
    fails(
        &["--vjp", "--backward", "b"],
        "",
        1,
        "`--vjp` and `--backward` exclude each other",
    );
    fails(
        &["-o", "/nowhere/a.svg"],
        SMALL,
        1,
        "cannot write /nowhere/a.svg: ",
    );
}

/// An option that only a page can show is an error with any other format, however that is chosen.
#[test]
fn options_of_the_page_need_the_format_html() {
    let file = program("dense.txt");
    let options: [&[&str]; 4] = [
        &["--vjp"],
        &["--backward", &file],
        &["--plan", &file],
        &["--title", "dense"],
    ];
    for option in options {
        for format in ["svg", "dot", "text"] {
            let name = option[0];
            let message = format!(
                "`{name}` needs the format `html`, and the format is `{format}`\n\nusage: "
            );
            fails(
                &[option, &["--format", format]].concat(),
                SMALL,
                1,
                &message,
            );
            let output = format!("/nowhere/a.{format}");
            fails(&[option, &["-o", &output]].concat(), SMALL, 1, &message);
        }
        let (code, html, errors) = run(&[option, &["--format", "html"]].concat(), SMALL);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(html.starts_with("<!DOCTYPE html>"));
    }
}

#[test]
fn bad_input_has_the_exit_code_2_and_names_the_line() {
    let text = "(x: f32[3]) {\n  y = tanh x\n  z = tangens y\n  return z\n}\n";
    fails(
        &[],
        text,
        2,
        "the standard input:3:7: there is no op `tangens`\n",
    );
    // The place is that of the parser which comes further.
    let text = "(x) {\n  `if c` {\n    y = tangens x\n  }\n  return x\n}\n";
    fails(
        &[],
        text,
        2,
        "the standard input:3:9: there is no op `tangens`\n",
    );
    fails(
        &[],
        "",
        2,
        "the standard input:1:1: expected `(`, found the end\n",
    );
    fails(&["/nowhere/f.txt"], "", 2, "cannot read /nowhere/f.txt: ");
    fails(
        &[&program("flow.txt"), "--vjp"],
        "",
        2,
        &format!(
            "{}: `--vjp` needs a program without host control flow\n",
            program("flow.txt")
        ),
    );
}

#[test]
fn a_saved_trace_is_read() {
    let trace = format!("gradloom trace 1\n{SMALL}");
    let expected = (Some(0), SMALL.to_owned(), String::new());
    assert_eq!(run(&["-f", "text"], &trace), expected);
    let message = "the standard input:3:7: there is no op `tangens`\n";
    fails(&[], &trace.replace("tanh", "tangens"), 2, message);
    let message = "the standard input:1:16: traces of version `9` are not supported, only `1`\n";
    fails(&[], &trace.replace('1', "9"), 2, message);
}

#[test]
fn a_fault_is_a_warning() {
    let (code, out, errors) = run(
        &["-f", "dot"],
        "(x: f32[2], y: f32[3]) { z = add x, y return z }",
    );
    assert_eq!(code, Some(0));
    assert!(out.starts_with("digraph"));
    assert!(
        errors.starts_with("gradloom-view: warning: the standard input: "),
        "{errors}"
    );
}

#[test]
fn help_is_printed() {
    let (code, out, errors) = run(&["--help"], "");
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.starts_with("usage: gradloom-view"));
}
