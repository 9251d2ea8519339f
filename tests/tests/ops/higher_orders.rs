//! Derivatives up to the third order at zeros, ties and large numbers, where rules often have special cases.
//!
//! A rule that replaces a singular expression by a constant may have the right value and a wrong derivative. So
//! each derivative is compared with differences of the one before. Points where it has a kink, a pole or no
//! finite value are left out: there, the differences to both sides differ.

use gradloom::__private::replay;
use gradloom::{DType, Tensor, grad};
use gradloom_ir::op::{Diff, Operands};
use gradloom_ir::{Op, Program};

/// An elementwise function of tensors of one shape.
type Function<'a> = dyn Fn(&[Tensor]) -> Tensor + 'a;

/// Returns the derivative with respect to the arguments with the given indices, one after the other.
fn derivative(f: &Function<'_>, order: &[usize], x: &[Tensor]) -> Tensor {
    let Some((last, before)) = order.split_last() else {
        return f(x);
    };
    let of_one = |one: &Tensor| {
        let mut x = x.to_vec();
        x[*last] = one.clone();
        derivative(f, before, &x).sum(..)
    };
    grad(of_one)(&x[*last])
}

/// Returns all lists of up to three indices of arguments.
fn orders(n_args: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (0..n_args).map(|i| vec![i]).collect();
    let mut done = 0;
    while all[done].len() < 3 {
        let longer = (0..n_args).map(|i| [&all[done][..], &[i]].concat());
        let longer: Vec<Vec<usize>> = longer.collect();
        all.extend(longer);
        done += 1;
    }
    all
}

/// Checks all derivatives of a function at the given points, and returns the faults and the number of comparisons.
fn check(name: &str, f: &Function<'_>, points: &[Vec<f64>]) -> (Vec<String>, usize) {
    let n_args = points[0].len();
    let column = |i: usize| points.iter().map(|point| point[i]).collect::<Vec<f64>>();
    let columns: Vec<Vec<f64>> = (0..n_args).map(column).collect();
    let (mut faults, mut n_checked) = (Vec::new(), 0);
    for order in orders(n_args) {
        let (last, before) = order.split_last().expect("an order has at least one index");
        let step = |x: f64| 1e-4 * x.abs().max(1.0);
        let at = |by: f64| {
            let mut columns = columns.clone();
            for x in &mut columns[*last] {
                *x += by * step(*x);
            }
            let len = columns[0].len();
            let tensors = columns.into_iter().map(|x| Tensor::from_vec(x, [len]));
            tensors.collect::<Vec<Tensor>>()
        };
        let run = |order: &[usize], by: f64| derivative(f, order, &at(by)).to_vec::<f64>();
        let found = run(&order, 0.0);
        let [middle, below, above] = [0.0, -1.0, 1.0].map(|by| run(before, by));
        let [lower, upper] = [-0.5, 0.5].map(|by| run(before, by));
        for (k, point) in points.iter().enumerate() {
            let h = step(point[*last]);
            // Richardson's difference of fourth order, and an estimate of its error.
            let wide = (above[k] - below[k]) / (2.0 * h);
            let narrow = (upper[k] - lower[k]) / h;
            let expected = (4.0 * narrow - wide) / 3.0;
            let bend = (above[k] - 2.0 * middle[k] + below[k]).abs();
            let size = middle[k].abs() + 1.0;
            let is_smooth = expected.is_finite()
                && bend < 1e-7 * size
                && (wide - narrow).abs() < 1e-5 * (expected.abs() + 1.0);
            if !is_smooth {
                continue;
            }
            n_checked += 1;
            let tolerance = 1e-5 * (expected.abs() + 1.0) + 1e-10 * size / h;
            // A NaN is not within the tolerance.
            let is_right = (found[k] - expected).abs() <= tolerance;
            if !is_right {
                faults.push(format!(
                    "{name} by {order:?} at {point:?}: {} instead of {expected}",
                    found[k]
                ));
            }
        }
    }
    (faults, n_checked)
}

/// Zeros, numbers near zero, kinks of activations, and large numbers of both signs.
fn points_of_one() -> Vec<Vec<f64>> {
    let sizes = [
        0.0, 1e-160, 1e-30, 1e-12, 1e-8, 1e-4, 0.5, 1.0, 2.0, 7.5, 30.0, 200.0, 900.0,
    ];
    sizes.iter().flat_map(|x| [vec![*x], vec![-x]]).collect()
}

/// Pairs of such numbers, among them ties.
fn points_of_two() -> Vec<Vec<f64>> {
    let numbers = [-8.0, -1.0, -0.5, 0.0, 1e-12, 0.5, 1.0, 2.0, 8.0, 20.0];
    let pairs = numbers.iter().flat_map(|x| numbers.map(|y| vec![*x, y]));
    pairs.collect()
}

fn report(found: Vec<(Vec<String>, usize)>) {
    let n_checked: usize = found.iter().map(|(_, n)| n).sum();
    let faults: Vec<String> = found.into_iter().flat_map(|(faults, _)| faults).collect();
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(n_checked > 1000, "{n_checked} comparisons");
}

/// Returns the elementwise ops of `n` floats without static arguments that have derivatives.
fn elementwise(n: usize) -> impl Iterator<Item = (Op, Program)> {
    let ops = Op::ALL.iter().copied().filter(move |op| {
        op.elementwise(n, DType::F64) == Some(DType::F64)
            && matches!(op.def().operands(), Operands::Fixed(m, 0) if m == n)
            && op.def().statics().is_empty()
            && !matches!(op.def().diff(), Diff::Zero(_))
            // Its second operand is an integer.
            && !matches!(op, Op::Polygamma | Op::Expn)
    });
    ops.map(move |op| {
        let name = op.def().name();
        let n_points = if n == 1 {
            points_of_one()
        } else {
            points_of_two()
        }
        .len();
        let text = match n {
            1 => format!("(x: f64[{n_points}]) {{ y = {name} x return y }}"),
            _ => format!("(x: f64[{n_points}], y: f64[{n_points}]) {{ z = {name} x, y return z }}"),
        };
        (op, text.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
    })
}

fn of_ops(n: usize, points: &[Vec<f64>]) -> Vec<(Vec<String>, usize)> {
    let of_one = |(op, program): (Op, Program)| {
        let f = |x: &[Tensor]| replay(&program, x).expect("operands fit").remove(0);
        let (mut faults, n) = check(op.def().name(), &f, points);
        // Differences cross many steps, or divide by 0.
        if matches!(op, Op::Rem | Op::ModFloor | Op::Celu) {
            faults.retain(|fault| !fault.contains(", 1e-12]") && !fault.contains(", 0.0]"));
        }
        (faults, n)
    };
    elementwise(n).map(of_one).collect()
}

#[test]
fn derivatives_of_ops_of_one_operand_are_right_at_special_points() {
    report(of_ops(1, &points_of_one()));
}

#[test]
fn derivatives_of_ops_of_two_operands_are_right_at_special_points() {
    report(of_ops(2, &points_of_two()));
}

#[test]
fn derivatives_of_composed_methods_are_right_at_special_points() {
    let one: [(&str, &Function<'_>); 13] = [
        ("sinc", &|x| x[0].sinc()),
        ("logit", &|x| x[0].logit()),
        ("ndtr", &|x| x[0].ndtr()),
        ("entr", &|x| x[0].entr()),
        ("log1mexp", &|x| x[0].log1mexp()),
        ("sparse_plus", &|x| x[0].sparse_plus()),
        ("sparse_sigmoid", &|x| x[0].sparse_sigmoid()),
        ("nan_to_num", &|x| x[0].nan_to_num()),
        ("elu", &|x| x[0].elu(1.5)),
        ("celu", &|x| x[0].celu(1.5)),
        ("leaky_relu", &|x| x[0].leaky_relu(0.1)),
        ("clamp", &|x| x[0].clamp(-1.0, 1.0)),
        ("soft_shrink", &|x| x[0].soft_shrink(1.0)),
    ];
    let two: [(&str, &Function<'_>); 10] = [
        ("squareplus", &|x| x[0].squareplus(&x[1])),
        ("bce", &|x| x[0].bce(&x[1])),
        ("bce_with_logits", &|x| x[0].bce_with_logits(&x[1])),
        ("kl_div", &|x| x[0].kl_div(&x[1])),
        ("rel_entr", &|x| x[0].rel_entr(&x[1])),
        ("huber_loss", &|x| x[0].huber_loss(&x[1], 1.0)),
        ("smooth_l1_loss", &|x| x[0].smooth_l1_loss(&x[1], 1.0)),
        ("copysign", &|x| x[0].copysign(&x[1])),
        ("fmax", &|x| x[0].fmax(&x[1])),
        ("logsumexp", &|x| {
            Tensor::stack(&[&x[0], &x[1]], 0).logsumexp(0)
        }),
    ];
    let positive: Vec<Vec<f64>> = points_of_two()
        .into_iter()
        .filter(|point| point.iter().all(|x| *x > 1e-3))
        .collect();
    let betaln = check("betaln", &|x| x[0].betaln(&x[1]), &positive);
    let beta = check("beta", &|x| x[0].beta(&x[1]), &positive);
    let of_one = one.iter().map(|(name, f)| check(name, f, &points_of_one()));
    let of_two = two.iter().map(|(name, f)| check(name, f, &points_of_two()));
    report(of_one.chain(of_two).chain([betaln, beta]).collect());
}
