//! Elements of 8 and 16 bits: each op computes as on wider ones, and casts its results.

use gradloom::__private::replay;
use gradloom::{DType, Tensor, bf16, evaluate, f16, grad, vjp};
use gradloom_ir::{Op, Program};
use gradloom_tests::graphs::bits;
use gradloom_tests::{input, noise, sample_programs, scale};

/// A sample of an op on elements of a small dtype, and the same on elements of the dtype that it computes in.
struct Case {
    op: Op,
    small: DType,
    program: Program,
    wide: Program,
    inputs: Vec<Tensor>,
}

impl Case {
    /// Returns the sample with other floats, if the op takes them.
    fn new(op: Op, sample: &Program, small: DType) -> Option<Case> {
        let text = sample.to_string();
        let of = |dtype: DType| text.replace("f64", dtype.name()).parse::<Program>().ok();
        let valid = |program: &Program| gradloom_ir::verify(program).is_empty();
        let [program, wide] = [small, small.computed()].map(|dtype| of(dtype).filter(valid));
        assert_eq!(
            program.is_some(),
            wide.is_some(),
            "{small} is taken as its dtype: {text}"
        );
        let (program, wide) = (program?, wide?);
        let laws = op.def().laws();
        let params = sample.params.iter().zip(&program.params).enumerate();
        let inputs = params.map(|(i, (param, to))| {
            let x = input(sample.aval(*param), &laws, i);
            x.cast(program.aval(*to).dtype.expect("samples have dtypes"))
        });
        let inputs = inputs.collect();
        Some(Case {
            op,
            small,
            program,
            wide,
            inputs,
        })
    }

    fn wide_inputs(&self) -> Vec<Tensor> {
        let wide = |x: &Tensor| x.cast(x.dtype().computed());
        self.inputs.iter().map(wide).collect()
    }
}

fn cases(small: DType) -> impl Iterator<Item = Case> {
    let all = Op::ALL.iter().copied();
    all.flat_map(move |op| {
        let samples = sample_programs(op).into_iter();
        samples.filter_map(move |sample| Case::new(op, &sample, small))
    })
}

/// Returns the results, or the error of the evaluation.
fn run(program: &Program, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let outs = replay(program, inputs).map_err(|error| error.to_string())?;
    evaluate(&outs).map_err(|error| error.to_string())?;
    Ok(outs)
}

#[test]
fn each_op_computes_in_a_wider_dtype() {
    for small in [DType::BF16, DType::F16, DType::I8, DType::U8] {
        let mut ops = Vec::new();
        for case in cases(small) {
            // A cast starts from the elements as they are.
            if matches!(case.op, Op::Cast | Op::CastT) {
                continue;
            }
            ops.push(case.op);
            let found = run(&case.program, &case.inputs);
            let expected = run(&case.wide, &case.wide_inputs());
            let (found, expected) = match (found, expected) {
                (Ok(found), Ok(expected)) => (found, expected),
                (Err(_), Err(_)) => continue,
                (found, expected) => panic!(
                    "{:?} instead of {:?}: {}",
                    found.map(|_| "results"),
                    expected.map(|_| "results"),
                    case.program
                ),
            };
            let outs = case.program.outs.iter();
            for ((found, expected), out) in found.iter().zip(&expected).zip(outs) {
                let dtype = case.program.aval(*out).dtype.expect("it is known");
                // Some ops cast their operands first, as in NumPy.
                if case.op.cast_to([small]).is_none() {
                    assert_eq!(found.dtype(), dtype, "{}", case.program);
                }
                let expected = expected.cast(found.dtype());
                assert_eq!(bits(found), bits(&expected), "{}", case.program);
            }
        }
        ops.dedup();
        let least = if small.is_float() { 180 } else { 60 };
        assert!(ops.len() >= least, "{small}: only {} ops", ops.len());
    }
}

#[test]
fn derivatives_have_the_dtype_of_their_values() {
    let mut n = 0;
    for case in cases(DType::F16) {
        let floats = |x: &[Tensor]| (0..x.len()).filter(|i| x[*i].dtype().is_float()).collect();
        let wrt: Vec<usize> = floats(&case.inputs);
        if wrt.is_empty() || gradloom_ir::ad::irreversible(&case.program).is_some() {
            continue;
        }
        let gradients = |program: &Program, inputs: &[Tensor]| {
            let of = |part: &Vec<Tensor>| {
                let mut all = inputs.to_vec();
                for (i, x) in wrt.iter().zip(part) {
                    all[*i] = x.clone();
                }
                let mut outs = replay(program, &all).unwrap_or_else(|e| panic!("{e}\n{program}"));
                outs.retain(|y| y.dtype().is_float());
                outs
            };
            let part = wrt.iter().map(|i| inputs[*i].clone()).collect();
            let (y, pullback) = vjp(of, &part);
            let cts = y.iter().enumerate();
            let cts = cts.map(|(i, y)| noise(y.shape(), i as u64).cast(DType::F16).cast(y.dtype()));
            pullback.call(&cts.collect())
        };
        let found = gradients(&case.program, &case.inputs);
        let expected = gradients(&case.wide, &case.wide_inputs());
        for ((found, expected), i) in found.iter().zip(&expected).zip(&wrt) {
            assert_eq!(found.aval(), case.inputs[*i].aval(), "{}", case.program);
            let numbers = |x: &Tensor| x.cast(DType::F64).to_vec::<f64>();
            let (found, expected) = (numbers(found), numbers(expected));
            let tolerance = 0.02 * scale(&expected).max(1.0);
            for (x, y) in found.iter().zip(&expected) {
                let same = (x - y).abs() <= tolerance || x.is_nan() == y.is_nan() && !x.is_finite();
                assert!(same, "{x} instead of {y}: {}", case.program);
            }
            n += 1;
        }
    }
    assert!(n > 300, "only {n} gradients");
}

#[test]
fn numbers_are_rounded_once() {
    // 1 + 2^-8 is between two bf16, and the even one is 1.
    let x = Tensor::from([
        1.0f32 + 2f32.powi(-8),
        1.0 + 3.0 * 2f32.powi(-8),
        f32::NAN,
        -0.0,
    ]);
    let y = x.cast(DType::BF16).to_vec::<bf16>();
    assert_eq!(y[..2], [1.0, 1.015625].map(bf16::from_f32));
    assert!(y[2].is_nan());
    assert_eq!(y[3].to_bits(), 0x8000);
    // 65520 is rounded to infinity.
    let x = Tensor::from([65519.0f64, 65520.0, 1e-8]).cast(DType::F16);
    assert_eq!(x.to_vec::<f16>(), [f16::MAX, f16::INFINITY, f16::ZERO]);
    // A sum is rounded at the end: 4096 ones are no 256, the last number that one can be added to.
    let ones = Tensor::ones([4096], DType::BF16);
    assert_eq!(ones.sum(..).to_vec::<bf16>(), [bf16::from_f32(4096.0)]);
}

#[test]
fn small_integers_wrap_and_their_sums_do_not() {
    let x = Tensor::from([100i8, -100, 127]);
    assert_eq!((&x + &x).to_vec::<i8>(), [-56, 56, -2]);
    assert_eq!(x.sum(..).to_vec::<i64>(), [127]);
    let x = Tensor::from([200u8, 255]);
    assert_eq!((&x + &x).to_vec::<u8>(), [144, 254]);
    assert_eq!(x.sum(..).to_vec::<i64>(), [455]);
    assert_eq!(
        Tensor::from([300.0f32, -5.0, f32::NAN])
            .cast(DType::U8)
            .to_vec::<u8>(),
        [255, 0, 0]
    );
}

#[test]
fn a_loss_of_small_weights_has_their_gradient() {
    let w = Tensor::from([[1.0f32, -2.0], [0.5, 3.0]]).cast(DType::BF16);
    let x = Tensor::from([[1.0f32, 2.0], [3.0, -1.0]]);
    // The product is that of `f32`, as in NumPy.
    let y = x.matmul(&w);
    assert_eq!(y.dtype(), DType::F32);
    let slope = grad(|w: &Tensor| x.matmul(w).square().sum(..))(&w);
    assert_eq!(slope.dtype(), DType::BF16);
    let exact = grad(|w: &Tensor| x.matmul(w).square().sum(..))(&w.cast(DType::F32));
    assert_eq!(bits(&slope), bits(&exact.cast(DType::BF16)));
}
