//! The text form of traces, and calls of programs that were read from it.

use crate::error::{TRACE_VERSION, TraceFault};
use crate::raise::catch;
use crate::tensor::replay::{Bound, replay_bound};
use crate::{Aval, Result, Tensor};
use gradloom_ir::{Dim, Eqn, Op, Program, verify};

/// Returns the text of a program, with the version of the format in its first line.
pub(super) fn text(program: &Program) -> String {
    format!("gradloom trace {TRACE_VERSION}\n{program}\n")
}

/// Parses the text of a [`Trace`](super::Trace), and verifies its program.
///
/// The text has dtypes and shapes of captured values, not their elements: they are parameters of the program,
/// after the inputs.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::trace::{parse, run, trace};
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let t = trace(|x: &Tensor| x.exp().sum(..), &x);
/// let program = parse(&t.to_string())?;
/// assert_eq!(&program.to_string(), &t.program().to_string());
/// let y = run(&program, &[x.clone()])?;
/// assert_eq!(y[0].item::<f32>(), t.call(&x).item::<f32>());
/// # Ok::<(), gradloom::Error>(())
/// ```
///
/// # Errors
///
/// If the header is missing or has another version, the text does not parse, or the program is not valid.
pub fn parse(text: &str) -> Result<Program> {
    let rest = text.strip_prefix("gradloom trace ");
    let rest = rest.ok_or(TraceFault::NoHeader)?;
    let (version, body) = rest.split_once('\n').unwrap_or((rest, ""));
    if version.trim() != TRACE_VERSION.to_string() {
        let found = version.trim().to_owned();
        return Err(TraceFault::Version { found }.into());
    }
    let parsed: Result<Program, _> = body.parse();
    let program = parsed.map_err(|error| TraceFault::Syntax {
        line: error.line + 1,
        column: error.column,
        message: error.message,
    })?;
    match verify(&program).into_iter().next() {
        Some(fault) => Err(TraceFault::Invalid(fault).into()),
        None => Ok(program),
    }
}

/// Records the operations of a program on tensors, and returns its results as promises.
///
/// Parameters of which only the shape is read need no argument, if they come last.
///
/// # Errors
///
/// If the program is not valid, calls a traced function or has an argument that host code computes; if the number of arguments does not match, or an argument does not have the
/// dtype and shape of its parameter.
pub fn run(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>> {
    if let Some(fault) = unfit(program) {
        return Err(TraceFault::Invalid(fault).into());
    }
    let is_read = |param| {
        let is_operand = program.eqns.iter().any(|eqn| eqn.data().contains(param));
        is_operand || program.outs.contains(param)
    };
    let last = program.params.iter().rposition(is_read);
    let count = || TraceFault::Count {
        found: args.len(),
        expected: last.map_or(0, |last| last + 1),
    };
    if args.len() > program.params.len() || last.is_some_and(|last| args.len() <= last) {
        return Err(count().into());
    }
    let mut bound: Vec<Bound> = Vec::new();
    for (i, param) in program.params.iter().enumerate() {
        let expected = program.aval(*param);
        bound.push(match args.get(i) {
            Some(arg) if fits(arg.aval(), expected) => Bound::Tensor(arg.clone()),
            Some(arg) => {
                return Err(TraceFault::Argument {
                    path: program.show(*param),
                    found: arg.aval().clone(),
                    expected: expected.to_string(),
                }
                .into());
            }
            None => Bound::Aval(known(expected).ok_or_else(count)?),
        });
    }
    let outs = catch(|| replay_bound(program, &bound))?;
    Ok(outs.iter().map(|out| out.tensor().clone()).collect())
}

/// Returns why a program cannot be run by its equations alone.
pub(super) fn unfit(program: &Program) -> Option<String> {
    let of_eqn = |eqn: &Eqn| {
        let text = program.show_eqn(eqn);
        if eqn.op == Op::Call {
            return Some(format!(
                "`{text}` calls a function that only its crate knows"
            ));
        }
        let is_host = eqn.attrs.iter().any(|attr| program.attr(*attr).is_host());
        is_host.then(|| format!("`{text}` has an argument that host code computes"))
    };
    let faults = verify(program).into_iter().next();
    faults.or_else(|| program.eqns.iter().find_map(of_eqn))
}

/// Returns whether a tensor has the known part of a dtype and a shape.
fn fits(found: &Aval, expected: &gradloom_ir::Aval) -> bool {
    let dtype = expected.dtype.is_none_or(|dtype| dtype == found.dtype());
    let shape = expected.shape.dims().is_none_or(|dims| {
        let lens = found.physical_shape();
        let same = |(dim, len): (&Dim, &usize)| dim.known().is_none_or(|n| n == *len);
        dims.len() == lens.len() && dims.iter().zip(lens).all(same)
    });
    dtype && shape
}

/// Returns dtype and shape, if both are known.
pub(super) fn known(aval: &gradloom_ir::Aval) -> Option<Aval> {
    Some(Aval::new(aval.dtype?, aval.shape.known()?))
}
