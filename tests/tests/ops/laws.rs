//! Laws that every op of the table obeys. They cover an added op automatically.

use gradloom::__private::replay;
use gradloom::{Tensor, vjp};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::op::{Axes, Axis, Diff, OperandRanges, Range};
use gradloom_ir::sharding::Reduction;
use gradloom_ir::{Aval, Builder, Op, Program, Shape, Static, Var, pass, verify};
use gradloom_tests::{dot, float_params, input, noise, nudged, sample_programs, scale};

/// A sample program of an op, with inputs.
struct Case {
    op: Op,
    program: Program,
    wrt: Vec<Var>,
    inputs: Vec<Tensor>,
}

impl Case {
    fn run(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        replay(&self.program, inputs).unwrap_or_else(|e| panic!("{self}: {e}"))
    }

    fn is_wrt(&self, i: usize) -> bool {
        self.wrt.contains(&self.program.params[i])
    }

    /// Returns the case with a composite op taken apart.
    fn decomposed(&self) -> Case {
        Case {
            program: pass::decompose(self.program.clone()),
            inputs: self.inputs.clone(),
            wrt: self.wrt.clone(),
            op: self.op,
        }
    }

    /// Returns tangents for the differentiated parameters.
    fn tangents(&self, seed: u64) -> Vec<Tensor> {
        let wrt = (0..self.inputs.len()).filter(|i| self.is_wrt(*i));
        wrt.map(|i| noise(self.inputs[i].shape(), seed + i as u64))
            .collect()
    }

    /// Returns whether each result has a tangent, and the tangents.
    fn jvp(&self, tangents: &[Tensor]) -> (Vec<bool>, Vec<Tensor>) {
        let jvp = ad::jvp(&self.program, &self.wrt, Calls::Joint);
        assert_eq!(verify(&jvp.program), [""; 0], "{self}: jvp");
        let inputs: Vec<Tensor> = self.inputs.iter().chain(tangents).cloned().collect();
        let outs = replay(&jvp.program, &inputs)
            .unwrap_or_else(|e| panic!("{self}: jvp: {e}\n{}", jvp.program));
        (jvp.active, outs[self.program.outs.len()..].to_vec())
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` in\n{}\n", self.op, self.program)
    }
}

/// Returns whether the op is one for a sequence of others.
fn is_composite(op: &Op) -> bool {
    op.def().facts().decompose.is_some()
}

fn cases() -> impl Iterator<Item = Case> {
    Op::ALL
        .iter()
        .chain(Op::evaluated_control())
        .flat_map(|&op| {
            sample_programs(op).into_iter().map(move |program| {
                let laws = op.def().laws();
                let avals = program.params.iter().map(|p| program.aval(*p));
                let inputs = avals.enumerate().map(|(k, a)| input(a, &laws, k)).collect();
                Case {
                    op,
                    wrt: float_params(&program),
                    inputs,
                    program,
                }
            })
        })
}

/// Returns the cases with differentiable parameters.
fn differentiable() -> impl Iterator<Item = Case> {
    cases().filter(|c| !c.wrt.is_empty() && !matches!(c.op.def().diff(), Diff::Zero(_)))
}

/// Returns the cases that have derivatives in both modes.
fn in_both_modes() -> impl Iterator<Item = Case> {
    differentiable().filter(|case| {
        ad::reverse_only(&case.program).is_none() && ad::irreversible(&case.program).is_none()
    })
}

/// Returns the cases whose gradients have a reverse mode, too.
fn in_reverse_twice() -> impl Iterator<Item = Case> {
    in_both_modes().filter(|case| {
        let gradient = ad::vjp(&case.program, &case.wrt).pullback;
        ad::irreversible(&gradient).is_none()
    })
}

#[test]
fn every_op_has_samples_and_each_verifies() {
    for case in cases() {
        assert_eq!(verify(&case.program), [""; 0], "{case}");
    }
}

/// Control flow runs the ops of its programs.
#[test]
fn every_op_has_a_sample_of_length_zero() {
    let is_empty = |program: &Program| {
        let mut vars = program.params.iter().chain(&program.outs);
        vars.any(|v| {
            program
                .aval(*v)
                .shape
                .known()
                .is_some_and(|dims| dims.contains(&0))
        })
    };
    let without = Op::ALL
        .iter()
        .filter(|op| !sample_programs(**op).iter().any(is_empty));
    let without: Vec<String> = without.map(Op::to_string).collect();
    // A scalar has no axis, the mean over no rows is NaN, and a key has a length.
    assert_eq!(without, ["scalar", "cross_entropy", "fold_in"]);
}

/// Row S2.5 of the requirements.
#[test]
fn the_result_of_an_op_has_the_aval_given_by_its_rules() {
    for case in cases() {
        for (y, out) in case.run(&case.inputs).iter().zip(&case.program.outs) {
            let aval = case.program.aval(*out);
            gradloom::evaluate(y).unwrap_or_else(|e| panic!("{case}: {e}"));
            assert_eq!(Some(y.dtype()), aval.dtype, "{case}");
            assert_eq!(Some(y.shape().to_vec()), aval.shape.known(), "{case}");
        }
    }
}

/// Uses Richardson's central difference of fourth order on every element of the Jacobian.
///
/// Row S1.16c of the requirements.
#[test]
fn the_jvp_agrees_with_finite_differences_on_every_element() {
    for case in differentiable().filter(|case| ad::reverse_only(&case.program).is_none()) {
        let h = 1e-3;
        let mut at = 0;
        for i in (0..case.inputs.len())
            .filter(|i| case.is_wrt(*i))
            .collect::<Vec<_>>()
        {
            for j in 0..case.inputs[i].numel() {
                let run = |by: f64| {
                    let mut inputs = case.inputs.clone();
                    inputs[i] = nudged(&inputs[i], j, by);
                    case.run(&inputs)
                };
                let [far_up, up, down, far_down] = [2.0 * h, h, -h, -2.0 * h].map(run);
                let mut tangents: Vec<Tensor> =
                    case.tangents(0).iter().map(Tensor::zeros_like).collect();
                tangents[at] = nudged(&tangents[at], j, 1.0);
                let (active, dy) = case.jvp(&tangents);
                let mut dy = dy.into_iter();
                for (k, is_active) in active.into_iter().enumerate() {
                    if !case
                        .program
                        .aval(case.program.outs[k])
                        .dtype
                        .unwrap()
                        .is_float()
                    {
                        continue;
                    }
                    let [a, b, c, d] =
                        [&far_up, &up, &down, &far_down].map(|ys| ys[k].to_vec::<f64>());
                    let n = a.len();
                    let expected: Vec<f64> = (0..n)
                        .map(|e| (8.0 * (b[e] - c[e]) - (a[e] - d[e])) / (12.0 * h))
                        .collect();
                    let found = if is_active {
                        dy.next().unwrap().to_vec::<f64>()
                    } else {
                        vec![0.0; n]
                    };
                    let tolerance = case.op.def().laws().tolerance * scale(&expected);
                    for (e, (f, x)) in found.iter().zip(&expected).enumerate() {
                        assert!(
                            (f - x).abs() <= tolerance,
                            "{case}input {i}[{j}], result {k}[{e}]: {f} against {x}"
                        );
                    }
                }
            }
            at += 1;
        }
    }
}

/// Rows S1.16d, S1.29 of the requirements.
#[test]
fn the_vjp_is_the_adjoint_of_the_jvp() {
    let composite = in_both_modes().filter(|case| is_composite(&case.op));
    let decomposed = composite.map(|case| case.decomposed());
    for case in in_both_modes().chain(decomposed) {
        let tangents = case.tangents(1);
        let (active, dy) = case.jvp(&tangents);
        let v = ad::vjp(&case.program, &case.wrt);
        assert_eq!(v.active, active, "{case}");
        assert_eq!(
            [verify(&v.primal), verify(&v.pullback)].concat(),
            [""; 0],
            "{case}\n{}\n{}",
            v.primal,
            v.pullback
        );
        let outs =
            replay(&v.primal, &case.inputs).unwrap_or_else(|e| panic!("{case}: primal: {e}"));
        let (outs, residuals) = outs.split_at(v.n_outs);
        let with_ct = outs.iter().zip(&active).filter(|(_, a)| **a);
        let cts: Vec<Tensor> = with_ct
            .enumerate()
            .map(|(i, (y, _))| noise(y.shape(), 90 + i as u64))
            .collect();
        let args: Vec<Tensor> = residuals.iter().chain(&cts).cloned().collect();
        let grads = replay(&v.pullback, &args)
            .unwrap_or_else(|e| panic!("{case}: pullback: {e}\n{}", v.pullback));
        let nonzero = tangents
            .iter()
            .zip(&v.nonzero)
            .filter(|(_, n)| **n)
            .map(|(t, _)| t.clone());
        let (left, right) = (dot(&cts, &dy), dot(&grads, &nonzero.collect::<Vec<_>>()));
        let size = left.abs().max(right.abs()).max(1.0);
        assert!(
            (left - right).abs() <= 1e-12 * size,
            "{case}: <c, J t> = {left}, <J^T c, t> = {right}"
        );
    }
}

/// Compares both orders of the second derivative of `s(x) = <c, f(x)>` in a direction.
#[test]
fn forward_over_reverse_equals_reverse_over_reverse() {
    for case in in_reverse_twice() {
        let floats: Vec<usize> = (0..case.inputs.len()).filter(|i| case.is_wrt(*i)).collect();
        let x: Vec<Tensor> = floats.iter().map(|i| case.inputs[*i].clone()).collect();
        let direction = case.tangents(7);
        let f = |x: &Vec<Tensor>| {
            let mut inputs = case.inputs.clone();
            for (i, x) in floats.iter().zip(x) {
                inputs[*i] = x.clone();
            }
            let outs = case.run(&inputs);
            let floats = outs.iter().filter(|y| y.dtype().is_float()).enumerate();
            let parts = floats.map(|(i, y)| (y * &noise(y.shape(), 40 + i as u64)).sum(..));
            parts
                .reduce(|a, b| a + b)
                .unwrap_or_else(|| Tensor::scalar(0.0))
        };
        let forward = gradloom::hvp(f, &x, &direction);
        let inner = |x: &Vec<Tensor>| {
            let products = gradloom::grad(f)(x)
                .into_iter()
                .zip(&direction)
                .map(|(g, t)| (&g * t).sum(..));
            products
                .reduce(|a, b| a + b)
                .expect("at least one parameter is differentiated")
        };
        let (_, pullback) = vjp(inner, &x);
        let reverse = pullback.call(&Tensor::scalar(1.0));
        for (a, b) in forward.iter().zip(&reverse) {
            let (a, b) = (a.to_vec::<f64>(), b.to_vec::<f64>());
            let size = scale(&a);
            for (a, b) in a.iter().zip(&b) {
                assert!(
                    (a - b).abs() <= 1e-10 * size,
                    "{case}: {a} forward over reverse, {b} reverse over reverse"
                );
            }
        }
    }
}

/// Compares the program of second order with reverse over reverse, for the sum of the squares of
/// the results.
#[test]
fn the_program_of_second_order_equals_reverse_over_reverse() {
    for case in in_reverse_twice() {
        let program = sum_of_squares(&case.program);
        if program.outs.is_empty() {
            continue;
        }
        let hvp = ad::hvp(&program, &case.wrt);
        assert_eq!(verify(&hvp.program), [""; 0], "{case}\n{}", hvp.program);
        let direction = case.tangents(7);
        let inputs: Vec<Tensor> = case.inputs.iter().chain(&direction).cloned().collect();
        let outs = replay(&hvp.program, &inputs)
            .unwrap_or_else(|e| panic!("{case}: {e}\n{}", hvp.program));
        let (gradients, changes) = outs[1..].split_at(hvp.active.len());

        let wrt: Vec<usize> = (0..case.inputs.len()).filter(|i| case.is_wrt(*i)).collect();
        let x: Vec<Tensor> = wrt.iter().map(|i| case.inputs[*i].clone()).collect();
        let gradient = gradloom::grad(|x: &Vec<Tensor>| {
            let mut inputs = case.inputs.clone();
            for (i, x) in wrt.iter().zip(x) {
                inputs[*i] = x.clone();
            }
            replay(&program, &inputs).unwrap().remove(0)
        });
        let change = gradloom::grad(|x: &Vec<Tensor>| {
            let products = gradient(x).into_iter().zip(&direction);
            let products = products.map(|(g, t)| (&g * t).sum(..));
            products
                .reduce(|a, b| a + b)
                .expect("at least one parameter is differentiated")
        });
        let (mut gradients, mut changes) = (gradients.iter(), changes.iter());
        let mut active = hvp.active.iter();
        let each = gradient(&x).into_iter().zip(change(&x));
        for ((g, h), nonzero) in each.zip(&hvp.nonzero) {
            let zero = g.zeros_like();
            let (found_g, found_h) = match nonzero {
                false => (&zero, &zero),
                true => {
                    let g = gradients
                        .next()
                        .expect("one gradient for each active parameter");
                    match active.next().expect("one flag for each parameter") {
                        true => (
                            g,
                            changes.next().expect("one change for each active gradient"),
                        ),
                        false => (g, &zero),
                    }
                }
            };
            for (found, expected) in [(found_g, g), (found_h, h)] {
                let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
                let size = scale(&expected);
                for (a, b) in found.iter().zip(&expected) {
                    assert!(
                        (a - b).abs() <= 1e-12 * size,
                        "{case}: {a} by the program, {b} reverse over reverse"
                    );
                }
            }
        }
    }
}

/// Returns a program whose only result is the sum of the squares of all results of `program`.
fn sum_of_squares(program: &Program) -> Program {
    let mut b = Builder::after(program);
    for eqn in &program.eqns {
        b.append(eqn.clone());
    }
    let (all, no) = (b.attr(Static::All), b.attr(false));
    let is_float = |v: &&Var| program.aval(**v).dtype.is_some_and(|d| d.is_float());
    let sums: Vec<Var> = program
        .outs
        .iter()
        .filter(is_float)
        .map(|y| {
            let squares = b.mul(*y, *y);
            b.sum(squares, *y, all, no)
        })
        .collect();
    let total = sums.into_iter().reduce(|x, y| b.add(x, y));
    b.finish(program.params.clone(), total.into_iter().collect())
}

/// The equation of a case, with a parameter for each operand.
struct Apart {
    program: Program,
    operands: Vec<Tensor>,
    axes: Axes,
}

impl Apart {
    /// Returns the equation of `case` on operands of these avals, if the op takes them.
    fn new(case: &Case, avals: &[Aval], operands: Vec<Tensor>) -> Option<Apart> {
        let eqn = &case.program.eqns[0];
        let mut b = Builder::new();
        let params: Vec<Var> = avals.iter().map(|aval| b.param(aval.clone())).collect();
        let statics: Vec<Static> = eqn
            .attrs
            .iter()
            .map(|a| case.program.attr(*a).clone())
            .collect();
        let attrs: Vec<_> = statics.iter().map(|value| b.attr(value.clone())).collect();
        let outs = b.try_emit(eqn.op, &attrs, &params, eqn.outs.len()).ok()?;
        let shapes: Vec<Shape> = outs.iter().map(|y| b.aval(*y).shape.clone()).collect();
        let axes = eqn
            .op
            .axes(&statics, &avals.iter().collect::<Vec<_>>(), &shapes);
        Some(Apart {
            axes: axes.unwrap_or_else(|| panic!("{case}: no signature for known shapes")),
            program: b.finish(params, outs),
            operands,
        })
    }

    /// Returns the results if each data operand is changed along the axes that `is_axis` accepts.
    fn run(
        &self,
        is_axis: impl Fn(Axis) -> bool,
        change: impl Fn(&Tensor, usize, usize) -> Tensor,
    ) -> Vec<Tensor> {
        let n_data = self.axes.operands.len();
        let (data, likes) = self.operands.split_at(n_data);
        let data = data.iter().zip(&self.axes.operands);
        let data = data.map(|(x, axes)| changed(x, axes, &is_axis, &change));
        let operands: Vec<Tensor> = data.chain(likes.iter().cloned()).collect();
        replay(&self.program, &operands).unwrap_or_else(|e| panic!("{}: {e}", self.program))
    }
}

/// Returns `x`, changed along each of its `axes` that `is_axis` accepts.
///
/// The change is given the axis and the number of elements of a block.
fn changed(
    x: &Tensor,
    axes: &[Axis],
    is_axis: impl Fn(Axis) -> bool,
    change: impl Fn(&Tensor, usize, usize) -> Tensor,
) -> Tensor {
    let places = (0..axes.len()).filter(|i| is_axis(axes[*i]));
    places.fold(x.clone(), |x, i| change(&x, i, axes[i].block()))
}

/// Returns the elements of `x` from index `start` to `stop` of an axis.
fn range(x: &Tensor, axis: usize, start: usize, stop: usize) -> Tensor {
    let mut ends: Vec<[i64; 2]> = x.shape().iter().map(|len| [0, *len as i64]).collect();
    ends[axis] = [start as i64, stop as i64];
    let [starts, stops] = [0, 1].map(|i| ends.iter().map(|end| end[i]).collect::<Vec<i64>>());
    x.slice(&starts[..], &stops[..], &vec![1i64; ends.len()][..])
}

/// Returns `x` with the first block of an axis moved behind the others.
fn rolled(x: &Tensor, axis: usize, block: usize) -> Tensor {
    let n = x.shape()[axis];
    Tensor::concat(
        &[range(x, axis, block, n), range(x, axis, 0, block)],
        axis as i64,
    )
}

#[track_caller]
fn assert_near(
    found: &[Tensor],
    expected: &[Tensor],
    tolerance: f64,
    what: &dyn std::fmt::Display,
) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert_eq!(a.shape(), b.shape(), "{what}");
        let [a, b] = [a, b].map(|x| x.cast(gradloom::DType::F64).to_vec::<f64>());
        let size = scale(&b);
        for (a, b) in a.iter().zip(&b) {
            let near = (a - b).abs() <= tolerance * size || a == b || (a.is_nan() && b.is_nan());
            assert!(near, "{what}: {a} against {b}");
        }
    }
}

/// Permutes, slices and splits operands along each factor of the signature.
#[test]
fn results_follow_the_axes_of_the_operands() {
    let (mut with, mut summed, mut n_sliced) = (Vec::new(), Vec::new(), 0);
    for case in cases() {
        let eqn = &case.program.eqns[0];
        let input = |v: &Var| {
            let at = case.program.params.iter().position(|p| p == v);
            case.inputs[at.expect("an operand is a parameter")].clone()
        };
        let operands: Vec<Tensor> = eqn.args.iter().map(input).collect();
        let avals: Vec<Aval> = eqn
            .args
            .iter()
            .map(|v| case.program.aval(*v).clone())
            .collect();
        let apart = Apart::new(&case, &avals, operands).expect("a sample is valid");
        let axes = &apart.axes;
        let plain = apart.run(|_| false, rolled);
        for factor in axes.factors() {
            let what = format!("{case}with the signature {axes}, factor {factor}");
            let values = apart.operands.iter().zip(&axes.operands);
            let results = || plain.iter().zip(&axes.results);
            let lens = values.chain(results()).flat_map(|(x, axes)| {
                assert_eq!(x.rank(), axes.len(), "{what}");
                let here = |axis: &Axis| axis.factor() == Some(factor);
                let lens = x
                    .shape()
                    .iter()
                    .zip(axes)
                    .filter(move |(_, axis)| here(axis));
                lens.map(|(len, axis)| *len / axis.block())
                    .collect::<Vec<_>>()
            });
            let lens: Vec<usize> = lens.collect();
            assert!(
                lens.iter().all(|len| *len == lens[0]),
                "{what}: lengths {lens:?}"
            );
            let is_here = |axis: Axis| axis.factor() == Some(factor);
            let mut operands = axes.operands.iter().flatten();
            let reduced = operands.find_map(|axis| match axis {
                Axis::Reduced(of, kind) if *of == factor => Some(*kind),
                _ => None,
            });
            for result in &axes.results {
                let has = result.iter().any(|axis| is_here(*axis));
                assert_eq!(has, reduced.is_none(), "{what}");
            }
            if lens[0] < 2 || plain.iter().any(|y| y.numel() == 0) {
                continue;
            }
            with.push(case.op);
            let follow = |change: fn(&Tensor, usize, usize) -> Tensor| -> Vec<Tensor> {
                results()
                    .map(|(y, axes)| changed(y, axes, is_here, change))
                    .collect()
            };
            assert_near(&apart.run(is_here, rolled), &follow(rolled), 1e-13, &what);
            // A maximum, minimum or product is that of the parts. Neither has like operands.
            if let Some(kind) = reduced.filter(|kind| *kind != Reduction::Sum) {
                let part = |from: fn(usize) -> [usize; 2]| -> Vec<Tensor> {
                    let parts = apart.operands.iter().zip(&axes.operands);
                    let parts = parts.map(|(x, axes)| {
                        changed(x, axes, is_here, |x, axis, _| {
                            let [start, stop] = from(x.shape()[axis]);
                            range(x, axis, start, stop)
                        })
                    });
                    let parts: Vec<Tensor> = parts.collect();
                    let avals = parts.iter().map(|x| Aval::new(x.dtype(), x.shape()));
                    let avals: Vec<Aval> = avals.collect();
                    let part = Apart::new(&case, &avals, parts).expect("the op takes a part");
                    part.run(|_| false, rolled)
                };
                let halves = part(|_| [0, 1]).into_iter().zip(part(|n| [1, n]));
                let joint = halves.map(|(a, b)| {
                    let [a, b] = [a, b].map(|x| x.cast(gradloom::DType::F64));
                    match kind {
                        Reduction::Max => a.maximum(b),
                        Reduction::Min => a.minimum(b),
                        _ => a * b,
                    }
                });
                assert_near(&joint.collect::<Vec<_>>(), &plain, 1e-12, &what);
                continue;
            }
            if reduced.is_some() {
                summed.push(case.op);
                let only = |from: fn(usize) -> [usize; 2]| {
                    apart.run(is_here, |x, axis, _| {
                        let [start, stop] = from(x.shape()[axis]);
                        let parts = [0, start, stop, x.shape()[axis]];
                        let part = |i: usize| range(x, axis, parts[i], parts[i + 1]);
                        Tensor::concat(
                            &[part(0).zeros_like(), part(1), part(2).zeros_like()],
                            axis as i64,
                        )
                    })
                };
                let halves = only(|_| [0, 1]).into_iter().zip(only(|n| [1, n]));
                let total: Vec<Tensor> = halves.map(|(a, b)| a + b).collect();
                assert_near(&total, &plain, 1e-12, &what);
                continue;
            }
            // A like operand or a static argument may have the shape of the whole.
            if eqn.likes().is_empty() {
                let tail =
                    |x: &Tensor, axis: usize, block: usize| range(x, axis, block, x.shape()[axis]);
                let sliced = apart.operands.iter().zip(&axes.operands);
                let sliced: Vec<Tensor> = sliced
                    .map(|(x, axes)| changed(x, axes, is_here, tail))
                    .collect();
                let avals: Vec<Aval> = sliced
                    .iter()
                    .map(|x| Aval::new(x.dtype(), x.shape()))
                    .collect();
                let expected = follow(|x, axis, block| range(x, axis, block, x.shape()[axis]));
                if let Some(part) = Apart::new(&case, &avals, sliced) {
                    let found = part.run(|_| false, rolled);
                    if found[0].shape() == expected[0].shape() {
                        n_sliced += 1;
                        assert_near(&found, &expected, 1e-13, &what);
                    }
                }
            }
        }
    }
    with.dedup();
    summed.dedup();
    let without: Vec<String> = Op::ALL
        .iter()
        .filter(|op| !with.contains(op))
        .map(Op::to_string)
        .collect();
    let expected = "scalar iota cross_entropy scatter scatter_extreme \
        dynamic_slice dynamic_slice_like dynamic_slice_t dynamic_update_slice segment_sum segment_sum_t \
        fold_in random_bits random_uniform random_normal random_bernoulli random_permutation eye pad pad_zeros pad_zeros_t";
    assert_eq!(without.join(" "), expected);
    assert_eq!(
        summed,
        [
            Op::Unbroadcast,
            Op::Sum,
            Op::Mean,
            Op::Matmul,
            Op::MatmulLhsT,
            Op::MatmulRhsT,
            Op::NormVjp,
            Op::TakeT,
            Op::Conv,
            Op::ConvInputT,
            Op::ConvWeightT,
            Op::ConvTranspose
        ]
    );
    assert!(n_sliced > 50, "{n_sliced}");
}

/// Compares each composite op with its decomposition, in values and in derivatives.
#[test]
fn a_composite_op_has_the_value_and_the_derivative_of_its_decomposition() {
    for case in cases().filter(|case| is_composite(&case.op)) {
        let simple = case.decomposed();
        assert_eq!(verify(&simple.program), [""; 0], "{simple}");
        // The form of these ops with an index for each element is primitive.
        let indexed = [Op::Take, Op::TakeT, Op::Scatter, Op::ScatterExtreme];
        let mut ops = simple.program.eqns.iter().map(|eqn| eqn.op);
        let left = ops.find(|op| is_composite(op) && !indexed.contains(op));
        assert_eq!(left, None, "{simple}");
        assert_near(
            &simple.run(&case.inputs),
            &case.run(&case.inputs),
            1e-12,
            &simple,
        );
        if case.wrt.is_empty() {
            continue;
        }
        let tangents = case.tangents(3);
        let ((active, dy), (expected_active, expected)) =
            (simple.jvp(&tangents), case.jvp(&tangents));
        assert_eq!(active, expected_active, "{simple}");
        assert_near(&dy, &expected, 1e-12, &simple);
    }
    let composites: Vec<String> = Op::ALL
        .iter()
        .filter(|op| is_composite(op))
        .map(Op::to_string)
        .collect();
    let expected = "softmax softmax_t log_softmax log_softmax_jvp log_softmax_vjp logsumexp \
        cross_entropy cross_entropy_grad normalize normalize_t inv_std layer_norm norm_jvp norm_vjp \
        attention attention_lse attention_jvp attention_vjp rms_norm dynamic_slice dynamic_slice_like \
        dynamic_slice_t dynamic_update_slice segment_sum segment_sum_t var stddev searchsorted";
    assert_eq!(composites.join(" "), expected);
}

/// Softmax and its kind depend on differences of elements only, so large elements cost no digits.
#[test]
fn a_decomposition_keeps_the_digits_of_large_elements() {
    let of_differences = [
        Op::Softmax,
        Op::LogSoftmax,
        Op::CrossEntropy,
        Op::CrossEntropyGrad,
    ];
    for case in cases().filter(|case| of_differences.contains(&case.op)) {
        let mut inputs = case.inputs.clone();
        inputs[0] = &inputs[0] + 1e6;
        let simple = Case {
            program: pass::decompose(case.program.clone()),
            inputs,
            wrt: case.wrt.clone(),
            op: case.op,
        };
        let expected = case.run(&simple.inputs);
        assert_near(&simple.run(&simple.inputs), &expected, 1e-13, &simple);
    }
}

/// Infers the range of each result from those of the operands, and compares it with the elements.
#[test]
fn results_lie_in_the_range_that_the_op_infers() {
    let range_of = |x: &Tensor| {
        let x = x.cast(gradloom::DType::F64).to_vec::<f64>();
        Range {
            at_least_0: x.iter().all(|x| *x >= 0.0),
            at_most_0: x.iter().all(|x| *x <= 0.0),
            not_0: x.iter().all(|x| *x != 0.0),
            bounded: x.iter().all(|x| x.is_finite()),
            guarded: false,
        }
    };
    let mut n_known = 0;
    for case in cases() {
        // A sum over no elements is 0, whatever is known about each element.
        if case.inputs.iter().any(|x| x.numel() == 0) {
            continue;
        }
        let eqn = &case.program.eqns[0];
        let range = |v: &Var| {
            let at = case.program.params.iter().position(|p| p == v);
            range_of(&case.inputs[at.expect("an operand is a parameter")])
        };
        let inferred = (case.op.def().facts().range)(&OperandRanges {
            program: &case.program,
            eqn,
            ranges: eqn.data().iter().map(range).collect(),
        });
        for y in case.run(&case.inputs) {
            let found = range_of(&y);
            // NaN has no sign.
            let claims = [
                (inferred.at_least_0, found.at_least_0),
                (inferred.at_most_0, found.at_most_0),
                (inferred.not_0, found.not_0),
            ];
            let is_nan = y
                .cast(gradloom::DType::F64)
                .to_vec::<f64>()
                .iter()
                .any(|y| y.is_nan());
            n_known += claims.iter().filter(|(inferred, _)| *inferred).count();
            let holds = claims.iter().all(|(inferred, found)| !inferred || *found);
            assert!(holds || is_nan, "{case}: {inferred:?}, but it is {found:?}");
        }
    }
    assert!(n_known > 100, "{n_known}");
}
