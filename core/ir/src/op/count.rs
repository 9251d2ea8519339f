//! The arithmetic cost of ops.

/// Numbers of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Additions, multiplications, comparisons and the like.
    pub flops: u32,
    /// Evaluations of functions such as `exp`, `tanh` or `sqrt`.
    pub transcendentals: u32,
}

impl Ops {
    /// Creates a count of `flops` arithmetic and `transcendentals` transcendental operations.
    pub const fn new(flops: u32, transcendentals: u32) -> Ops {
        Ops {
            flops,
            transcendentals,
        }
    }
}

/// The arithmetic cost of an op, counted by its formula. A kernel may compute it in other steps.
///
/// Integers count like floats. A function of C's mathematics library counts as one transcendental
/// operation. Other functions are counted by their formula: `1 / (1 + exp(-x))` has 3 flops and one
/// transcendental operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// No arithmetic and no memory traffic: a view of the operand, or one number repeated.
    View,
    /// No arithmetic: elements are copied, converted or generated.
    Copy,
    /// The given operations for each element of the result.
    Each(Ops),
    /// Operations for each element of the first operand and for each row.
    ///
    /// The rows are the elements left after a reduction over the axes that the op names, or over
    /// the last axis if it names none.
    Rows {
        /// Operations for each element.
        element: Ops,
        /// Operations for each row.
        row: Ops,
    },
    /// Two flops for each multiply-add of the matrix product of the `Like` operands.
    Product,
    /// Operations for each pair of a query and a key, masked or not.
    ///
    /// The first operands are queries, keys and values.
    Attention {
        /// The number of products with the features of a query, and with those of a value.
        products: [u32; 2],
        /// The other operations for each pair.
        pair: Ops,
    },
    /// Two flops for each multiply-add of a convolution: one for each window and each element of
    /// the weights of a channel.
    ///
    /// Positions count the operands, then the result.
    Convolution {
        /// The position of the value with an element for each window.
        windows: usize,
        /// The position of the value with the shape of the weights.
        weights: usize,
    },
    /// One flop for each element of each pooling window. Positions count as for a convolution.
    Pool {
        /// The position of the value with an element for each window.
        windows: usize,
    },
    /// Two flops for each element of the operands and each column of the first one, a matrix.
    ///
    /// This is the order of the work of factorisations.
    Factors,
    /// Unknown, because the op calls another function.
    Unknown,
}

impl Count {
    /// One flop for each element of the result.
    pub const FLOP: Count = Count::each(1, 0);

    /// One transcendental operation for each element of the result.
    pub const TRANSCENDENTAL: Count = Count::each(0, 1);

    /// Returns a cost of the given operations for each element of the result.
    pub const fn each(flops: u32, transcendentals: u32) -> Count {
        Count::Each(Ops::new(flops, transcendentals))
    }
}
