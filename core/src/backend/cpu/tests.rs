//! Tests of every kernel against its definition, and of views against contiguous copies.

mod attention;
mod cases;
mod extrema;
mod faults;
mod placed;
mod range;
mod run;
mod view;

use cases::{case, cases};
use gradloom_ir::{DType, Op, Program};
use run::{plan, run, run_one};
use view::{View, array_of, bits, elsewhere};

/// Rows S1.45, S1.46 of the requirements.
#[test]
fn every_kernel_matches_its_definition() {
    let cases = cases();
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        assert!(cases.iter().any(|c| c.op == *op), "no case for `{op}`");
    }
    for case in &cases {
        let values = case.draw(1);
        let got = case.run(&case.views(&values));
        let want = case.definition(&values);
        for (got, want) in got.iter().zip(&want) {
            let tolerance = if got.dtype() == DType::F32 {
                3e-5
            } else {
                1e-12
            };
            let got = array_of(got);
            assert_eq!(got.shape, want.shape, "{}", case.text);
            for (i, (g, w)) in got.data.iter().zip(&want.data).enumerate() {
                let close =
                    (g - w).abs() <= tolerance * w.abs().max(1.0) || (g.is_nan() && w.is_nan());
                assert!(
                    close || g == w,
                    "{}: element {i} is {g}, not {w}",
                    case.text
                );
            }
        }
    }
}

#[test]
fn a_view_gives_the_same_bits_as_its_contiguous_copy() {
    for case in cases() {
        let values = case.draw(2);
        let views = case.views(&values);
        let want: Vec<_> = case.run(&views).iter().map(bits).collect();
        for i in 0..views.len() {
            for other in elsewhere(case.args[i].dtype(), &values[i]) {
                let mut views = views.clone();
                views[i] = other;
                let got: Vec<_> = case.run(&views).iter().map(bits).collect();
                assert_eq!(
                    got, want,
                    "{}: operand {i} as {:?}",
                    case.text, views[i].layout
                );
            }
        }
    }
}

#[test]
fn a_repeated_operand_gives_the_same_bits_as_its_contiguous_copy() {
    for case in cases() {
        let values = case.draw(3);
        let views = case.views(&values);
        for i in 0..views.len() {
            for axis in 0..views[i].rank() {
                if views[i].shape()[axis] == 0 {
                    continue;
                }
                let mut views = views.clone();
                let first = views[i].with(views[i].layout.narrow(axis, 0, 1, 1));
                views[i] = first.broadcast_to(views[i].shape());
                let got: Vec<_> = case.run(&views).iter().map(bits).collect();
                views[i] = views[i].to_copy();
                let want: Vec<_> = case.run(&views).iter().map(bits).collect();
                assert_eq!(
                    got, want,
                    "{}: operand {i} repeated along axis {axis}",
                    case.text
                );
            }
        }
    }
}

#[test]
fn ops_that_only_move_elements_are_views() {
    let x = View::new((0..12).map(f64::from).collect(), &[3, 4]);
    for text in [
        "(x: f64[3, 4]) { y = transpose x return y }",
        "(x: f64[3, 4]) { y = identity x return y }",
        "(x: f64[3, 4]) { y = reshape[shape=[2, 6]] x, like x return y }",
        "(x: f64[3, 4]) { y = slice[starts=[1], stops=[3], steps=[1]] x, like x return y }",
        "(x: f64[3, 4]) { y = unsqueeze[axes=[1]] x return y }",
        "(x: f64[3, 4]) { y = broadcast_to[shape=[2, 3, 4]] x return y }",
        "(x: f64[3, 4], z: f64[3, 4, 5]) { y = sum_t[axes=[2], keepdims=false] x, like z return y }",
    ] {
        let plan = plan(&case(text).program, std::slice::from_ref(&x));
        assert!(plan.only_moves(), "{text}");
    }
}

#[test]
fn large_values_are_computed_in_the_memory_of_operands() {
    let aval = "f32[700, 512]";
    let steps = [
        ("cumsum[axes=[0], reverse=false] a", "a"),
        ("mul b, a", "b, a"),
        ("cumsum[axes=[1], reverse=false] c", "c"),
        ("sub d, a", "d, a"),
    ];
    let [first, second, third, last] = steps.map(|(op, _)| op);
    let text = format!(
        "(a: {aval}) {{ b = {first} c = {second} d = {third} e = {last} f = exp d return e, f }}"
    );
    let numbers = (0..700 * 512).map(|i| f64::from(i % 1013) / 1e3 - 0.5);
    let mut values = vec![View::new(numbers.map(|x| x as f32).collect(), &[700, 512])];
    for (op, args) in steps {
        let args: Vec<&str> = args.split(", ").collect();
        let header: Vec<_> = args.iter().map(|x| format!("{x}: {aval}")).collect();
        let text = format!("({}) {{ y = {op} return y }}", header.join(", "));
        let number = |name: &&str| usize::from(name.as_bytes()[0] - b'a');
        let args: Vec<View> = args.iter().map(|x| values[number(x)].clone()).collect();
        values.push(run_one(&text, &args).unwrap());
    }
    let program: Program = text.parse().unwrap();
    let made = run(&program, &values[..1]).unwrap();
    assert_eq!(bits(&made[0]), bits(&values[4]));
    let plan = plan(&program, &values[..1]);
    // `b` and `c` are in one place, and `d` in that of a result.
    assert!(plan.arena() <= 700 * 512 * 4, "{} bytes", plan.arena());
}
