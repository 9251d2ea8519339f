//! Tests in files: a header with the transform, a program, `----`, and the expected output.
//!
//! | header | output |
//! |---|---|
//! | `test parse` | the program as it prints |
//! | `test verify` | the faults |
//! | `test dce`, `test cse`, `test fold`, `test simplify`, `test divide`, `test means`, `test recompute` | the program after the pass |
//! | `test rematerialize 1024` | the program that holds about so many bytes, in the order of its steps |
//! | `test fuse` | the program in the order of its steps, and its groups |
//! | `test jvp wrt=x,y` | the forward-mode program |
//! | `test vjp wrt=x,y` | the primal program and the pullback |
//! | `test grad wrt=x,y` | the value and the gradients, as one program |
//! | `test hvp wrt=x,y` | the same with the change of the gradients along tangents |
//! | `test flow wrt=x,y` | a flow, the variables that have a derivative, and the pullback of each block |
//!
//! `BLESS=1 cargo test -p gradloom-ir --test filetests` writes the output into the files. Review
//! the diff.

use gradloom_ir::flow::{Flow, active};
use gradloom_ir::{Program, Var, ad, pass, verify};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_program_gives_the_expected_text() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let files = files_under(&root);
    assert!(files.len() >= 40, "{} files", files.len());
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a readable file");
        let (input, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let (header, body) = input.split_once('\n').expect("a header line");
        let name = file.strip_prefix(&root).expect("a file under the root");
        let found = match run(header, body) {
            Ok(found) => found,
            Err(why) => {
                failures.push(format!("{}: {why}", name.display()));
                continue;
            }
        };
        if bless {
            fs::write(file, format!("{input}----\n{found}\n")).expect("a writable file");
        } else if found.trim_end() != expected.trim_end() {
            let name = name.display();
            failures.push(format!("{name}: found\n{found}\nexpected\n{expected}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_under(&path));
        } else if path.extension().is_some_and(|e| e == "ir") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn run(header: &str, body: &str) -> Result<String, String> {
    let mut words = header.split_whitespace();
    if words.next() != Some("test") {
        return Err(format!("`{header}` is no header"));
    }
    let test = words.next().unwrap_or_default();
    if test == "flow" {
        return flow(body, words.next());
    }
    let program: Program = match body.parse() {
        Ok(program) => program,
        Err(e) if test == "parse" => return Ok(e.to_string()),
        Err(e) => return Err(e.to_string()),
    };
    if test == "parse" {
        return Ok(program.to_string());
    }
    let faults = verify(&program);
    if test == "verify" {
        return Ok(faults.join("\n"));
    }
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    match test {
        "dce" => checked(pass::dce(program)),
        "cse" => checked(pass::cse(program)),
        "fold" => checked(pass::dce(pass::fold(program))),
        "simplify" => checked(pass::simplify(program)),
        "divide" => checked(pass::divide(program)),
        "loop_numbers" => checked(pass::simplify(pass::with_loop_numbers(program))),
        "means" => checked(pass::without_means(program)),
        "powers" => checked(pass::without_powers(program)),
        "recompute" => checked(pass::recompute(program)),
        "rematerialize" => rematerialize(&program, words.next().and_then(|n| n.parse().ok())),
        "jvp" => {
            let jvp = ad::jvp(&program, &wrt(&program, words.next())?, ad::Calls::Joint);
            Ok(format!(
                "{}\nactive {:?}",
                checked(jvp.program)?,
                jvp.active
            ))
        }
        "grad" => {
            let grad = ad::grad_program(&program, &wrt(&program, words.next())?);
            Ok(format!(
                "{}\nnonzero {:?}",
                checked(grad.program)?,
                grad.nonzero
            ))
        }
        "hvp" => {
            let hvp = ad::hvp(&program, &wrt(&program, words.next())?);
            Ok(format!(
                "{}\nnonzero {:?}, active {:?}",
                checked(hvp.program)?,
                hvp.nonzero,
                hvp.active
            ))
        }
        "vjp" => {
            let vjp = ad::vjp(&program, &wrt(&program, words.next())?);
            let shapes = vjp.pullback.params.iter().zip(&vjp.shape_only);
            let shapes: Vec<String> = shapes
                .filter(|(_, only)| **only)
                .map(|(v, _)| vjp.pullback.show(*v))
                .collect();
            Ok(format!(
                "primal {}\npullback {}\nactive {:?}, nonzero {:?}, shapes only of [{}]",
                checked(vjp.primal)?,
                checked(vjp.pullback)?,
                vjp.active,
                vjp.nonzero,
                shapes.join(", ")
            ))
        }
        "fuse" => fuse(program),
        _ => Err(format!("there is no test `{test}`")),
    }
}

fn rematerialize(program: &Program, limit: Option<u128>) -> Result<String, String> {
    let limit = limit.ok_or("the header has no limit")?;
    let steps = pass::fuse(program);
    let Some(made) = pass::rematerialize(program, &steps, limit) else {
        return Ok("out of reach".into());
    };
    let order = made.steps.concat();
    if (0..order.len()).any(|i| order[i] != i) {
        return Err(format!("the steps {:?} are out of order", made.steps));
    }
    let text = checked(made.program)?;
    Ok(format!(
        "{text}\nsteps {:?}\nagain {:?}, {} bytes",
        made.steps, made.again, made.bytes
    ))
}

/// Returns the program in the order of its steps, followed by its groups of several equations.
fn fuse(program: Program) -> Result<String, String> {
    let steps = pass::fuse(&program);
    let mut groups = String::new();
    for step in steps.iter().filter(|step| step.len() > 1) {
        let outs = step.iter().map(|i| program.show(program.eqns[*i].out()));
        groups += &format!("\ngroup {}", outs.collect::<Vec<_>>().join(", "));
    }
    let order = steps.iter().flatten().map(|i| program.eqns[*i].clone());
    let eqns = order.collect();
    Ok(checked(Program { eqns, ..program })? + &groups)
}

fn flow(body: &str, arg: Option<&str>) -> Result<String, String> {
    let flow: Flow<String> = match body.parse() {
        Ok(flow) => flow,
        Err(e) => return Ok(format!("{e}")),
    };
    let mut out = flow.to_string();
    let again: Flow<String> = out.parse().map_err(|e| format!("{e}\nin {out}"))?;
    if again.to_string() != out {
        return Err(format!("does not round-trip:\n{out}\n{again}"));
    }
    let empty = Program::default();
    let first = flow.blocks.first().map_or(&empty, |b| &b.program);
    let params = Program {
        params: flow.params.clone(),
        ..first.clone()
    };
    let active = active(&flow.blocks, &wrt(&params, arg)?);
    let names: Vec<String> = active.iter().map(|(v, _)| first.show(v)).collect();
    out += &format!("\nactive {}", names.join(", "));
    for block in &flow.blocks {
        let faults = verify(&block.program);
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
        let vjp = ad::vjp(&block.program, &block.wrt(&active));
        let targets: Vec<String> = block.targets.iter().map(|v| first.show(*v)).collect();
        out += &format!(
            "\nblock into {}: pullback {}",
            targets.join(", "),
            checked(vjp.pullback)?
        );
    }
    Ok(out)
}

/// Returns the text of a program, after a check that it is valid and parses back.
fn checked(program: Program) -> Result<String, String> {
    let text = program.to_string();
    let faults = verify(&program);
    if !faults.is_empty() {
        return Err(format!("{}\nin {text}", faults.join("\n")));
    }
    let again: Program = text.parse().map_err(|e| format!("{e}\nin {text}"))?;
    if again.to_string() != text {
        return Err(format!("does not round-trip:\n{text}\n{again}"));
    }
    Ok(text)
}

fn wrt(program: &Program, arg: Option<&str>) -> Result<Vec<Var>, String> {
    let names = arg.and_then(|a| a.strip_prefix("wrt="));
    let names = names.ok_or("expected `wrt=`")?.split(',');
    names
        .map(|name| {
            let mut params = program.params.iter().copied();
            let found = params.find(|p| program.show(*p) == name);
            found.ok_or_else(|| format!("there is no parameter `{name}`"))
        })
        .collect()
}
