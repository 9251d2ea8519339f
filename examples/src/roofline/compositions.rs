//! Compositions of a few operations, of which a plan can save passes over memory.

use super::formula::{Argument, Formula};
use gradloom::{DType, NewAxis, RangeStep, Rest, Tensor};

/// Composition of operations.
pub struct Composition {
    /// Name on the command line and in the table.
    pub name: &'static str,
    /// Shapes of the arguments, as multiples of a length.
    shapes: &'static [&'static [Len]],
    function: fn(&[Tensor]) -> Vec<Tensor>,
}

/// Length of an axis.
#[derive(Clone, Copy)]
enum Len {
    /// The given number.
    Fixed(usize),
    /// The given multiple of the length that grows.
    Times(usize),
}

use Len::{Fixed, Times};

/// A matrix.
const MATRIX: &[Len] = &[Times(2), Times(3)];
/// A tensor of three axes.
const CUBE: &[Len] = &[Times(2), Times(3), Times(2)];
/// A square matrix.
const SQUARE: &[Len] = &[Times(2), Times(2)];
/// Many short rows.
const SHORT_ROWS: &[Len] = &[Times(64), Fixed(8)];

/// All compositions.
pub const COMPOSITIONS: &[Composition] = &[
    Composition {
        name: "transpose>sum0",
        shapes: &[MATRIX],
        function: |x| vec![x[0].t().sum(0)],
    },
    Composition {
        name: "transpose>sum1",
        shapes: &[MATRIX],
        function: |x| vec![x[0].t().sum(1)],
    },
    Composition {
        name: "permute>max",
        shapes: &[CUBE],
        function: |x| vec![x[0].permute([2, 0, 1]).max(1)],
    },
    Composition {
        name: "stride>mean",
        shapes: &[MATRIX],
        function: |x| vec![x[0].i((Rest, (..).by(2))).mean(-1)],
    },
    Composition {
        name: "flip>cumsum",
        shapes: &[MATRIX],
        function: |x| vec![x[0].flip(-1).cumsum(-1)],
    },
    Composition {
        name: "transpose>softmax",
        shapes: &[MATRIX],
        function: |x| vec![x[0].t().softmax(0)],
    },
    Composition {
        name: "square>sum_short_rows",
        shapes: &[SHORT_ROWS],
        function: |x| vec![x[0].square().sum(-1)],
    },
    Composition {
        name: "product>tanh",
        shapes: &[SQUARE, SQUARE],
        function: |x| vec![x[0].matmul(&x[1]).tanh()],
    },
    Composition {
        name: "product>bias>relu",
        shapes: &[SQUARE, SQUARE, &[Times(2)]],
        function: |x| vec![(x[0].matmul(&x[1]) + &x[2]).relu()],
    },
    Composition {
        name: "transpose>product",
        shapes: &[SQUARE, SQUARE],
        function: |x| vec![x[0].t().matmul(&x[1])],
    },
    Composition {
        name: "group>permute",
        shapes: &[CUBE],
        function: |x| vec![(x[0].tanh() * 2.0 + 1.0).permute([2, 0, 1])],
    },
    Composition {
        name: "group>transpose",
        shapes: &[MATRIX, MATRIX],
        function: |x| vec![(&x[0] * &x[1] + 1.0).t()],
    },
    Composition {
        name: "concat_of_slices",
        shapes: &[MATRIX, MATRIX],
        function: |x| {
            vec![Tensor::concat(
                &[x[0].i((Rest, 1..)), x[1].i((Rest, ..-1))],
                -1,
            )]
        },
    },
    Composition {
        name: "concat_of_transposes",
        shapes: &[MATRIX, MATRIX],
        function: |x| vec![Tensor::concat(&[x[0].t(), x[1].t()], 0)],
    },
    Composition {
        name: "pad_of_slice",
        shapes: &[MATRIX],
        function: |x| vec![x[0].i((Rest, 1..)).pad([0, 1], [0, 1], [0, 0], 0.0)],
    },
    Composition {
        name: "mean_and_variance",
        shapes: &[MATRIX],
        function: |x| {
            let centred = &x[0] - x[0].mean_keepdims(0);
            let variance = centred.square().mean_keepdims(0);
            vec![centred / (variance + 1e-5).sqrt()]
        },
    },
    Composition {
        name: "pairwise_distances",
        shapes: &[&[Times(4), Fixed(16)], &[Times(4), Fixed(16)]],
        function: |x| {
            let (x, y) = (x[0].i((.., NewAxis)), x[1].i(NewAxis));
            vec![(x - y).square().sum(-1)]
        },
    },
];

impl Composition {
    /// Returns the formula with arguments of about `bytes` in all.
    pub fn formula(&self, dtype: DType, bytes: usize) -> Formula {
        let arguments = |by: usize| -> Vec<Argument> {
            let len = |len: &Len| match *len {
                Fixed(n) => n,
                Times(n) => n * by,
            };
            let argument = |shape: &&[Len]| Argument::new(dtype, shape.iter().map(len).collect());
            self.shapes.iter().map(argument).collect()
        };
        // Arguments have half of the bytes, and results the other half.
        let fits = |by: &usize| {
            let numbers = |x: &Argument| x.shape.iter().product::<usize>();
            let sum: usize = arguments(*by).iter().map(numbers).sum();
            2 * sum * dtype.size() <= bytes
        };
        let lengths = (1..16).chain((2..4096).map(|i| 8 * i));
        let by = lengths.take_while(fits).last().unwrap_or(1);
        Formula::new(self.name, "-", arguments(by), self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::formula::Transform;
    use crate::roofline::layout::Layout;

    #[test]
    fn compositions_have_derivatives_of_both_modes() {
        for composition in COMPOSITIONS {
            let formula = composition.formula(DType::F32, 1 << 10);
            let layouts = vec![Layout::Contiguous; formula.arguments.len()];
            for transform in Transform::ALL {
                let recorded = formula.recorded(&layouts, transform).unwrap();
                assert!(recorded.is_some(), "{} {transform:?}", composition.name);
            }
        }
    }
}
