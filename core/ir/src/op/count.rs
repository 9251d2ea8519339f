//! The arithmetic that an op does, by what it is counted.

/// Numbers of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ops {
    /// Additions, multiplications, comparisons and the like.
    pub flops: u32,
    /// Evaluations of functions such as `exp`, `tanh` or `sqrt`.
    pub transcendentals: u32,
}

impl Ops {
    /// So many of each.
    pub const fn new(flops: u32, transcendentals: u32) -> Ops {
        Ops {
            flops,
            transcendentals,
        }
    }
}

/// The arithmetic of an op, as its formula has it: a kernel may take other steps to the same result.
///
/// Integers count like floats. A function that C's mathematics library has is one transcendental operation, and
/// others are counted by their formula: `1 / (1 + exp(-x))` is 3 operations and a transcendental one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// None, and no element is read or written: the result is a view of the operand, or one number repeated.
    View,
    /// None: elements are copied, converted or made.
    Copy,
    /// So much for each element of the result.
    Each(Ops),
    /// So much for each element of the first operand, and for each row: for each of what is left of it after a
    /// reduction over the axes that the op names, or over the last axis where it names none.
    Rows {
        /// For each element.
        element: Ops,
        /// For each row.
        row: Ops,
    },
    /// A multiplication and an addition for each pair of elements that meet in a product of the `Like` operands.
    Product,
    /// For each pair of a query and a key, seen or not, where queries, keys and values are the first operands.
    Attention {
        /// So many products with the features of a query, and with those of a value.
        products: [u32; 2],
        /// And so much else.
        pair: Ops,
    },
    /// Nobody knows: it is in another function.
    Unknown,
}

impl Count {
    /// One operation for each element.
    pub const FLOP: Count = Count::each(1, 0);

    /// One transcendental operation for each element.
    pub const TRANSCENDENTAL: Count = Count::each(0, 1);

    /// So much for each element of the result.
    pub const fn each(flops: u32, transcendentals: u32) -> Count {
        Count::Each(Ops::new(flops, transcendentals))
    }
}
