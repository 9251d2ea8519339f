//! Epilogues: groups that run on elements of a matrix product as soon as they are final.
//!
//! The elements are then still in a cache. The result has the bits of the product followed by the
//! group. The group computes each element from the elements at its index. Its sums get the rows in
//! order (`align`), in the same pieces as in the group alone (`grain`).

use crate::elementwise::group::{ComputedOperand, Group};
use crate::elementwise::tile::{Order, gcd};
use crate::elementwise::walk::Span;
use crate::gemm;
use crate::gemm::{Batch, Epilogue, FinalBlock, Gemm};
use crate::task::Prepared;
use gradloom_ir::DType;
use std::sync::Arc;

/// Returns the kernel of a product followed by a group that reads the product as its operand `at`.
///
/// The operands are those of the product, then the other ones of the group. The results are the
/// product, then those of the group. If the product itself is not a result, it is computed in the
/// buffer of the group's result `into`, which must have the same dtype.
///
/// # Errors
///
/// Returns the group if its sums or its operands need pieces that the product cannot provide.
pub fn follow(
    product: &Arc<Batch>,
    dtype: DType,
    group: Group,
    at: usize,
    into: Option<usize>,
) -> Result<Prepared, Box<Group>> {
    match Pieces::new(product, group.order()) {
        Some(cut) if !group.has_tiles() => Ok(on_number!(
            dtype,
            kernel(product.clone(), group, cut, at, into)
        )),
        _ => Err(Box::new(group)),
    }
}

/// Division of a product's result into pieces for a group. It depends on shapes alone.
#[derive(Clone, Copy)]
struct Pieces {
    /// Number of elements per row. Rows are contiguous.
    n: usize,
    /// Number of elements: a range of whole rows is split at its multiples.
    grain: usize,
    /// `align` and `whole` are those of [`Epilogue`].
    align: usize,
    whole: bool,
}

impl Pieces {
    fn new(product: &Batch, order: Order) -> Option<Pieces> {
        let [m, _, n] = product.mkn;
        let rows = |elements: usize| elements / gcd(elements, n);
        let (grain, align, whole) = match order {
            Order::Any => (1, 1, false),
            Order::Whole(piece) => (piece, rows(piece), true),
            Order::Rows { len, block } if len == n => (1, rows(block), false),
            Order::Rows { .. } => return None,
        };
        let fits = product.axes.is_empty() || m.is_multiple_of(align);
        fits.then_some(Pieces {
            n,
            grain,
            align,
            whole,
        })
    }

    /// Returns the spans of the group that are final, each with the address of its first element.
    ///
    /// A range of whole rows ends at a multiple of the grain; the elements after it belong to the
    /// next range, except at the end.
    fn spans<T>(self, len: usize, part: FinalBlock<T>) -> impl Iterator<Item = (Span, *mut u8)> {
        let Pieces { n, grain, .. } = self;
        let FinalBlock {
            result,
            rows,
            columns,
            first,
            stride,
        } = part;
        let whole = columns.len() == n;
        let cut = |row: usize| match row * n {
            at if at == len => len,
            at => at / grain * grain,
        };
        let (from, to) = (cut(rows.start), cut(rows.end));
        let start = match grain {
            1 => first,
            _ => result.wrapping_add(from),
        };
        let once = whole.then_some((Span::new(from, to), start.cast()));
        let each = if whole { 0..0 } else { rows.clone() };
        let each = each.map(move |row| {
            let at = row * n;
            let first = first.wrapping_add((row - rows.start) * stride);
            let span = Span::new(at + columns.start, at + columns.end);
            (span, first.cast())
        });
        once.into_iter().chain(each)
    }
}

fn kernel<T: Gemm>(
    product: Arc<Batch>,
    group: Group,
    cut: Pieces,
    at: usize,
    into: Option<usize>,
) -> Prepared {
    Box::new(move |args, outs| {
        let (operands, others) = args.split_at(2);
        let in_place = outs.len() == group.n_outs();
        let taken = ComputedOperand {
            operand: at,
            into: into.filter(|_| in_place),
        };
        let len = group.len();
        let (z, rest) = match in_place {
            true => (into.unwrap_or_default(), 0),
            false => (0, 1),
        };
        let ends = group.ends(others, &mut outs[rest..], Some(taken));
        let z = T::slice_mut(&mut outs[z]);
        assert_eq!(
            z.len(),
            len,
            "the group must have as many elements as the product"
        );
        let epilogue = Epilogue {
            each: &|part: FinalBlock<T>| {
                let result = part.result.cast();
                // SAFETY: the spans are final elements of the product, each is passed once, and the
                // division among threads follows `order`. If the product shares memory with a
                // result of the group, `result` is its start.
                unsafe { group.run_spans(&ends, result, cut.spans(len, part)) };
            },
            align: cut.align,
            whole: cut.whole,
            apart: in_place && cut.grain == 1,
            nanos: group.nanos(),
        };
        let [a, b] = operands else {
            unreachable!("a product has two operands")
        };
        gemm::run(
            &product,
            T::slice(*a),
            T::slice(*b),
            z,
            false,
            Some(&epilogue),
        );
        Ok(())
    })
}
