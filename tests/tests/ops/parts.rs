//! Groups that read parts of tensors: shifted rows, rows in reverse, rows among zeros, repeated rows.
//!
//! The group is compared with the same operations on contiguous copies of the parts. The sums are those of integers, and
//! thus exact in any order.

use gradloom::{DType, Tensor, evaluate, vjp};

/// Returns a tensor with small integers.
fn numbers(shape: &[usize], dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let numbers: Vec<i64> = (0..n as i64).map(|i| i * 37 % 11 - 5).collect();
    let x = Tensor::from_vec(numbers, shape).cast(dtype);
    evaluate(&x).unwrap();
    x
}

/// Returns the same values in memory of their own, without gaps.
fn packed(x: &Tensor) -> Tensor {
    let x = Tensor::from_vec(x.cast(DType::I64).to_vec::<i64>(), x.shape()).cast(x.dtype());
    evaluate(&x).unwrap();
    x
}

/// Returns the parts of `x` that lack two elements along each axis: one before and one behind, but along one axis at a time also
/// both before or both behind.
fn shifted(x: &Tensor) -> Vec<Tensor> {
    let rank = x.shape().len();
    let mut parts = Vec::new();
    for axis in 0..rank {
        for offset in 0..3 {
            let starts: Vec<i64> = (0..rank)
                .map(|a| if a == axis { offset } else { 1 })
                .collect();
            let ends: Vec<i64> = starts
                .iter()
                .zip(x.shape())
                .map(|(s, len)| s + *len as i64 - 2)
                .collect();
            parts.push(x.slice(starts, ends, vec![1i64; rank]));
        }
    }
    parts
}

/// Reads all parts in one group: with a row that repeats, and a product.
fn group(parts: &[Tensor], row: &Tensor) -> Tensor {
    let weighted = parts
        .iter()
        .enumerate()
        .map(|(i, part)| part * (i as i64 + 1));
    let sum = weighted.reduce(|x, y| x + y).unwrap();
    sum * row - &parts[0] * &parts[1]
}

/// Lengths around those of vectors and of pieces of 1,024 elements, with few and many rows.
const SHAPES: [&[usize]; 9] = [
    &[40, 39],
    &[70, 128],
    &[300, 18],
    &[9, 11, 130],
    &[5, 300, 19],
    &[7, 6, 5, 34],
    &[4, 2000],
    &[5, 1026],
    &[4, 5000],
];

#[test]
fn a_group_computes_on_parts_as_on_copies_of_them() {
    for shape in SHAPES {
        for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::BF16] {
            let x = numbers(shape, dtype);
            let row = numbers(&[shape[shape.len() - 1] - 2], dtype);
            let views = [
                ("rows", x.clone()),
                ("rows in reverse", x.flip(0)),
                ("zeros around", x.pad(1, 1, 0, 0)),
            ];
            for (name, x) in views {
                let parts = shifted(&x);
                let row = match name {
                    "zeros around" => numbers(&[shape[shape.len() - 1]], dtype),
                    _ => row.clone(),
                };
                let copies: Vec<Tensor> = parts.iter().map(packed).collect();
                let (found, expected) = (group(&parts, &row), group(&copies, &packed(&row)));
                let case = format!("{name} of {dtype}{shape:?}");
                assert_eq!(
                    found.cast(DType::I64).to_vec::<i64>(),
                    expected.cast(DType::I64).to_vec::<i64>(),
                    "{case}"
                );
                for axis in 0..shape.len() {
                    let sum = |y: Tensor| y.cast(DType::I64).sum(axis).to_vec::<i64>();
                    let (found, expected) = (sum(group(&parts, &row)), sum(group(&copies, &row)));
                    assert_eq!(found, expected, "the sum over axis {axis}: {case}");
                }
            }
        }
    }
}

#[test]
fn the_cotangents_of_parts_are_added_where_they_lie() {
    for shape in SHAPES {
        let x = numbers(shape, DType::F64);
        let row = numbers(&[shape[shape.len() - 1] - 2], DType::F64);
        let (y, pullback) = vjp(|x: &Tensor| group(&shifted(x), &row), &x);
        let ct = numbers(y.shape(), DType::F64);
        let found = pullback.call(&ct);
        // The cotangent of `x` is the sum of the cotangents of the parts, each padded with zeros to the shape of `x`.
        let parts: Vec<Tensor> = shifted(&x).iter().map(packed).collect();
        let rank = shape.len();
        let mut expected = Tensor::zeros(shape, DType::F64);
        for i in 0..parts.len() {
            let (axis, offset) = (i / 3, (i % 3) as i64);
            let of_product = match i {
                0 => &ct * &parts[1],
                1 => &ct * &parts[0],
                _ => Tensor::zeros(y.shape(), DType::F64),
            };
            let ct = packed(&(&ct * &row * (i as i64 + 1) - of_product));
            let around = |at: i64| -> Vec<i64> {
                let at = |a: usize| if a == axis { at } else { 1 };
                (0..rank).map(at).collect()
            };
            expected =
                packed(&(expected + packed(&ct.pad(around(offset), around(2 - offset), 0, 0))));
        }
        assert_eq!(found.to_vec::<f64>(), expected.to_vec::<f64>(), "{shape:?}");
    }
}
