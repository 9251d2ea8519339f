//! Shapes and static arguments that are invalid, and extreme ones that are valid.

use crate::{fault, refused};
use gradloom::{DType, Error, Tensor, evaluate};
use gradloom_ir::{Fault, MAX_RANK};

fn x() -> Tensor {
    Tensor::from([[1.0f64, 2.0, 3.0], [4.0, 5.0, 6.0]])
}

/// Row S0.42 of the requirements.
#[test]
fn shapes_that_cannot_be_addressed_are_rejected_before_allocation() {
    for shape in [
        vec![1 << 32, 1 << 32],
        vec![usize::MAX, 2],
        vec![1 << 62, 4],
        vec![usize::MAX],
        vec![isize::MAX as usize],
        // It has no elements, but its strides overflow.
        vec![0, usize::MAX, usize::MAX],
    ] {
        let is_overflow = |e: Error| assert!(matches!(e, Error::Overflow { .. }), "{shape:?}: {e}");
        is_overflow(refused(|| Tensor::zeros(&shape, DType::Bool)));
        is_overflow(Tensor::try_from_vec(vec![1.0f32], &shape).unwrap_err());
        is_overflow(Tensor::try_from_vec(Vec::<bool>::new(), &shape).unwrap_err());
        assert!(
            refused(|| x().broadcast_to(&shape))
                .to_string()
                .contains("broadcast"),
            "{shape:?}"
        );
        refused(|| x().reshape(&shape));
    }
    let long = Tensor::full([1 << 30], 1.0, DType::F32);
    assert!(matches!(
        fault(|| long.reshape([1 << 30, 1]) * long.reshape([1, 1 << 30])),
        Fault::Overflow { .. }
    ));
    assert!(matches!(
        fault(|| Tensor::concat(&vec![long.broadcast_to([1i64 << 25, 1 << 30]); 64], 0)),
        Fault::Overflow { .. }
    ));
    assert!(matches!(
        fault(|| Tensor::arange(i64::MAX, DType::I64)),
        Fault::Overflow { .. }
    ));
    assert!(matches!(
        fault(|| Tensor::from([0i64, 1]).one_hot(i64::MAX, DType::F32)),
        Fault::Overflow { .. }
    ));
    refused(|| Tensor::arange(-1, DType::I64));
    refused(|| Tensor::from([0i64]).one_hot(-1, DType::F32));
}

#[test]
fn shapes_without_elements_are_valid() {
    for shape in [vec![0], vec![0, 3], vec![2, 0, 4], vec![1 << 40, 0]] {
        let empty = Tensor::zeros(&shape, DType::F64);
        assert_eq!((empty.exp() + 1.0).to_vec::<f64>(), [0.0; 0]);
        assert_eq!(empty.sum(..).item::<f64>(), 0.0);
        assert!(empty.mean(..).item::<f64>().is_nan());
        assert_eq!(empty.logsumexp(..).item::<f64>(), f64::NEG_INFINITY);
        assert!(matches!(
            fault(|| empty.max(..)),
            Fault::EmptyReduction { .. }
        ));
        let axis = shape.iter().position(|n| *n == 0).unwrap();
        assert!(matches!(
            fault(|| empty.argmin(axis)),
            Fault::EmptyReduction { .. }
        ));
    }
    assert_eq!(Tensor::zeros([0, 3], DType::F32).max(1).shape(), [0]);
    assert!(matches!(
        fault(|| Tensor::zeros([0], DType::F32) + Tensor::zeros([2], DType::F32)),
        Fault::Broadcast { axis: 0, .. }
    ));
    assert_eq!(
        (Tensor::zeros([0], DType::F32) + Tensor::zeros([1], DType::F32)).shape(),
        [0]
    );
    let product = Tensor::zeros([2, 0], DType::F64).matmul(Tensor::zeros([0, 3], DType::F64));
    assert_eq!(product.to_vec::<f64>(), [0.0; 6]);
}

/// 8 TB exceed the memory of any test machine, even if its allocator overcommits.
#[test]
fn running_out_of_memory_is_an_error_and_not_an_abort() {
    let n = 1_000_000_000_000usize;
    let huge = Tensor::zeros([n], DType::F64);
    let error = evaluate(&huge).unwrap_err();
    assert_eq!(
        error,
        Error::OutOfMemory {
            op: "full",
            bytes: 8 * n
        }
    );
    let error = evaluate(&(huge.exp() * 2.0)).unwrap_err();
    assert!(
        matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 8 * n),
        "{error}"
    );
    assert_eq!(huge.slice([0], [2], [1]).to_vec::<f64>(), [0.0, 0.0]);
    assert!(!huge.is_realised());
}

#[test]
fn broadcasting_takes_no_memory() {
    // 128 GiB, none of which is ever allocated.
    let wide = Tensor::from([1.0f32, 2.0, 3.0]).broadcast_to([3i64 << 32, 3]);
    assert_eq!(wide.slice([5], [7], [1]).sum(..).item::<f32>(), 12.0);
    assert_eq!(
        wide.transpose()
            .slice([2i64, 1 << 33], [3, (1i64 << 33) + 2], [1, 1])
            .to_vec::<f32>(),
        [3.0, 3.0]
    );
    let sum = Tensor::from([1.0f64, 2.0, 3.0])
        .broadcast_to([1i64 << 20, 3])
        .sum(0);
    assert_eq!(
        sum.to_vec::<f64>(),
        [1.0, 2.0, 3.0].map(|x| x * f64::from(1 << 20))
    );
}

#[test]
fn the_rank_has_a_limit() {
    let most = Tensor::from_vec(vec![1.0f64], vec![1; MAX_RANK]);
    assert_eq!((most.tanh() + most.transpose()).sum(..).shape(), [0; 0]);
    assert!(matches!(
        fault(|| most.unsqueeze(0)),
        Fault::TooManyAxes { .. }
    ));
    assert!(matches!(
        fault(|| Tensor::stack(&[&most, &most], 0)),
        Fault::TooManyAxes { .. }
    ));
    assert!(matches!(
        fault(|| Tensor::from(1.0f64).reshape(vec![1i64; 1000])),
        Fault::TooManyAxes { .. }
    ));
    assert!(matches!(
        refused(|| Tensor::zeros(vec![1; 1000], DType::F64)),
        Error::TooManyAxes { .. }
    ));
    let labels = Tensor::from_vec(vec![0i64], vec![1; MAX_RANK]);
    assert!(matches!(
        fault(|| labels.one_hot(2, DType::F64)),
        Fault::TooManyAxes { .. }
    ));
}

#[test]
fn contradictory_shapes_and_axes_are_rejected() {
    let x = x();
    for shape in [
        vec![-1, -1],
        vec![4],
        vec![-2, 3],
        vec![i64::MIN],
        vec![-1, 0],
        vec![1 << 62, 1 << 62, -1],
        vec![5, -1],
    ] {
        refused(|| x.reshape(&shape));
    }
    refused(|| Tensor::zeros([0, 2], DType::F64).reshape([-1, 0]));
    for axis in [2, -3, i64::MAX, i64::MIN] {
        assert_eq!(fault(|| x.sum(axis)), Fault::Axis { axis, rank: 2 });
        assert_eq!(fault(|| x.softmax(axis)), Fault::Axis { axis, rank: 2 });
        assert_eq!(
            fault(|| Tensor::concat(&[&x, &x], axis)),
            Fault::Axis { axis, rank: 2 }
        );
        assert_eq!(
            fault(|| x.swap_axes(0, axis)),
            Fault::Axis { axis, rank: 2 }
        );
        assert_eq!(fault(|| x.moveaxis(axis, 0)), Fault::Axis { axis, rank: 2 });
        assert_eq!(fault(|| x.argmax(axis)), Fault::Axis { axis, rank: 2 });
    }
    assert!(matches!(
        fault(|| x.sum([0, -2])),
        Fault::RepeatedAxis { axis: -2 }
    ));
    assert!(matches!(
        fault(|| x.unsqueeze([0, 0])),
        Fault::RepeatedAxis { .. }
    ));
    for axes in [
        vec![0, 0],
        vec![0],
        vec![0, 2],
        vec![0, 1, 1],
        vec![i64::MIN, 0],
        vec![1, -1],
    ] {
        refused(|| x.permute(&axes));
    }
    assert_eq!(
        x.permute([-1, 0]).to_vec::<f64>(),
        x.transpose().to_vec::<f64>()
    );
    refused(|| x.squeeze(0));
}

#[test]
fn ranges_outside_a_tensor_are_rejected() {
    let x = x();
    for (start, stop, step) in [
        (1, 0, 1),
        (0, 3, 1),
        (-3, 2, 1),
        (0, 2, 0),
        (0, 2, -1),
        (0, 2, i64::MIN),
        (i64::MIN, 2, 1),
        (i64::MAX, i64::MAX, 1),
        (0, i64::MIN, 1),
    ] {
        refused(|| x.slice([start], [stop], [step]));
    }
    refused(|| x.slice([0, 0, 0], [1, 1, 1], [1, 1, 1]));
    refused(|| x.slice([0], [1, 1], [1]));
    assert_eq!(
        x.slice([0], [i64::MAX], [i64::MAX]).to_vec::<f64>(),
        [1.0, 2.0, 3.0]
    );
    assert_eq!(x.slice([2], [2], [1]).shape(), [0, 3]);
    for sizes in [
        vec![1, 1, 2],
        vec![4, -1],
        vec![i64::MAX, i64::MAX, 2, 3],
        vec![i64::MIN, 3],
    ] {
        let parts = gradloom::__private::catch(|| Ok(x.split_sizes(&sizes, 1)));
        assert!(matches!(parts, Err(Error::Op(_))), "{sizes:?}");
    }
    let parts = gradloom::__private::catch(|| Ok(x.split::<2>(1).to_vec()));
    assert!(matches!(parts, Err(Error::Op(_))));
    let parts = gradloom::__private::catch(|| Ok(x.unbind::<3>(0).to_vec()));
    assert!(matches!(parts, Err(Error::Op(_))));
}
