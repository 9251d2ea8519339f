//! Elements of 8 and 16 bits: each op computes as on wider ones, and casts its results.

use gradloom::__private::replay;
use gradloom::{DType, Key, Tensor, bf16, evaluate, f16, grad, vjp};
use gradloom_ir::{Op, Program};
use gradloom_tests::graphs::bits;
use gradloom_tests::{input, noise, sample_programs, scale};

/// A sample of an op on elements of a small dtype, and the same on elements of the dtype that it computes in.
struct Case {
    op: Op,
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
        // Such an op is recorded on operands that are cast to an `i64` before.
        if op.promotes(1) == (0..1) && op.cast_to([small]).is_some() {
            return None;
        }
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

/// Returns the products of a function of rows and a matrix that is stored in a small dtype, and of the matrix as `f32`.
fn products(
    matrix: &Tensor,
    rows: &Tensor,
    product: impl Fn(&Tensor, &Tensor) -> Tensor,
) -> [Vec<u64>; 2] {
    let wide = matrix.cast(DType::F32);
    // A value that is computed is no cast any more.
    evaluate(&wide).unwrap();
    [matrix.cast(DType::F32), wide].map(|matrix| bits(&product(rows, &matrix)))
}

/// A product of rows and a matrix.
type Product = fn(&Tensor, &Tensor) -> Tensor;

#[test]
fn products_with_a_stored_matrix_have_the_bits_of_wider_ones() {
    let layouts: [fn(&Tensor) -> Tensor; 4] = [
        |w| w.clone(),
        |w| w.reshape([w.dim(1), w.dim(0)]).t(),
        |w| w.reshape([w.dim(0) / 2, 2, w.dim(1)]).select_index(1, 1),
        |w| w.i((1..w.dim(0) - 2, 3..)),
    ];
    let mut n = 0;
    for small in [DType::BF16, DType::F16, DType::I8, DType::U8] {
        for [k, n_columns] in [[128, 96], [200, 40], [700, 130], [34, 300], [4098, 4]] {
            for layout in layouts {
                let numbers = Key::new(7).normal([k, n_columns], DType::F32) * 20.0;
                let stored = numbers.cast(small);
                evaluate(&stored).unwrap();
                let w = layout(&stored);
                let [k, c] = [w.dim(0), w.dim(1)];
                for m in [1, 2, 7, 32] {
                    let x = Key::new(m as u64).normal([m, k], DType::F32);
                    let z = Key::new(m as u64).normal([m, c], DType::F32);
                    let cases: [(&Tensor, Product); 6] = [
                        (&x, |x, w| x.matmul(w)),
                        (&z, |z, w| z.matmul(w.t())),
                        (&x, |x, w| w.t().matmul(x.t())),
                        (&z, |z, w| w.matmul(z.t())),
                        (&x, |x, w| x.row(0).matmul(w)),
                        (&x, |x, w| {
                            x.unsqueeze(1)
                                .broadcast_to([x.dim(0), 3, x.dim(1)])
                                .matmul(w)
                        }),
                    ];
                    for (i, (rows, product)) in cases.into_iter().enumerate() {
                        let [found, expected] = products(&w, rows, product);
                        assert_eq!(
                            found,
                            expected,
                            "{small}, case {i}, {m} rows, {:?}",
                            w.shape()
                        );
                        n += 1;
                    }
                }
            }
        }
    }
    assert_eq!(n, 4 * 5 * 4 * 4 * 6);
}
