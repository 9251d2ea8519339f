//! Groups that follow a product: they run over elements of its result as soon as these are final, while a cache has them.
//!
//! The bits are those of the product and the group one after the other: the group computes each element from the elements at
//! its index, and its sums get the rows in their order (`align`), in pieces that end where they end in the group
//! (`grain`).

use super::cut::gcd;
use super::fused::{Group, Taken};
use super::gemm::{self, Batch, Epilogue, Final, Gemm};
use super::memory::Prepared;
use super::on_number;
use super::pieces::Order;
use crate::DType;
use std::sync::Arc;

/// The kernel of a product and a group that reads its result, `group`'s operand number `at`. Its operands are those of the product and
/// the other ones of the group. Its results are that of the product and those of the group; if the first is missing, it is
/// where the group's result number `into` is, which has the same dtype.
///
/// None where the sums of the group need other pieces than the product has. Then the group comes back.
pub(crate) fn follow(
    product: &Arc<Batch>,
    dtype: DType,
    group: Group,
    at: usize,
    into: Option<usize>,
) -> Result<Prepared, Box<Group>> {
    match Cut::new(product, group.order()) {
        Some(cut) => Ok(on_number!(
            dtype,
            kernel(product.clone(), group, cut, at, into)
        )),
        None => Err(Box::new(group)),
    }
}

/// How the result of a product is cut for a group. All depends on shapes alone.
#[derive(Clone, Copy)]
struct Cut {
    /// The rows that lie one after the other in memory, of so many elements.
    n: usize,
    /// A range of whole rows is cut at multiples of so many elements.
    grain: usize,
    /// As in [`Epilogue`].
    align: usize,
    whole: bool,
}

impl Cut {
    fn new(product: &Batch, order: Order) -> Option<Cut> {
        let [m, _, n] = product.mkn;
        let rows = |elements: usize| elements / gcd(elements, n);
        let (grain, align, whole) = match order {
            Order::Any => (1, 1, false),
            Order::Whole(piece) => (piece, rows(piece), true),
            Order::Rows { len, block } if len == n => (1, rows(block), false),
            Order::Rows { .. } => return None,
        };
        let fits = product.axes.is_empty() || m.is_multiple_of(align);
        fits.then_some(Cut {
            n,
            grain,
            align,
            whole,
        })
    }

    /// The final elements as spans of elements of the group, and where each begins. Of whole rows, what is not whole pieces
    /// yet is left to the next, except at the end.
    fn spans<T>(self, len: usize, part: Final<T>) -> impl Iterator<Item = (usize, usize, *mut u8)> {
        let Cut { n, grain, .. } = self;
        let Final {
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
        let once = whole.then_some((from, to, start.cast()));
        let each = if whole { 0..0 } else { rows.clone() };
        let each = each.map(move |row| {
            let at = row * n;
            let first = first.wrapping_add((row - rows.start) * stride);
            (at + columns.start, at + columns.end, first.cast())
        });
        once.into_iter().chain(each)
    }
}

fn kernel<T: Gemm>(
    product: Arc<Batch>,
    group: Group,
    cut: Cut,
    at: usize,
    into: Option<usize>,
) -> Prepared {
    Box::new(move |args, outs| {
        let (operands, others) = args.split_at(2);
        let in_place = outs.len() == group.n_outs();
        let taken = Taken {
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
        assert_eq!(z.len(), len, "a group over all elements of the product");
        let epilogue = Epilogue {
            each: &|part: Final<T>| {
                let result = part.result.cast();
                // SAFETY: the spans are final elements of the product, and each comes up once; threads do not share what
                // `order` says. The result is that of the group if the two lie at one place.
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
