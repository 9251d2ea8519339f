//! Products with a matrix whose elements have 8 or 16 bits.
//!
//! Blocks of its columns are widened to `f32` in a cache, and multiplied there. Each element is read
//! from memory once, and sums have the order that they have with a matrix of `f32`.

use crate::gemm::blocks::OutputPtr;
use crate::gemm::pack::MatrixPtr;
use crate::gemm::single::{self, Single};
use crate::gemm::tile::TileElement;
use crate::gemm::{Batch, Gemm, Matrix, check};
use crate::memory::Element;
use crate::memory::aligned_vec::AlignedVec;
use crate::memory::half_floats::Widen;
use crate::memory::scratch::{Scratch, with_slices};
use crate::movement::cast::{ConvertFrom, cast};
use crate::simd::level::level;
use crate::task::Prepared;
use crate::threads;
use gradloom_ir::DType;
use half::{bf16, f16};
use std::sync::Arc;

/// Size in bytes of a block of widened columns.
const BLOCK: usize = 32 << 10;

/// Returns the kernel of `c = a b` with a `b` of a dtype of 8 or 16 bits, and an `a` and a `c` of `f32`.
///
/// The batch has one product. If `left`, `a` has the small dtype, and `b` is of `f32`.
pub fn product_of_stored(dtype: DType, batch: Arc<Batch>, left: bool) -> Prepared {
    fn typed<T: Stored>(batch: Arc<Batch>, left: bool) -> Prepared
    where
        f32: ConvertFrom<T>,
    {
        // The transposed product has its matrix on the right.
        let batch = match left {
            true => Arc::new(batch.transposed()),
            false => batch,
        };
        Box::new(move |args, outs| {
            let (rows, matrix) = match left {
                true => (args[1], args[0]),
                false => (args[0], args[1]),
            };
            run(
                &batch,
                f32::slice(rows),
                T::slice(matrix),
                f32::slice_mut(&mut outs[0]),
            );
            Ok(())
        })
    }
    match dtype {
        DType::BF16 => typed::<bf16>(batch, left),
        DType::F16 => typed::<f16>(batch, left),
        DType::I8 => typed::<i8>(batch, left),
        DType::U8 => typed::<u8>(batch, left),
        dtype => unreachable!("{dtype} is not widened"),
    }
}

/// An element that is widened where it is multiplied.
trait Stored: Element + Widen {
    /// Returns the loops for a single row, if the CPU has their features.
    fn loops() -> Option<&'static Single<f32, Self>>;
}

macro_rules! stored {
    ($($t:ident: $name:ident,)*) => {$(
        impl Stored for $t {
            fn loops() -> Option<&'static Single<f32, $t>> {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    gradloom_maths::Level::Avx512 => Some(&single::x86::avx512::$name::SINGLE),
                    #[cfg(target_arch = "x86_64")]
                    gradloom_maths::Level::Avx2 if is_x86_feature_detected!("f16c") => Some(&single::x86::avx2::$name::SINGLE),
                    _ => None,
                }
            }
        }
    )*};
}

stored! { bf16: of_bf16, f16: of_f16, i8: of_i8, u8: of_u8, }

impl Batch {
    /// Returns `bᵀ aᵀ` for one product `a b`.
    fn transposed(&self) -> Batch {
        let [m, k, n] = self.mkn;
        Batch {
            mkn: [n, k, m],
            a: self.b.transposed(),
            b: self.a.transposed(),
            out: self.out.transposed(),
            axes: Vec::new(),
            summed: Vec::new(),
            single: self.single,
        }
    }
}

fn run<T: Stored>(batch: &Batch, a: &[f32], b: &[T], out: &mut [f32])
where
    f32: ConvertFrom<T>,
{
    assert!(
        batch.axes.is_empty() && batch.summed.is_empty(),
        "a stored matrix has no batch"
    );
    // The result of a transposed product has contiguous columns, so rows are checked as columns.
    let checked = match batch.out.cols > batch.out.rows {
        true => batch.transposed(),
        false => batch.clone(),
    };
    let lens = match batch.out.cols > batch.out.rows {
        true => [b.len(), a.len(), out.len()],
        false => [a.len(), b.len(), out.len()],
    };
    check(&checked, lens, false);
    let [m, k, n] = batch.mkn;
    let a = batch.a.at(a.as_ptr());
    let c = OutputPtr {
        ptr: out.as_mut_ptr().wrapping_add(batch.out.offset),
        stride: batch.out.rows,
    };
    let cols = batch.out.cols;
    let tiles = f32::tiles(level());
    if let (true, Some(tiles), Some(loops)) = (batch.single && m == 1, tiles, T::loops()) {
        let (b, c) = (batch.b.at(b.as_ptr()), (c.ptr, cols));
        let loops = (loops, tiles.single.across);
        // SAFETY: `check` asserted that the last elements of the operands and of the result lie inside
        // their slices, and that the elements of the result are distinct. `out` is borrowed mutably.
        // The loops are those of this CPU's level.
        return unsafe { single::product_of(loops, T::widen, [k, n], a, b, c, false) };
    }
    let width = (BLOCK / size_of::<f32>() / k)
        .next_multiple_of(16)
        .min(n.next_multiple_of(16));
    let n_blocks = n.div_ceil(width);
    let nanos = f32::nanos(batch.mkn).max(k.saturating_mul(n) * size_of::<T>() / 16);
    let n_tasks = n_blocks.min(4 * threads::worth(nanos));
    let per_task = n_blocks.div_ceil(n_tasks);
    threads::for_each(n_blocks.div_ceil(per_task), nanos, |task| {
        thread_local! {
            static SCRATCH: Scratch = const { Scratch::new(AlignedVec::new()) };
        }
        with_slices(&SCRATCH, [k * width], |[wide]: [&mut [f32]; 1]| {
            for block in task * per_task..n_blocks.min((task + 1) * per_task) {
                let j = block * width;
                let n = width.min(n - j);
                let matrix = widened(b, batch.b, [k, n], j, wide);
                let c = c.from(0, j * cols);
                // SAFETY: `check` asserted that the last elements of the operands and of the result
                // lie inside their slices, and that the elements of the result are distinct. Blocks
                // have columns of their own, and `out` is borrowed mutably.
                unsafe {
                    match batch.single {
                        true => f32::single([m, k, n], a, matrix, c, cols, false, None),
                        false => f32::product([m, k, n], a, matrix, c, cols, false, None),
                    }
                }
            }
        });
    });
}

/// Writes the columns of `b` from `j` on as `f32`, in the order in which they are stored.
fn widened<T: Element>(
    b: &[T],
    at: Matrix,
    [k, n]: [usize; 2],
    j: usize,
    wide: &mut [f32],
) -> MatrixPtr<f32>
where
    f32: ConvertFrom<T>,
{
    let start = at.offset + j * at.cols;
    let (rows, cols) = if at.rows == 1 {
        for (to, i) in wide.chunks_exact_mut(k).zip(0..n) {
            cast(&b[start + i * at.cols..][..k], to);
        }
        (1, k)
    } else if at.cols == 1 {
        for (to, i) in wide.chunks_exact_mut(n).zip(0..k) {
            cast(&b[start + i * at.rows..][..n], to);
        }
        (n, 1)
    } else {
        for (to, i) in wide.chunks_exact_mut(k).zip(0..n) {
            for (to, p) in to.iter_mut().zip(0..k) {
                *to = ConvertFrom::of(b[start + i * at.cols + p * at.rows]);
            }
        }
        (1, k)
    };
    MatrixPtr {
        ptr: wide.as_ptr(),
        rows,
        cols,
    }
}
