//! Kernels on lanes and on views: every op on its samples, with every choice of operands.
//!
//! The samples are run by the kernels, not by the definitions of the ops.

use gradloom::__private::replay;
use gradloom::{DType, Tensor, Vmap, evaluate, vjp};
use gradloom_ir::{Op, Program, ad};
use gradloom_tests::{input, noise, sample_programs, scale};

type Tensors = Vec<Tensor>;

/// A sample of an op, with two lists of inputs.
struct Case {
    program: Program,
    lanes: [Tensors; 2],
}

fn cases() -> impl Iterator<Item = Case> {
    let ops = Op::ALL.iter().chain(Op::evaluated_control());
    ops.flat_map(|op| {
        let laws = op.def().laws();
        sample_programs(*op).into_iter().map(move |program| {
            let lane = |lane: usize| {
                let avals = program.params.iter().map(|p| program.aval(*p));
                let each = avals
                    .enumerate()
                    .map(|(k, aval)| input(aval, &laws, k + lane));
                each.collect()
            };
            let lanes = [lane(0), lane(1)];
            Case { program, lanes }
        })
    })
}

impl Case {
    fn run(&self, x: &[Tensor]) -> Tensors {
        replay(&self.program, x).unwrap_or_else(|e| panic!("{e}\n{}", self.program))
    }

    /// Returns the gradients of the float inputs for given cotangents of the float results.
    fn gradients(&self, x: &[Tensor]) -> Tensors {
        let floats: Vec<usize> = (0..x.len()).filter(|i| x[*i].dtype().is_float()).collect();
        let results_of = |part: &Tensors| {
            let mut all = x.to_vec();
            for (i, x) in floats.iter().zip(part) {
                all[*i] = x.clone();
            }
            let mut results = self.run(&all);
            results.retain(|y| y.dtype().is_float());
            results
        };
        let part: Tensors = floats.iter().map(|i| x[*i].clone()).collect();
        let (y, pullback) = vjp(results_of, &part);
        let cts = y
            .iter()
            .enumerate()
            .map(|(i, y)| noise(y.shape(), i as u64).cast(y.dtype()));
        pullback.call(&cts.collect())
    }

    fn has_reverse_mode(&self) -> bool {
        ad::irreversible(&self.program).is_none()
            && self.lanes[0].iter().any(|x| x.dtype().is_float())
    }
}

fn bits(x: &Tensor) -> Vec<u64> {
    let numbers = x.cast(DType::F64).to_vec::<f64>();
    numbers.into_iter().map(f64::to_bits).collect()
}

/// Compares lanes of results with those of a loop.
fn compare(case: &Case, what: &str, found: &[Tensor], expected: &[Tensors; 2]) {
    for lane in 0..3 {
        for (found, expected) in found.iter().zip(&expected[lane % 2]) {
            let found = found.select_index(0, lane as i64);
            let context = || format!("{what}, lane {lane} of\n{}", case.program);
            assert_eq!(found.aval(), expected.aval(), "{}", context());
            let [found, expected] = [&found, expected].map(|x| x.cast(DType::F64).to_vec::<f64>());
            let tolerance = 1e-9 * scale(&expected);
            for (found, expected) in found.iter().zip(&expected) {
                let is_near = (found - expected).abs() <= tolerance;
                let is_same = found.to_bits() == expected.to_bits() || found == expected;
                assert!(
                    is_near || is_same || found.is_nan() && expected.is_nan(),
                    "{found} instead of {expected}: {}",
                    context()
                );
            }
        }
    }
}

#[test]
fn lanes_of_any_operands_give_what_a_loop_gives() {
    let mut n_choices = 0;
    for case in cases() {
        let n = case.lanes[0].len();
        // If there are many operands, up to two or all but one.
        let asked = |choice: &usize| {
            let n_chosen = choice.count_ones() as usize;
            n <= 5 || n_chosen <= 2 || n_chosen + 1 >= n
        };
        for choice in (1..1usize << n).filter(asked) {
            let axes: Vec<Option<i32>> = (0..n)
                .map(|i| (choice >> i & 1 == 1).then_some(0))
                .collect();
            let of_lane = |lane: usize| -> Tensors {
                let each = axes.iter().enumerate();
                each.map(|(i, axis)| case.lanes[axis.map_or(0, |_| lane)][i].clone())
                    .collect()
            };
            let lanes = [of_lane(0), of_lane(1)];
            let each = axes.iter().enumerate().map(|(i, axis)| match axis {
                Some(_) => Tensor::stack(&[&lanes[0][i], &lanes[1][i], &lanes[0][i]], 0),
                None => lanes[0][i].clone(),
            });
            let stacked: Tensors = each.collect();
            let values = |x: &Tensors| case.run(x);
            let found = Vmap::new(values).in_axes(&axes[..]).call(&stacked);
            compare(
                &case,
                &format!("{axes:?}"),
                &found,
                &lanes.each_ref().map(values),
            );
            n_choices += 1;
            if case.has_reverse_mode() && found.iter().any(|y| y.dtype().is_float()) {
                let gradients = |x: &Tensors| case.gradients(x);
                let found = Vmap::new(gradients).in_axes(&axes[..]).call(&stacked);
                let expected = lanes.each_ref().map(gradients);
                compare(&case, &format!("gradient, {axes:?}"), &found, &expected);
            }
        }
    }
    assert!(n_choices > 2_000, "{n_choices}");
}

/// Returns views with the elements of `x` in other layouts: reversed, transposed, and every second
/// element of a larger tensor.
fn views(x: &Tensor) -> [(&'static str, Tensor); 3] {
    let rank = x.rank() as i64;
    let axes: Vec<i64> = (0..rank).collect();
    let wide = axes.iter().fold(x.clone(), |x, axis| x.repeat(2, *axis));
    let [turned, transposed] = [x.flip(&axes[..]), x.transpose()];
    evaluate(&vec![turned.clone(), transposed.clone(), wide.clone()]).expect("there is memory");
    let (start, step) = (vec![0; x.rank()], vec![2; x.rank()]);
    let stop: Vec<i64> = wide.shape().iter().map(|len| *len as i64).collect();
    [
        ("reversed", turned.flip(&axes[..])),
        ("transposed", transposed.transpose()),
        ("strided", wide.slice(&start[..], &stop[..], &step[..])),
    ]
}

#[test]
fn a_view_as_any_operand_gives_the_bits_of_its_copy() {
    let mut n_views = 0;
    for case in cases() {
        let x = &case.lanes[0];
        let expected: Vec<Vec<u64>> = case.run(x).iter().map(bits).collect();
        for i in (0..x.len()).filter(|i| x[*i].rank() > 0) {
            for (name, view) in views(&x[i]) {
                let mut x = x.clone();
                x[i] = view;
                let found: Vec<Vec<u64>> = case.run(&x).iter().map(bits).collect();
                assert_eq!(found, expected, "{name} operand {i} of\n{}", case.program);
                n_views += 1;
            }
        }
    }
    assert!(n_views > 3_000, "{n_views}");
}
