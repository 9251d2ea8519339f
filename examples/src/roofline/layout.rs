//! Layouts of an operand: views of tensors whose elements lie in another order.

use gradloom::RangeStep;
use gradloom::{Rest, Tensor};

/// Layout of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// Row by row.
    Contiguous,
    /// The last two axes exchanged.
    Transposed,
    /// The first of at least three axes is the last one in memory.
    Permuted,
    /// A part of each row.
    Sliced,
    /// Every second element of each row.
    Strided,
    /// Each row backwards.
    Reversed,
    /// One element, row or plane repeated along the first axis.
    Broadcast,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 7] = [
        Layout::Contiguous,
        Layout::Transposed,
        Layout::Permuted,
        Layout::Sliced,
        Layout::Strided,
        Layout::Reversed,
        Layout::Broadcast,
    ];

    /// Returns the name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::Transposed => "transposed",
            Layout::Permuted => "permuted",
            Layout::Sliced => "sliced",
            Layout::Strided => "strided",
            Layout::Reversed => "reversed",
            Layout::Broadcast => "broadcast",
        }
    }

    /// Returns the shape of the tensor whose view has this shape, or `None` if it has too few axes.
    pub fn base(self, shape: &[usize]) -> Option<Vec<usize>> {
        let mut base = shape.to_vec();
        let rank = shape.len();
        match self {
            Layout::Contiguous => {}
            Layout::Transposed if rank < 2 => return None,
            Layout::Permuted if rank < 3 => return None,
            Layout::Transposed => base.swap(rank - 2, rank - 1),
            Layout::Permuted => base.rotate_left(1),
            Layout::Sliced => *base.last_mut()? += 2,
            Layout::Strided => *base.last_mut()? *= 2,
            Layout::Reversed => _ = base.last()?,
            Layout::Broadcast if *base.first()? == 1 => return None,
            Layout::Broadcast => base[0] = 1,
        }
        Some(base)
    }

    /// Returns the view of a tensor of the base shape.
    pub fn view(self, x: &Tensor, shape: &[usize]) -> Tensor {
        match self {
            Layout::Contiguous => x.clone(),
            Layout::Transposed => x.swap_axes(-2, -1),
            Layout::Permuted => x.moveaxis(-1, 0),
            Layout::Sliced => x.i((Rest, 1..=shape[shape.len() - 1])),
            Layout::Strided => x.i((Rest, (..).by(2))),
            Layout::Reversed => x.i((Rest, (..).by(-1))),
            Layout::Broadcast => x.broadcast_to(shape.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom::DType;

    #[test]
    fn a_view_of_the_base_has_the_shape() {
        for layout in Layout::ALL {
            let shape = [2, 3, 4];
            let base = layout.base(&shape).expect("three axes are enough");
            let x = Tensor::ones(base, DType::F32);
            assert_eq!(layout.view(&x, &shape).shape(), shape, "{layout:?}");
        }
    }
}
