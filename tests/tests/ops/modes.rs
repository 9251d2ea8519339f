//! Runs each op on each dtype, in each mode, and compares what works with the table of the book.
//!
//! A mode is the value, `jvp`, `vjp`, `hvp` or `vmap`. The samples of an op, with another dtype in place of
//! theirs, are run by the transforms of closures. Values are compared with the definition of the op,
//! derivatives with those in `f64`, which `laws` compares with differences of values, and lanes with
//! values.

use gradloom::__private::replay;
use gradloom::{DType, Error, Tensor, hvp, jvp, vjp, vmap};
use gradloom_ir::op::{Diff, NdArray, evaluate};
use gradloom_ir::{Aval, Builder, Op, Program, Programs, SecondaryMap, Shape, Static, Var, verify};
use gradloom_tests::{input, noise, sample_programs, scale};
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The modes, in the order of the cells of [`Support`].
const MODES: [&str; 5] = ["value", "jvp", "vjp", "hvp", "vmap"];

/// What a mode of an op gives for a dtype.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Works,
    /// No float operand, no float result, or a derivative that is zero by definition.
    Zero,
    /// An error that names the op or the dtype.
    Refused,
}

type Support = [Cell; 5];

/// An op on operands of one dtype, and the same in `f64`.
struct Case {
    op: Op,
    program: Program,
    exact: Program,
    inputs: Vec<Tensor>,
    /// As `inputs`, for a second lane.
    others: Vec<Tensor>,
    tolerance: f64,
}

/// Returns the samples of an op on operands of `dtype`, or the error of each.
///
/// An op that makes elements takes their dtype as a static argument. Of another op, the float operands have the
/// dtype, or the first operand if none is a float.
fn cases(op: Op, dtype: DType) -> Vec<Result<Case, String>> {
    let samples = sample_programs(op);
    let param = |sample: &Program, i: usize| {
        let aval = sample.aval(sample.params[i]);
        aval.dtype.expect("samples have known dtypes")
    };
    let float = |sample: &Program| {
        let mut params = (0..sample.params.len()).map(|i| param(sample, i));
        params.find(|d| d.is_float())
    };
    let makes_elements = samples[0].to_string().contains("dtype=") && float(&samples[0]).is_none();
    let cases = samples.iter().filter_map(|sample| {
        let text = sample.to_string();
        let (place, main) = match makes_elements {
            true => {
                let of = |d: &DType| text.contains(&format!("dtype={d}"));
                ("dtype=", DType::ALL.into_iter().find(of)?)
            }
            false => (
                "",
                float(&samples[0]).unwrap_or_else(|| param(&samples[0], 0)),
            ),
        };
        let with = |dtype: DType| match op.control() {
            Some(_) if !dtype.is_float() => on_dtype(sample, dtype).to_string(),
            _ => text.replace(&format!("{place}{main}"), &format!("{place}{dtype}")),
        };
        let has_main = text.contains(&main.to_string());
        has_main.then(|| Case::new(op, sample, &with, dtype))
    });
    cases.collect()
}

/// Returns a program on operands of `dtype` in place of `f64`, and so those that its ops run.
///
/// An op that does not accept the dtype is replaced by one with as many operands that does: `identity`, `maximum`
/// or, for a reduction, `max`.
fn on_dtype(program: &Program, dtype: DType) -> Program {
    let of = |before: DType| if before == DType::F64 { dtype } else { before };
    let var = |vars: &SecondaryMap<Var, Var>, before: &Var| {
        *vars.get(*before).expect("operands are bound before")
    };
    let mut b = Builder::new();
    let mut vars: SecondaryMap<Var, Var> = SecondaryMap::default();
    for param in &program.params {
        let mut aval = program.aval(*param).clone();
        aval.dtype = aval.dtype.map(of);
        vars.insert(*param, b.param(aval));
    }
    for eqn in &program.eqns {
        let statics = eqn.attrs.iter().map(|attr| match program.attr(*attr) {
            Static::DType(before) => Static::DType(of(*before)),
            Static::Programs(programs) => {
                let all = programs.all().iter().map(|inside| on_dtype(inside, dtype));
                Static::Programs(Programs::new(all.collect()))
            }
            other => other.clone(),
        });
        let statics: Vec<Static> = statics.collect();
        let args: Vec<Var> = eqn.args.iter().map(|arg| var(&vars, arg)).collect();
        let n_data = eqn.op.def().operands().n_data(args.len());
        let data = &args[..n_data];
        let candidates = [
            (eqn.op, &statics[..], &args[..]),
            (Op::Identity, &[], data),
            (Op::Maximum, &[], data),
            (Op::Max, &statics[..], data),
        ];
        let shapes: Vec<&Shape> = eqn
            .outs
            .iter()
            .map(|out| &program.aval(*out).shape)
            .collect();
        let fits = |(op, statics, args): &(Op, &[Static], &[Var])| {
            let avals: Vec<&Aval> = args.iter().map(|arg| b.aval(*arg)).collect();
            let outs = op.infer(statics, &avals, eqn.outs.len());
            outs.is_ok_and(|outs| outs.iter().map(|out| &out.shape).eq(shapes.iter().copied()))
        };
        let chosen = candidates.iter().find(|candidate| fits(candidate));
        let (op, statics, args) = *chosen.unwrap_or(&candidates[0]);
        let attrs: Vec<_> = statics.iter().map(|s| b.attr(s.clone())).collect();
        let outs = b.emit_many(op, &attrs, args, eqn.outs.len());
        for (before, out) in eqn.outs.iter().zip(outs) {
            vars.insert(*before, out);
        }
    }
    let [params, outs] = [&program.params, &program.outs]
        .map(|all| all.iter().map(|out| var(&vars, out)).collect::<Vec<Var>>());
    b.finish(params, outs)
}

impl Case {
    /// Returns a sample of an op, whose text `with` writes for any dtype.
    fn new(
        op: Op,
        sample: &Program,
        with: &dyn Fn(DType) -> String,
        dtype: DType,
    ) -> Result<Case, String> {
        let of = |dtype: DType| -> Result<Program, String> {
            let program: Program = with(dtype).parse().map_err(|e| format!("{e}"))?;
            match verify(&program).first() {
                None => Ok(program),
                Some(fault) => Err(fault.to_string()),
            }
        };
        let program = of(dtype)?;
        let laws = op.def().laws();
        let lane = |k: usize| -> Vec<Tensor> {
            let params = program.params.iter().zip(&sample.params).enumerate();
            params
                .map(|(i, (param, before))| {
                    let x = input(program.aval(*param), &laws, i + k);
                    // An integer in place of a float may be a divisor.
                    let is_retyped = sample.aval(*before).dtype == Some(DType::F64);
                    match is_retyped && dtype.is_integer() {
                        true => x + 1,
                        false => x,
                    }
                })
                .collect()
        };
        let widest = if dtype.is_float() { DType::F64 } else { dtype };
        Ok(Case {
            op,
            inputs: lane(0),
            others: lane(1),
            tolerance: match program.to_string().contains("f32") {
                true => 1e-4,
                false => 1e-9,
            },
            exact: of(widest)?,
            program,
        })
    }
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.cast(DType::F64).to_vec()
}

/// Returns the float tensors of a list with wider elements.
fn widened(xs: &[Tensor]) -> Vec<Tensor> {
    let wide = |x: &Tensor| match x.dtype() {
        DType::F32 => x.cast(DType::F64),
        _ => x.clone(),
    };
    xs.iter().map(wide).collect()
}

fn floats(xs: &[Tensor]) -> Vec<Tensor> {
    let is_float = |x: &&Tensor| x.dtype().is_float();
    xs.iter().filter(is_float).cloned().collect()
}

/// Returns `inputs` with the float tensors replaced in order.
fn with_floats(inputs: &[Tensor], floats: &[Tensor]) -> Vec<Tensor> {
    let mut floats = floats.iter().cloned();
    let replaced = inputs.iter().map(|x| match x.dtype().is_float() {
        true => floats.next().expect("one for each float tensor"),
        false => x.clone(),
    });
    replaced.collect()
}

/// Returns numbers of the dtype and shape of each tensor.
fn noises(xs: &[Tensor], seed: u64) -> Vec<Tensor> {
    let one = |(i, x): (usize, &Tensor)| noise(x.shape(), seed + i as u64).cast(x.dtype());
    xs.iter().enumerate().map(one).collect()
}

impl Case {
    fn near(&self, what: &str, found: &[Tensor], expected: &[Vec<f64>]) {
        assert_eq!(found.len(), expected.len(), "{what} of\n{}", self.program);
        for (found, expected) in found.iter().zip(expected) {
            let found = numbers(found);
            assert_eq!(found.len(), expected.len(), "{what} of\n{}", self.program);
            let finite: Vec<f64> = expected.iter().copied().filter(|x| x.is_finite()).collect();
            let size = scale(&finite);
            for (a, b) in found.iter().zip(expected) {
                let near = (a - b).abs() <= self.tolerance * size;
                assert!(
                    near || a == b || a.is_nan() && b.is_nan(),
                    "{what} of\n{}\n{a} against {b}",
                    self.program
                );
            }
        }
    }

    /// Computes a mode in the dtype of the case and in `f64`, and compares the numbers.
    fn compared(
        &self,
        what: &str,
        mode: impl Fn(&Program, &[Tensor]) -> Result<Option<Vec<Tensor>>, Error>,
    ) -> Result<Cell, Error> {
        let Some(found) = mode(&self.program, &self.inputs)? else {
            return Ok(Cell::Zero);
        };
        let exact = mode(&self.exact, &widened(&self.inputs))?;
        let exact = exact.expect("the wider dtype has the derivative");
        self.near(what, &found, &exact.iter().map(numbers).collect::<Vec<_>>());
        Ok(match self.op.def().diff() {
            Diff::Zero(_) => {
                let mut all = found.iter().flat_map(numbers);
                assert!(all.all(|x| x == 0.0), "{what} of\n{}", self.program);
                Cell::Zero
            }
            _ => Cell::Works,
        })
    }

    fn value(&self) -> Result<Cell, Error> {
        let found = replay(&self.program, &self.inputs)?;
        let arrays = self.inputs.iter().map(|x| NdArray {
            shape: x.shape().to_vec(),
            data: numbers(x),
        });
        let expected = evaluate(&self.program, &arrays.collect::<Vec<_>>());
        let expected: Vec<Vec<f64>> = expected.into_iter().map(|y| y.data).collect();
        self.near("value", &found, &expected);
        Ok(Cell::Works)
    }

    fn jvp(&self) -> Result<Cell, Error> {
        self.compared("jvp", |program, inputs| {
            let f = |x: &Vec<Tensor>| replay(program, &with_floats(inputs, x));
            let x = floats(inputs);
            let (y, dy) = jvp(f, &x, &noises(&x, 1))?;
            let float = y.iter().zip(dy).filter(|(y, _)| y.dtype().is_float());
            let float: Vec<Tensor> = float.map(|(_, dy)| dy).collect();
            Ok((!x.is_empty() && !float.is_empty()).then_some(float))
        })
    }

    fn vjp(&self) -> Result<Cell, Error> {
        self.compared("vjp", |program, inputs| {
            let f = |x: &Vec<Tensor>| {
                Ok::<_, Error>(floats(&replay(program, &with_floats(inputs, x))?))
            };
            let x = floats(inputs);
            let (y, pullback) = vjp(f, &x)?;
            if x.is_empty() || y.is_empty() {
                return Ok(None);
            }
            pullback.try_call(&noises(&y, 5)).map(Some)
        })
    }

    fn hvp(&self) -> Result<Cell, Error> {
        self.compared("hvp", |program, inputs| {
            let x = floats(inputs);
            if x.is_empty() || floats(&replay(program, inputs)?).is_empty() {
                return Ok(None);
            }
            // The square makes the second derivative of a linear op depend on the op.
            let f = |x: &Vec<Tensor>| -> Result<Tensor, Error> {
                let y = floats(&replay(program, &with_floats(inputs, x))?);
                let weights = noises(&y, 9);
                let sums = y
                    .iter()
                    .zip(&weights)
                    .map(|(y, w)| (y.square() * w).sum(..));
                Ok(sums.reduce(|a, b| a + b).expect("there is a float result"))
            };
            hvp(f, &x, &noises(&x, 3)).map(Some)
        })
    }

    fn vmap(&self) -> Result<Cell, Error> {
        let lanes: Vec<Tensor> = self
            .inputs
            .iter()
            .zip(&self.others)
            .map(|(a, b)| Tensor::stack(&[a, b], 0))
            .collect();
        // An op without operands has the same results in all lanes.
        let of_lane = |(_, x): &(Tensor, Vec<Tensor>)| replay(&self.program, x);
        let found = vmap(of_lane)(&(Tensor::zeros([2], DType::F32), lanes))?;
        for (i, inputs) in [&self.inputs, &self.others].into_iter().enumerate() {
            let one: Vec<Vec<f64>> = replay(&self.program, inputs)?.iter().map(numbers).collect();
            let lane: Vec<Tensor> = found.iter().map(|y| y.select_index(0, i as i64)).collect();
            self.near("vmap", &lane, &one);
        }
        Ok(Cell::Works)
    }

    fn support(&self) -> [Result<Cell, Error>; 5] {
        [
            self.value(),
            self.jvp(),
            self.vjp(),
            self.hvp(),
            self.vmap(),
        ]
    }
}

/// Returns what an op supports for a dtype. All samples that accept the dtype have to agree, except that a
/// sample may have no derivative where another has one.
fn support(op: Op, dtype: DType) -> Support {
    let mut all: Option<Support> = None;
    let refused = |message: String| {
        let names = message.contains(&dtype.to_string()) || message.contains('`');
        assert!(names, "{op} of {dtype}: {message}");
        Cell::Refused
    };
    for case in cases(op, dtype) {
        let case = match case {
            Ok(case) => case,
            Err(message) => {
                refused(message);
                continue;
            }
        };
        let text = case.program.to_string();
        let found = case
            .support()
            .map(|cell| cell.unwrap_or_else(|e| refused(e.to_string())));
        let best = all.get_or_insert_with(|| found.clone());
        for ((best, cell), mode) in best.iter_mut().zip(found).zip(MODES) {
            let is_refused = |cell: &Cell| *cell == Cell::Refused;
            assert_eq!(
                is_refused(best),
                is_refused(&cell),
                "`{mode}` of `{op}` with another sample and with\n{text}"
            );
            *best = cell.min(best.clone());
        }
    }
    all.unwrap_or_else(|| [(); 5].map(|()| Cell::Refused))
}

/// Returns the entry of the table for what an op supports for a dtype.
fn entry(op: Op, dtype: DType) -> String {
    let support = support(op, dtype);
    let of = |cell: Cell| -> Vec<&str> {
        let named = MODES.iter().zip(&support).filter(|(_, c)| **c == cell);
        named.map(|(mode, _)| *mode).collect()
    };
    let (works, refused) = (of(Cell::Works), of(Cell::Refused));
    match (works.len(), refused.len()) {
        (5, _) => "all".to_owned(),
        (_, 5) => "error".to_owned(),
        (_, 0) => works.join(", "),
        _ => format!("{}; not {}", works.join(", "), refused.join(", ")),
    }
}

/// The dtypes in which ops compute. `small_dtypes` compares the others with them.
const COMPUTED: [DType; 5] = [DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool];

/// `BLESS=1` writes the table.
///
/// Row S1.56 of the requirements.
#[test]
fn each_op_supports_what_the_table_of_the_book_says() {
    let mut rows: BTreeMap<[String; 5], Vec<String>> = BTreeMap::new();
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        let entries = COMPUTED.map(|dtype| entry(*op, dtype));
        rows.entry(entries).or_default().push(format!("`{op}`"));
    }
    let rows = rows
        .iter()
        .map(|(entries, ops)| format!("| {} | {} |\n", entries.join(" | "), ops.join(" ")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src/dtypes-and-modes.md");
    let chapter = fs::read_to_string(&path).expect("the chapter exists");
    let header = "| ops |\n|---|---|---|---|---|---|\n";
    let (before, _) = chapter
        .split_once(header)
        .expect("the chapter ends with the table");
    let wanted = format!("{before}{header}{}", rows.collect::<String>());
    if env::var_os("BLESS").is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    assert!(
        chapter == wanted,
        "the table of dtypes and modes is out of date: `BLESS=1` writes it"
    );
}
