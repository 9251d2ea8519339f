//! Each method that the op table lists exists on `Tensor`.

use gradloom::{DType, Tensor};
use gradloom_ir::Op;

/// Compiles only if the methods that are written by hand exist, with the parameters of the op table.
macro_rules! methods {
    ($($name:ident: $call:expr;)*) => {{
        $(let _: fn() = || { let _ = $call; };)*
        [$(stringify!($name)),*]
    }};
}

fn x() -> Tensor {
    Tensor::zeros([2, 3], DType::F32)
}

#[test]
fn every_method_of_the_op_table_is_a_method_of_tensor() {
    // The other methods are made from the op table.
    let mut names: Vec<&str> = methods! {
        select: x().select(x(), x());
        full: Tensor::full([2], 1.5, DType::F32);
        zeros: Tensor::zeros([2], DType::F32);
        ones: Tensor::ones([2], DType::F32);
        arange: Tensor::arange(3, DType::I64);
        eye: Tensor::eye(3, DType::F32);
        concat: Tensor::concat(&[x(), x()], 0);
        stack: Tensor::stack(&[&x(), &x()], 0);
        split: x().split::<3>(1);
        split_sizes: x().split_sizes([1, 2], 1);
        unbind: x().unbind::<2>(0);
        slogdet: x().slogdet();
        qr: x().qr();
        eigh: x().eigh();
        svd: x().svd();
    }
    .into();
    macro_rules! declared {
        ($op:ident $($(#[$doc:meta])* fn $name:ident($($params:tt)*);)*) => {
            names.extend([$(stringify!($name)),*]);
        };
    }
    macro_rules! elementwise {
        ($($(#[$doc:meta])* $name:ident = $op:ident,)*) => {
            names.extend([$(stringify!($name)),*]);
        };
    }
    gradloom_ir::for_each_methods!(declared);
    gradloom_ir::for_each_unary!(elementwise);
    gradloom_ir::for_each_binary!(elementwise);
    names.sort_unstable();
    let defs = Op::ALL.iter().map(|op| op.def());
    let mut table: Vec<&str> = defs.flat_map(|d| d.methods()).map(|m| m.name).collect();
    table.sort_unstable();
    assert_eq!(names, table);
}
