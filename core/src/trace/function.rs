//! Traces of closures and of promises.

use super::text;
use crate::error::TraceFault;
use crate::observe::{NodeOutput, TraceNode, with_lines};
use crate::raise::expect;
use crate::tensor::replay::{Bound, replay_bound};
use crate::transform::{self, AbstractTrace, Outcome, on_leaves, stand_in, trace_abstract};
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_leaves, with_physical};
use crate::{Aval, Error, Result, Targets, Tensor, Tree};
use gradloom_ir::batch::{Batch, batch};
use gradloom_ir::{Attr, Eqn, Op, Program, Static, Var, ad, pass};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// Runs `f` on arguments without elements, and returns the program that it records.
///
/// `x` gives the structure, dtypes and shapes of the argument. Its elements are not read, and nothing is
/// computed. Tensors that `f` captures are parameters of the program, after the inputs, and the trace keeps
/// their values. Loops and conditionals of Rust run while tracing; [`scan`](crate::scan()),
/// [`cond`](crate::cond()) and their relatives become operations.
///
/// # Panics
///
/// If an operation does not accept its operands, or if `f` reads a value that depends on its argument
/// ([`Error::Abstract`]). If `f` returns `Result`, these are errors instead.
#[track_caller]
pub fn trace<X, R, F>(f: F, x: &X) -> R::Wrap<Trace<X, R::Tree>>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    R::wrap(try_trace(f, x))
}

fn try_trace<X: Tree, R: Outcome>(f: impl FnOnce(&X) -> R, x: &X) -> Result<Trace<X, R::Tree>> {
    let mut y = None;
    let names = paths(x, "x");
    let inputs = leaves(x);
    let AbstractTrace {
        mut program,
        mut captured,
        nodes,
    } = with_lines(|| trace_abstract(&mut on_leaves(f, x, &mut y), &inputs, &names))?;
    let y = y.expect("the function was traced");
    share_shapes(&mut program, &mut captured);
    let mut taken = BTreeSet::new();
    for (param, path) in program.params.iter().zip(&names) {
        let name = identifier(path);
        // Different paths may have one identifier: the keys `a.b` and `a_b` of a map.
        let numbered = (2..).map(|n| format!("{name}_{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| taken.insert(name.clone()));
        program
            .names
            .insert(*param, free.expect("there are more numbers than names"));
    }
    let avals = |leaves: Vec<Tensor>| Vec::from_iter(leaves.iter().map(|leaf| leaf.aval().clone()));
    let outputs = leaves(&y);
    let like: Vec<Tensor> = outputs.iter().map(|y| stand_in(y.aval())).collect();
    Ok(Trace {
        program,
        captured,
        nodes,
        inputs: avals(inputs),
        y: with_leaves(&y, &like),
        argument: PhantomData,
    })
}

/// Removes parameters of which only the shape is read, if another parameter has that shape.
fn share_shapes(program: &mut Program, captured: &mut Vec<Bound>) {
    let n_inputs = program.params.len() - captured.len();
    let mut shared: BTreeMap<Var, Var> = BTreeMap::new();
    for (param, bound) in program.params[n_inputs..].iter().zip(&*captured) {
        let same =
            |other: &&Var| **other != *param && program.aval(**other) == program.aval(*param);
        if let Bound::Aval(_) = bound
            && let Some(other) = program.params.iter().find(same)
            && !shared.contains_key(other)
        {
            shared.insert(*param, *other);
        }
    }
    for arg in program.eqns.iter_mut().flat_map(|eqn| &mut eqn.args) {
        *arg = shared.get(arg).copied().unwrap_or(*arg);
    }
    let mut params = program.params[n_inputs..].iter();
    captured.retain(|_| {
        params
            .next()
            .is_some_and(|param| !shared.contains_key(param))
    });
    program.params.retain(|param| !shared.contains_key(param));
}

/// Appends the equation that repeats a value along a new first axis.
fn repeated(program: &mut Program, x: Var, n: usize) -> Var {
    let one = program.aval(x).clone();
    let lens = one.shape.known().unwrap_or_default();
    let lens: Vec<usize> = std::iter::once(n).chain(lens).collect();
    let shape = lens.iter().map(|len| *len as i64).collect();
    let (out, attr) = (Var(program.n_vars()), Attr(program.attrs.len() as u32));
    program.attrs.push(Static::Ints(shape));
    program.eqns.push(Eqn {
        outs: [out].into(),
        op: Op::BroadcastTo,
        attrs: [attr].into(),
        args: [x].into(),
    });
    let shape = (&lens[..]).into();
    program
        .avals
        .insert(out, gradloom_ir::Aval { shape, ..one });
    out
}

/// Returns a path as an identifier of the text form: `x.layers[1].w` is `x_layers_1_w`.
fn identifier(path: &str) -> String {
    let words = path.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("_")
}

/// The program that a closure records, see [`trace`].
///
/// Prints as text that [`parse`](super::parse) reads back.
pub struct Trace<X, Y> {
    /// `x..., captured... -> y...`.
    program: Program,
    captured: Vec<Bound>,
    /// Node of each equation, or `None` for a number beside a tensor.
    nodes: Vec<Option<NodeOutput>>,
    /// Avals of the leaves of the argument.
    inputs: Vec<Aval>,
    /// The result, with leaves without elements.
    y: Y,
    argument: PhantomData<fn(&X)>,
}

impl<X: Tree, Y: Tree> Trace<X, Y> {
    /// Returns the program: leaves of the argument, captured values -> leaves of the result.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns what the parameters after the inputs are bound to.
    #[cfg(feature = "view")]
    pub(super) fn bound(&self) -> &[Bound] {
        &self.captured
    }

    /// Returns dtype and shape of each leaf of the argument.
    pub fn inputs(&self) -> &[Aval] {
        &self.inputs
    }

    /// Returns dtype and shape of each leaf of the result.
    pub fn outputs(&self) -> Vec<Aval> {
        leaves(&self.y).iter().map(|y| y.aval().clone()).collect()
    }

    /// Returns the tensors that the closure used besides its argument, in the order of their parameters.
    ///
    /// Values of which only the shape is read are not kept.
    pub fn captured(&self) -> Vec<Tensor> {
        let captured = self.captured.iter().cloned();
        captured.filter_map(Bound::into_tensor).collect()
    }

    /// Returns the operations, each after its operands. A number beside a tensor is an attribute of the
    /// operation.
    pub fn nodes(&self) -> Vec<Arc<TraceNode>> {
        let nodes = self.nodes.iter().flatten();
        nodes.map(|output| output.node.clone()).collect()
    }

    /// Returns the line of the user's code that recorded each equation of the program, as far as it is known.
    ///
    /// Equations of a derivative have the lines of those that they differentiate.
    pub fn lines(&self) -> Vec<Option<&'static Location<'static>>> {
        let line = |eqn: &Eqn| self.program.lines.get(*eqn.outs.first()?).copied();
        self.program.eqns.iter().map(line).collect()
    }

    /// Returns the result for another argument with the dtypes and shapes that were traced.
    ///
    /// It records the operations of the program, so it can be differentiated and batched:
    /// `grad(|x| t.call(x))`, `vmap(|x| t.call(x))`.
    ///
    /// # Panics
    ///
    /// If a leaf has another dtype or shape.
    #[track_caller]
    pub fn call(&self, x: &X) -> Y {
        expect(self.try_call(x))
    }

    /// Returns the result for another argument, or an error.
    ///
    /// # Errors
    ///
    /// If a leaf has another dtype or shape.
    pub fn try_call(&self, x: &X) -> Result<Y> {
        let args = leaves(x);
        if args.len() != self.inputs.len() {
            return Err(Error::Structure {
                what: "argument",
                found: args.len(),
                expected: self.inputs.len(),
            });
        }
        for (i, (arg, expected)) in args.iter().zip(&self.inputs).enumerate() {
            if arg.aval() != expected {
                let path = paths(x, "x").swap_remove(i);
                let (found, expected) = (arg.aval().clone(), expected.to_string());
                return Err(TraceFault::Argument {
                    path,
                    found,
                    expected,
                }
                .into());
            }
        }
        let args = args.into_iter().map(Bound::Tensor);
        let args: Vec<Bound> = args.chain(self.captured.iter().cloned()).collect();
        let outs = replay_bound(&self.program, &args)?;
        let outs: Vec<Tensor> = outs.iter().map(|out| out.tensor().clone()).collect();
        Ok(with_physical(&self.y, &outs))
    }

    /// Returns the forward program `x..., captured... -> y..., residuals...` and the program of the pullback
    /// `residuals..., cotangents... -> cotangents...`.
    ///
    /// Cotangents of results that do not depend on the argument, of leaves that no result depends on, and of leaves
    /// that are not floats are left out.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::trace::trace;
    ///
    /// let t = trace(|x: &Tensor| x.sin(), &Tensor::from([1.0f32, 2.0]));
    /// let (forward, pullback) = t.vjp_programs()?;
    /// assert!(forward.to_string().contains("cos"));
    /// assert!(pullback.to_string().contains("mul"));
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If no leaf of the argument is a float, or the program has a `while_loop`, which has no reverse mode of its
    /// derivative.
    pub fn vjp_programs(&self) -> Result<(Program, Program)> {
        let params = self.program.params.iter().zip(&self.inputs);
        let floats = params.clone().filter(|(_, aval)| aval.dtype().is_float());
        let wrt: Vec<Var> = floats.map(|(x, _)| *x).collect();
        if let (Some((x, aval)), true) = (params.clone().next(), wrt.is_empty()) {
            return Err(Error::NotDifferentiable {
                path: self.program.show(*x),
                aval: aval.clone(),
            });
        }
        if ad::irreversible(&self.program).is_some() {
            return Err(crate::error::ControlFault::Irreversible.into_error("while_loop"));
        }
        let vjp = ad::vjp(&self.program, &wrt);
        Ok((vjp.primal, vjp.pullback))
    }

    /// Returns the program on `n` lanes of each leaf of the argument, along axis 0. Lanes share captured values.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::trace::trace;
    ///
    /// let t = trace(|x: &Tensor| x.sum(..), &Tensor::from([1.0f32, 2.0]));
    /// let lanes = t.vmap_program(8)?;
    /// assert!(lanes.to_string().contains("f32[8, 2]"), "{lanes}");
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an operation has no batching rule.
    pub fn vmap_program(&self, n: usize) -> Result<Program> {
        let params = 0..self.program.params.len();
        let each: Vec<bool> = params.map(|i| i < self.inputs.len()).collect();
        let batched = batch(&self.program, &each, n);
        let batched = batched.map_err(|op| crate::error::VmapFault::NoRule { op }.into_error())?;
        let Batch { mut program, each } = batched;
        for i in (0..each.len()).filter(|i| !each[*i]) {
            let out = program.outs[i];
            program.outs[i] = repeated(&mut program, out, n);
        }
        Ok(pass::simplify(program))
    }
}

impl<X, Y> fmt::Display for Trace<X, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::text(&self.program))
    }
}

impl<X, Y> fmt::Debug for Trace<X, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns the program of promises, and the tensors that it reads, which are bound to its first parameters.
///
/// The results are the leaves of `targets`. A tensor that is realised, or that a pending call of a traced
/// function promises, is a parameter. Nothing is computed.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::trace::pending;
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (program, read) = pending(&(x.tanh() * &x));
/// assert_eq!(program.to_string(), "(v0: f32[2]) {\n  v1 = tanh v0\n  v2 = mul v1, v0\n  return v2\n}");
/// assert_eq!(read[0].to_vec::<f32>(), [1.0, 2.0]);
/// ```
pub fn pending(targets: impl Targets) -> (Program, Vec<Tensor>) {
    let mut outs = Vec::new();
    targets.visit(&mut |leaf| outs.push(leaf.physical()));
    let (program, captured) = transform::pending(&outs);
    let read = captured.into_iter().filter_map(Bound::into_tensor);
    (program, read.collect())
}
