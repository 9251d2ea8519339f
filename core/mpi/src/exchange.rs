//! Exchanges of values between the ranks of a group, by MPI.
//!
//! Ranks send contiguous blocks, see [`lower`](crate::lower). Floats are added in the order of the MPI library, which
//! gives all ranks the same bits. Maxima and minima compare the bits of floats as integers, because MPI leaves the result
//! open if an element is NaN. Integers are added as unsigned ones, which wrap.

use gradloom::sharding::Reduction;
use gradloom::{Aval, DType, Element, Tensor};
use gradloom::{bf16, f16};
use mpi::collective::SystemOperation;
use mpi::datatype::Equivalence;
use mpi::request::{WaitGuard, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

/// An exchange of values along axis 0.
#[derive(Clone, Debug)]
pub(crate) enum Exchange {
    /// Each rank gets the sum, maximum, minimum or product of all values.
    Reduce(Reduction),
    /// Each rank gets all values.
    Gather,
    /// Each rank gets its part of the sum of all values.
    ReduceScatter,
    /// Each rank gets its part of each value.
    AllToAll,
    /// Each rank gets the value of another rank, or zeros.
    Permute {
        /// Position in the group of the rank that sends to this one.
        from: Option<i32>,
        /// Position of the rank that gets the value of this one.
        to: Option<i32>,
    },
}

/// Calls a function with the conversions of the elements of a dtype to what MPI sends, and back.
macro_rules! on_dtype {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f($($arg),*, |x: f32| x, |x| x),
            DType::F64 => $f($($arg),*, |x: f64| x, |x| x),
            DType::BF16 => $f($($arg),*, bf16::to_bits, bf16::from_bits),
            DType::F16 => $f($($arg),*, f16::to_bits, f16::from_bits),
            DType::I32 => $f($($arg),*, |x: i32| x, |x| x),
            DType::I64 => $f($($arg),*, |x: i64| x, |x| x),
            DType::I8 => $f($($arg),*, |x: i8| x, |x| x),
            DType::U8 => $f($($arg),*, |x: u8| x, |x| x),
            DType::Bool => $f($($arg),*, |x: bool| x, |x| x),
        }
    };
}

impl Exchange {
    /// Exchanges computed tensors, and returns the results, which have these avals.
    ///
    /// A reduction takes several tensors of one dtype, which make one message.
    pub(crate) fn run(
        &self,
        comm: &SimpleCommunicator,
        xs: &[Tensor],
        outs: &[Aval],
    ) -> Vec<Tensor> {
        let dtype = outs[0].dtype();
        match self {
            Exchange::Reduce(by) => reduce(*by, false, comm, xs, outs),
            Exchange::ReduceScatter => reduce(Reduction::Sum, true, comm, xs, outs),
            _ => vec![on_dtype!(dtype, moved(self, comm, &xs[0], &outs[0]))],
        }
    }
}

fn moved<T: Element, W: Equivalence + Clone + Default>(
    exchange: &Exchange,
    comm: &SimpleCommunicator,
    x: &Tensor,
    out: &Aval,
    to: impl Fn(T) -> W,
    back: impl Fn(W) -> T,
) -> Tensor {
    let sent: Vec<W> = x.to_vec::<T>().into_iter().map(to).collect();
    let mut got = vec![W::default(); out.numel()];
    match exchange {
        _ if sent.is_empty() => {}
        Exchange::Gather => comm.all_gather_into(&sent[..], &mut got[..]),
        Exchange::AllToAll => comm.all_to_all_into(&sent[..], &mut got[..]),
        Exchange::Permute { from, to } => scope(|scope| {
            let sending = to.map(|to| {
                let to = comm.process_at_rank(to);
                WaitGuard::from(to.immediate_send(scope, &sent[..]))
            });
            if let Some(from) = from {
                comm.process_at_rank(*from).receive_into(&mut got[..]);
            }
            drop(sending);
        }),
        Exchange::Reduce(_) | Exchange::ReduceScatter => unreachable!("`reduce` joins values"),
    }
    let got: Vec<T> = got.into_iter().map(back).collect();
    Tensor::from_vec(got, out.shape().to_vec())
}

/// Joins the values of all ranks, element by element. If `scatters`, a rank gets its block of the result.
fn reduce(
    by: Reduction,
    scatters: bool,
    comm: &SimpleCommunicator,
    xs: &[Tensor],
    outs: &[Aval],
) -> Vec<Tensor> {
    let op = match by {
        Reduction::Sum => SystemOperation::sum(),
        Reduction::Prod => SystemOperation::product(),
        Reduction::Max => SystemOperation::max(),
        Reduction::Min => SystemOperation::min(),
    };
    let folds = matches!(by, Reduction::Sum | Reduction::Prod);
    let is_max = by == Reduction::Max;
    macro_rules! joined {
        ($t:ty as $wire:ty, $to:expr, $back:expr) => {{
            let exchange = |sent: &[$wire], got: &mut [$wire]| match scatters {
                true => comm.reduce_scatter_block_into(sent, got, op),
                false => comm.all_reduce_into(sent, got, op),
            };
            joined::<$t, $wire>(xs, outs, ($to, $back), exchange)
        }};
    }
    match outs[0].dtype() {
        DType::F32 if folds => joined!(f32 as f32, |x| x, |x| x),
        DType::F64 if folds => joined!(f64 as f64, |x| x, |x| x),
        DType::I32 if folds => joined!(i32 as u32, |x| x as u32, |x| x as i32),
        DType::I64 if folds => joined!(i64 as u64, |x| x as u64, |x| x as i64),
        DType::F32 => joined!(f32 as i32, |x| key_32(x, is_max), float_32),
        DType::F64 => joined!(f64 as i64, |x| key_64(x, is_max), float_64),
        DType::I32 => joined!(i32 as i32, |x| x, |x| x),
        DType::I64 => joined!(i64 as i64, |x| x, |x| x),
        DType::Bool => joined!(bool as u8, u8::from, |x| x != 0),
        dtype => unreachable!("a reduction does not compute in {dtype}"),
    }
}

/// Exchanges the elements of all tensors as numbers of another type.
fn joined<T: Element, W: Clone + Default>(
    xs: &[Tensor],
    outs: &[Aval],
    (to, back): (impl Fn(T) -> W, impl Fn(W) -> T),
    exchange: impl FnOnce(&[W], &mut [W]),
) -> Vec<Tensor> {
    let elements = xs.iter().flat_map(|x| x.to_vec::<T>());
    let sent: Vec<W> = elements.map(to).collect();
    let mut got = vec![W::default(); outs.iter().map(Aval::numel).sum()];
    if !sent.is_empty() {
        exchange(&sent, &mut got);
    }
    let mut got = got.into_iter().map(back);
    let out = |aval: &Aval| {
        let elements = got.by_ref().take(aval.numel()).collect();
        Tensor::from_vec::<T>(elements, aval.shape().to_vec())
    };
    outs.iter().map(out).collect()
}

/// Returns an integer for each float, in the same order, with -0 before 0. NaN is the greatest or the least.
fn key_32(x: f32, nan_is_greatest: bool) -> i32 {
    let bits = x.to_bits() as i32;
    match (x.is_nan(), nan_is_greatest) {
        (true, true) => i32::MAX,
        (true, false) => i32::MIN,
        (false, _) => bits ^ (((bits >> 31) as u32) >> 1) as i32,
    }
}

/// Returns the float of a key.
fn float_32(key: i32) -> f32 {
    let x = f32::from_bits((key ^ (((key >> 31) as u32) >> 1) as i32) as u32);
    if x.is_nan() { f32::NAN } else { x }
}

/// Returns an integer for each float, in the same order, with -0 before 0. NaN is the greatest or the least.
fn key_64(x: f64, nan_is_greatest: bool) -> i64 {
    let bits = x.to_bits() as i64;
    match (x.is_nan(), nan_is_greatest) {
        (true, true) => i64::MAX,
        (true, false) => i64::MIN,
        (false, _) => bits ^ (((bits >> 63) as u64) >> 1) as i64,
    }
}

/// Returns the float of a key.
fn float_64(key: i64) -> f64 {
    let x = f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64);
    if x.is_nan() { f64::NAN } else { x }
}
