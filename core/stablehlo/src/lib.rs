//! Programs of gradloom as [StableHLO](https://openxla.org/stablehlo) text, for XLA and the tools around it.
//!
//! [`export`] writes a module with one function, `@main`, that has the parameters and results of a
//! program. Programs come from traced functions and closures, and derivatives are programs, too.
//!
//! ```
//! use gradloom_ir::Program;
//!
//! let program: Program = "(x: f32[2, 3], b: f32[3]) { y = add x, b  z = tanh y  return z }".parse()?;
//! let text = gradloom_stablehlo::export(&program, "layer")?;
//! assert!(text.contains("func.func public @main(%x: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32>"));
//! assert!(text.contains("stablehlo.tanh"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Equal results
//!
//! Integers, bools and random bits are equal to those of gradloom, and floats up to rounding. These differ:
//!
//! - An op that fails in gradloom has an unspecified value: integer division by zero, and an index or a
//!   label out of range. `gather` takes the nearest slice instead, and `scatter` skips the update.
//! - A singular vector is NaN where its singular value is 0.
//! - The derivative of a `while` loop runs the first turns again for each turn, because StableHLO has no
//!   memory whose size is computed. It takes time quadratic in the number of turns.
//!
//! # Errors
//!
//! [`ExportError`] lists what has no StableHLO form: host code and calls of functions whose programs are
//! elsewhere. Names as lengths, as in `f32[B, 3]`, are replaced by [`specialise`].

mod equation;
mod error;
mod ops;
mod text;

pub use error::ExportError;

use gradloom_ir::sharding::ShardingSpec;
use gradloom_ir::{Aval, Builder, Op, Program, SecondaryMap, Static, Var, pass};
use std::fmt::Write;
use text::{Text, Value};

/// Returns a module of StableHLO text with the function `@main`, which computes the program.
///
/// `name` is that of the module; characters that MLIR does not allow become `_`.
///
/// # Errors
///
/// If a length is not a number, or an op has no StableHLO form.
pub fn export(program: &Program, name: &str) -> Result<String, ExportError> {
    export_donating(program, name, &[])
}

/// Returns the module of [`export`] for a function that consumes the arguments at the positions `donated`.
///
/// XLA may store results in their memory, so a training step holds its parameters once. A donated buffer
/// cannot be read after a run.
///
/// ```
/// use gradloom_ir::Program;
///
/// let step: Program = "(w: f32[3], g: f32[3]) { next = sub w, g  return next }".parse()?;
/// let text = gradloom_stablehlo::export_donating(&step, "step", &[0])?;
/// assert!(text.contains("%w: tensor<3xf32> {jax.buffer_donor = true}, %g: tensor<3xf32>)"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If a length is not a number, an op has no StableHLO form, or there is no parameter at a position.
pub fn export_donating(
    program: &Program,
    name: &str,
    donated: &[usize],
) -> Result<String, ExportError> {
    let n_params = program.params.len();
    if let Some(&position) = donated.iter().find(|i| **i >= n_params) {
        return Err(ExportError::NoParameter { position, n_params });
    }
    // Elements of 8 and 16 bits are stored as such, and computed on in the dtypes that this library uses.
    let program = &pass::widen(program.clone());
    let mut t = Text::new();
    let mut params = Vec::with_capacity(program.params.len());
    for (i, param) in program.params.iter().enumerate() {
        let unknown = |aval| ExportError::UnknownType { op: None, aval };
        let ty = equation::type_of(program, *param).map_err(unknown)?;
        let own = program.names.get(*param).filter(|name| is_identifier(name));
        let name = own.map_or_else(|| format!("%arg.{i}"), |name| format!("%{name}"));
        params.push((t.named(&name, ty.element, &ty.shape), name));
    }
    let args: Vec<Value> = params.iter().map(|(value, _)| value.clone()).collect();
    let outs = ops::program(&mut t, program, &args)?;
    t.give("return", &outs);

    let (ins, out_specs) = specs(program);
    let mut typed = |x: &Value, spec: Option<&ShardingSpec>, donated: bool| {
        let ty = text::type_of(x.element, &x.shape);
        let mut attributes = Vec::new();
        if let Some(spec) = spec {
            let spec = ops::sharding(&mut t, spec)?;
            attributes.push(format!("sdy.sharding = #sdy.sharding{spec}"));
        }
        if donated {
            attributes.push("jax.buffer_donor = true".to_owned());
        }
        Ok(match &attributes[..] {
            [] => ty,
            all => format!("{ty} {{{}}}", all.join(", ")),
        })
    };
    let mut list = Vec::new();
    for (i, ((x, name), spec)) in params.iter().zip(ins).enumerate() {
        let ty = typed(x, spec, donated.contains(&i))?;
        list.push(format!("{name}: {ty}"));
    }
    let params = list;
    let mut results = Vec::new();
    for (x, spec) in outs.iter().zip(out_specs) {
        results.push(typed(x, spec, false)?);
    }
    let results = match &results[..] {
        [one] if !one.contains('{') => one.clone(),
        _ => format!("({})", results.join(", ")),
    };
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let mut module = String::new();
    let [meshes, body] = t.finish();
    let _ = writeln!(module, "module @m_{name} {{");
    module += &meshes;
    let _ = writeln!(
        module,
        "  func.func public @main({}) -> {results} {{",
        params.join(", ")
    );
    module += &body;
    module += "  }\n}\n";
    Ok(module)
}

/// Returns the specs of the parameters and results: those that a `sharded` op or a constraint gives them first.
fn specs(program: &Program) -> (Vec<Option<&ShardingSpec>>, Vec<Option<&ShardingSpec>>) {
    let [mut ins, mut outs]: [SecondaryMap<Var, &ShardingSpec>; 2] = Default::default();
    for eqn in &program.eqns {
        let specs = |i: usize| {
            program
                .attr(eqn.attrs[i])
                .specs()
                .map_or(&[][..], |(_, all)| all)
        };
        match eqn.op {
            Op::Sharded => {
                let of_args = eqn.args.iter().zip(specs(1));
                for (arg, spec) in of_args.filter_map(|(arg, spec)| Some((*arg, spec.as_ref()?))) {
                    if !ins.contains(arg) {
                        ins.insert(arg, spec);
                    }
                }
                let of_outs = eqn.outs.iter().zip(specs(2));
                outs.extend(of_outs.filter_map(|(out, spec)| Some((*out, spec.as_ref()?))));
            }
            Op::ShardingConstraint => {
                if let Some(spec) = program.attr(eqn.attrs[0]).sharding() {
                    if !ins.contains(eqn.args[0]) {
                        ins.insert(eqn.args[0], spec);
                    }
                    outs.insert(eqn.out(), spec);
                }
            }
            _ => {}
        }
    }
    let ins = program.params.iter().map(|v| ins.get(*v).copied());
    let outs = program.outs.iter().map(|v| outs.get(*v).copied());
    (ins.collect(), outs.collect())
}

/// Returns whether a name can be that of a value of MLIR beside the numbers of other values.
fn is_identifier(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(letters) && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns the program for parameters of the given types: lengths that are names become numbers.
///
/// # Errors
///
/// If the number of types is wrong, or an op refuses its operands.
///
/// ```
/// use gradloom_ir::{Aval, DType, Program};
///
/// let program: Program = "(x: f32[B, 3]) { y = exp x  return y }".parse()?;
/// assert!(gradloom_stablehlo::export(&program, "f").is_err());
/// let program = gradloom_stablehlo::specialise(&program, &[Aval::new(DType::F32, &[8, 3])])?;
/// assert!(gradloom_stablehlo::export(&program, "f")?.contains("tensor<8x3xf32>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn specialise(program: &Program, params: &[Aval]) -> Result<Program, ExportError> {
    if params.len() != program.params.len() {
        return Err(ExportError::Arity {
            found: params.len(),
            expected: program.params.len(),
        });
    }
    let mut b = Builder::new();
    let mut vars: SecondaryMap<Var, Var> = SecondaryMap::new();
    for (param, aval) in program.params.iter().zip(params) {
        vars.insert(*param, b.param(aval.clone()));
    }
    let find = |vars: &SecondaryMap<Var, Var>, var: Var| {
        *vars
            .get(var)
            .expect("a variable is bound before it is read")
    };
    for eqn in &program.eqns {
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
        let attrs: Vec<_> = statics.into_iter().map(|value| b.attr(value)).collect();
        let args: Vec<Var> = eqn.args.iter().map(|arg| find(&vars, *arg)).collect();
        let outs = b.try_emit(eqn.op, &attrs, &args, eqn.outs.len());
        let outs = outs.map_err(|error| ExportError::Refused(Box::new(error)))?;
        vars.extend(eqn.outs.iter().copied().zip(outs));
    }
    for (var, name) in program.names.iter() {
        if let Some(var) = vars.get(var) {
            b.name(*var, name);
        }
    }
    let [params, outs] =
        [&program.params, &program.outs].map(|all| all.iter().map(|v| find(&vars, *v)).collect());
    Ok(b.finish(params, outs))
}
