//! Robustness tests with randomly mutated texts.
//!
//! The parser refuses a text or returns a program. Every program that the verifier accepts can be
//! transformed, and the verifier accepts the results.
//!
//! `GRADLOOM_MUTATIONS=50000 cargo test -p gradloom-ir --test mutations` tests more texts.

use gradloom_ir::flow::Flow;
use gradloom_ir::{DType, Op, Program, Var, ad, pass, verify};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// A random number generator (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Returns the programs in `tests/programs` and the samples of the ops.
fn texts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut texts = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
        entries.sort_by_key(|entry| entry.path());
        for path in entries.into_iter().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).expect("a readable file");
                let program = text.split("----\n").next().unwrap_or_default();
                texts.extend(program.split_once('\n').map(|(_, body)| body.to_owned()));
            }
        }
    }
    let samples = Op::ALL
        .iter()
        .chain(Op::CONTROL)
        .flat_map(|op| op.def().laws().samples);
    texts.extend(samples.map(|sample| (*sample).to_owned()));
    texts
}

/// Splits a text into words, numbers, host code and other single characters.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in text.chars() {
        let word = c.is_alphanumeric() || c == '_' || c == '.';
        match tokens.last_mut() {
            Some(last) if word && in_word => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        in_word = word;
    }
    tokens
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "31",
    "33",
    "4096",
    "99999",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "1e300",
    "nan:7ff8000000000000",
    "0.5",
];

const WORDS: &[&str] = &[
    "v0",
    "v1",
    "v99999",
    "v2000000000",
    "v4294967295",
    "x",
    "y",
    "like",
    "return",
    "all",
    "true",
    "false",
    "f32",
    "f64",
    "i64",
    "bool",
    "?",
    "..",
    "B",
    "2*B",
    "B + 1",
    "-1",
    "[]",
    "[0, 0]",
    "[-1, 1]",
    "`n`",
    "`n`:[B, 3]",
    "#save",
];

const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "-9223372036854775808",
    "9223372036854775807",
    "0.5",
    "all",
    "true",
    "false",
    "f32",
    "i64",
    "[]",
    "[0]",
    "[0, 0]",
    "[1, 0]",
    "[-1, 1]",
    "[0, 1, 2]",
    "[2, -1]",
    "`n`",
    "`n`:[B, -1]",
    "`n`:[2, 3]",
];

const SHAPES: &[&str] = &[
    "[]",
    "[0]",
    "[1]",
    "[2]",
    "[3]",
    "[2, 3]",
    "[3, 2]",
    "[1, 3]",
    "[0, 3]",
    "[2, 0]",
    "[2, 2, 3]",
    "[..]",
    "[?]",
    "[?, 3]",
    "[B]",
    "[B, 3]",
    "[2, B]",
    "[B, B + 1]",
    "[B, O]",
    "[2, 9223372036854775807]",
    "[1152921504606846975]",
];

fn mutated(numbers: &mut Numbers, texts: &[String]) -> String {
    let text: &String = numbers.pick(texts);
    let mut tokens = tokens(text);
    for _ in 0..=numbers.below(3) {
        let at = numbers.below(tokens.len());
        let is_number = |t: &String| t.starts_with(|c: char| c.is_ascii_digit());
        match numbers.below(13) {
            0 => tokens[at] = (*numbers.pick(WORDS)).to_owned(),
            1 => tokens.swap_remove(at).clear(),
            2 => {
                let other = numbers.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens.insert(at, (*numbers.pick(WORDS)).to_owned()),
            4 => {
                let other = numbers.below(tokens.len());
                tokens[at] = tokens[other].clone();
            }
            5 => {
                let op = numbers.pick(Op::ALL);
                let ops: Vec<usize> = (0..tokens.len())
                    .filter(|i| Op::from_name(&tokens[*i]).is_some())
                    .collect();
                if !ops.is_empty() {
                    let at = *numbers.pick(&ops);
                    tokens[at] = op.to_string();
                }
            }
            6 | 7 => {
                let values: Vec<usize> =
                    (1..tokens.len()).filter(|i| tokens[i - 1] == "=").collect();
                if !values.is_empty() {
                    let start = *numbers.pick(&values);
                    let list = tokens[start] == "[";
                    let end = tokens[start..]
                        .iter()
                        .position(|t| t == "]" || t == "," && !list)
                        .map_or(start, |len| start + len + usize::from(list));
                    let value = (*numbers.pick(VALUES)).to_owned();
                    tokens.splice(start..end.min(tokens.len()), [value]);
                }
            }
            8 | 9 => {
                let shapes: Vec<usize> = (1..tokens.len())
                    .filter(|i| DType::from_name(&tokens[i - 1]).is_some() && tokens[*i] == "[")
                    .collect();
                if !shapes.is_empty() {
                    let start = *numbers.pick(&shapes);
                    let end = tokens[start..].iter().position(|t| t == "]");
                    let shape = (*numbers.pick(SHAPES)).to_owned();
                    tokens.splice(start..end.map_or(start, |len| start + len + 1), [shape]);
                }
            }
            _ => {
                let places: Vec<usize> = (0..tokens.len())
                    .filter(|i| is_number(&tokens[*i]))
                    .collect();
                if !places.is_empty() {
                    let at = *numbers.pick(&places);
                    tokens[at] = (*numbers.pick(NUMBERS)).to_owned();
                }
            }
        }
        if tokens.is_empty() {
            break;
        }
    }
    tokens.concat()
}

/// Returns the text of a program, or an error if the verifier refuses it.
fn accepted(what: &str, program: &Program) -> Result<String, String> {
    let text = program.to_string();
    match verify(program) {
        faults if faults.is_empty() => Ok(text),
        faults => Err(format!("{what}: {}\nin {text}", faults.join("\n"))),
    }
}

/// Checks that a valid program round-trips and that passes and transforms keep it valid.
fn keeps_its_promises(program: &Program) -> Result<(), String> {
    let text = program.to_string();
    let again: Program = text.parse().map_err(|e| format!("parse: {e}"))?;
    if accepted("print and parse", &again)? != text {
        return Err(format!("does not round-trip: {again}"));
    }
    accepted("dce", &pass::dce(program.clone()))?;
    accepted("cse", &pass::cse(program.clone()))?;
    accepted("fold", &pass::fold(program.clone()))?;
    accepted("powers", &pass::without_powers(program.clone()))?;
    accepted("simplify", &pass::simplify(program.clone()))?;
    let mut avals = program.avals.iter();
    if avals.all(|(_, aval)| aval.shape.known().is_some()) {
        let steps = pass::fuse(program);
        for limit in [0, 64, 256] {
            let made = pass::rematerialize(program, &steps, limit);
            if made.is_some_and(|made| made.program.outs.len() != program.outs.len()) {
                return Err(format!("{limit} bytes: other results"));
            }
        }
    }
    let may_differ = |v: &&Var| program.aval(**v).dtype.is_none_or(DType::is_float);
    let wrt: Vec<Var> = program.params.iter().filter(may_differ).copied().collect();
    for calls in [ad::Calls::Joint, ad::Calls::Split] {
        accepted("jvp", &ad::jvp(program, &wrt, calls).program)?;
    }
    if ad::irreversible(program).is_some() {
        return Ok(());
    }
    let vjp = ad::vjp(program, &wrt);
    accepted("the primal of vjp", &vjp.primal)?;
    accepted("the pullback of vjp", &vjp.pullback)?;
    Ok(())
}

#[test]
fn programs_that_the_verifier_accepts_can_be_transformed() {
    let rounds = std::env::var("GRADLOOM_MUTATIONS").ok();
    let rounds: usize = rounds.map_or(4000, |n| n.parse().expect("a number"));
    let seed = std::env::var("GRADLOOM_SEED").ok();
    let seed: u64 = seed.map_or(1, |n| n.parse().expect("a number"));
    let (texts, mut numbers) = (
        texts(),
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
    );
    let (mut n_parsed, mut n_accepted) = (0, 0);
    let mut broken = Vec::new();
    for _ in 0..rounds {
        let text = mutated(&mut numbers, &texts);
        let kept = catch_unwind(|| {
            let _ = text.parse::<Flow<String>>();
            let Ok(program) = text.parse::<Program>() else {
                return (0, 0, Ok(()));
            };
            match verify(&program).is_empty() {
                true => (1, 1, keeps_its_promises(&program)),
                false => (1, 0, Ok(())),
            }
        });
        match kept {
            Ok((parsed, accepted, kept)) => {
                n_parsed += parsed;
                n_accepted += accepted;
                broken.extend(kept.err().map(|why| format!("{text}\n{why}")));
            }
            Err(_) => broken.push(format!("{text}\npanics")),
        }
    }
    let counts = format!("{rounds} texts, {n_parsed} programs, {n_accepted} accepted");
    println!("{counts}");
    assert!(n_accepted > rounds / 20, "{counts}");
    let n = broken.len();
    broken.sort_by_key(String::len);
    broken.truncate(12);
    assert!(n == 0, "{counts}, {n} broken:\n\n{}", broken.join("\n\n"));
}

#[test]
fn the_memory_for_a_program_is_bounded_by_its_text() {
    let program: Program =
        "(v2000000000: f32[2], v7) { v1999999999 = tanh v2000000000 return v1999999999, v7 }"
            .parse()
            .expect("a program");
    assert!(program.n_vars() < 8192, "{}", program.n_vars());
    assert_eq!(
        accepted("it", &program),
        Ok("(v8: f32[2], v7) {\n  v9 = tanh v8\n  return v9, v7\n}".to_owned())
    );
}

#[test]
fn scopes_that_nest_too_deep_are_an_error() {
    let text = format!(
        "() {{ {} {}",
        "`for i in 0..2` {".repeat(100_000),
        "}".repeat(100_001)
    );
    let error = text.parse::<Flow<String>>().expect_err("it is too deep");
    assert_eq!(error.message, "scopes nest up to 256 deep");
}
