//! Simulated devices: one program on the parts of a value that each device of a mesh has.
//!
//! The program is cut at its collectives. All devices run a segment, each with buffers of its own, and then
//! exchange values before the next segment. So no device ever waits for another one, whatever the number of
//! threads, and results do not depend on it.

use crate::control::with_lines;
use crate::memory::buffer::Buffer;
use crate::memory::data::{Data, DataMut};
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::task::{Body, Prepared};
use crate::threads::for_each_chunk;
use gradloom_ir::DType;
use std::sync::Arc;

/// A program for the devices of a mesh.
///
/// Each device has a value for each *slot*.
pub struct Spmd {
    pub n_devices: usize,
    /// Dtype and number of elements of each slot.
    pub slots: Vec<(DType, usize)>,
    /// How each operand is divided, in the order of the first slots.
    pub inputs: Vec<Division>,
    pub steps: Vec<Step>,
    /// The slot of each result, and how the result is divided.
    pub outputs: Vec<(usize, Division)>,
}

/// How a value is divided in parts of equal shape.
pub struct Division {
    /// Shape of the value.
    pub whole: Vec<usize>,
    /// Shape of a part.
    pub part: Vec<usize>,
    /// First index of the part of each device.
    pub starts: Vec<Vec<usize>>,
}

/// A step that all devices take before the next one.
pub struct Step {
    pub work: Work,
    /// Slots that no later step reads.
    pub dead: Vec<usize>,
}

/// Work of a step.
pub enum Work {
    /// Each device runs the tasks of a segment.
    Segment {
        body: Body,
        args: Vec<usize>,
        outs: Vec<usize>,
        /// Estimated time in nanoseconds on one device.
        nanos: usize,
    },
    /// The devices of each group exchange the values of a slot.
    Exchange {
        exchange: Exchange,
        /// Devices of each group.
        groups: Vec<Vec<usize>>,
        arg: usize,
        out: usize,
    },
    /// Each device gets its position in its group.
    Position { groups: Vec<Vec<usize>>, out: usize },
}

/// An exchange of values between the devices of a group.
pub enum Exchange {
    /// Each device gets one value made of all values.
    Reduce(Join),
    /// Each device gets all values, one after the other along an axis.
    Gather(Blocks),
    /// Each device keeps a part of its value.
    Slice(Blocks),
    /// Each device gets a part of the sum of all values.
    ReduceScatter(Blocks),
    /// Each device gets a part of each value: the axis that is cut, and the one along which parts follow each other.
    AllToAll { split: Blocks, concat: Blocks },
    /// Each device gets the value of another one, or zeros. The position of that one in the group.
    Permute(Vec<Option<usize>>),
}

/// How two elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    Sum,
    Max,
    Min,
    Prod,
}

/// An axis of a value, with the elements before and after it.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Number of indices of the axes before.
    pub outer: usize,
    /// Length of the axis.
    pub len: usize,
    /// Number of elements for each index of the axis.
    pub inner: usize,
}

impl Blocks {
    /// Returns the axis of a value of this shape.
    pub fn of(shape: &[usize], axis: usize) -> Blocks {
        Blocks {
            outer: shape[..axis].iter().product(),
            len: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }
}

/// Value of a slot on a device.
#[derive(Clone)]
enum Slot<'a> {
    Empty,
    /// Elements of an operand.
    Given(Data<'a>),
    /// A computed value. Devices may share it.
    Made(Arc<Buffer>),
}

impl Slot<'_> {
    fn data(&self) -> Data<'_> {
        match self {
            Slot::Empty => {
                unreachable!("a slot is read after it is written, and before it is dead")
            }
            Slot::Given(data) => *data,
            Slot::Made(buffer) => data(buffer),
        }
    }
}

/// State of a device.
struct Device<'a> {
    slots: Vec<Slot<'a>>,
    ran: Result<(), KernelFault>,
}

/// Returns the elements of a buffer.
fn data(buffer: &Buffer) -> Data<'_> {
    match buffer {
        Buffer::F32(xs) => Data::F32(xs),
        Buffer::F64(xs) => Data::F64(xs),
        Buffer::I32(xs) => Data::I32(xs),
        Buffer::I64(xs) => Data::I64(xs),
        Buffer::Bool(xs) => Data::Bool(xs),
    }
}

/// Returns the elements of a buffer, to be written.
fn data_mut(buffer: &mut Buffer) -> DataMut<'_> {
    let (dtype, start, len) = (buffer.dtype(), buffer.as_mut_ptr(), buffer.len());
    // SAFETY: the buffer has `len` elements of `dtype` from `start` on, and is borrowed mutably. A kernel writes
    // each bool before it is read, and writes 0 or 1.
    unsafe { DataMut::at(dtype, start, len) }
}

/// Returns the kernel that runs a program on simulated devices.
///
/// An error comes from the first device that fails.
pub fn spmd(of: Spmd) -> Prepared {
    Box::new(move |args, outs| {
        let mut devices = Vec::with_capacity(of.n_devices);
        for device in 0..of.n_devices {
            let mut slots = vec![Slot::Empty; of.slots.len()];
            for (slot, (x, division)) in slots.iter_mut().zip(args.iter().zip(&of.inputs)) {
                *slot = division.part_of(*x, device)?;
            }
            let ran = Ok(());
            devices.push(Device { slots, ran });
        }
        for step in &of.steps {
            match &step.work {
                Work::Segment {
                    body,
                    args,
                    outs,
                    nanos,
                } => segment(&mut devices, &of.slots, body, [args, outs], *nanos)?,
                Work::Exchange {
                    exchange,
                    groups,
                    arg,
                    out,
                } => exchanged(&mut devices, exchange, groups, *arg, (*out, of.slots[*out]))?,
                Work::Position { groups, out } => {
                    for (position, device) in
                        groups.iter().flat_map(|group| group.iter().enumerate())
                    {
                        let position = vec![position as i64];
                        devices[*device].slots[*out] =
                            Slot::Made(Arc::new(Buffer::I64(position.into())));
                    }
                }
            }
            for device in &mut devices {
                step.dead
                    .iter()
                    .for_each(|dead| device.slots[*dead] = Slot::Empty);
            }
        }
        for (out, (slot, division)) in outs.iter_mut().zip(&of.outputs) {
            // Devices with the same part have the same value, and that of the first one stays.
            for (i, device) in devices.iter().enumerate() {
                let start = &division.starts[i];
                if !division.starts[..i].contains(start) {
                    division.put(out, device.slots[*slot].data(), start);
                }
            }
        }
        Ok(())
    })
}

/// Runs a segment on all devices.
fn segment(
    devices: &mut [Device<'_>],
    slots: &[(DType, usize)],
    body: &Body,
    [args, outs]: [&[usize]; 2],
    nanos: usize,
) -> Result<(), KernelFault> {
    let run = |device: &mut Device<'_>| -> Result<(), KernelFault> {
        let size = |slot: &usize| slots[*slot];
        let made = outs
            .iter()
            .map(size)
            .map(|(dtype, n)| Buffer::scratch(dtype, n));
        let mut made = made.collect::<Result<Vec<_>, _>>()?;
        let given: Vec<Data<'_>> = args.iter().map(|slot| device.slots[*slot].data()).collect();
        let mut results: Vec<DataMut<'_>> = made.iter_mut().map(data_mut).collect();
        with_lines(body.lines(), |arena| body.run(&given, &mut results, arena))?;
        drop((given, results));
        for (slot, buffer) in outs.iter().zip(made) {
            device.slots[*slot] = Slot::Made(Arc::new(buffer));
        }
        Ok(())
    };
    let all = nanos.saturating_mul(devices.len());
    for_each_chunk(devices, 1, all, |_, device| {
        device[0].ran = run(&mut device[0])
    });
    for (i, device) in devices.iter_mut().enumerate() {
        std::mem::replace(&mut device.ran, Ok(())).map_err(|fault| on_device(i, fault))?;
    }
    Ok(())
}

fn on_device(device: usize, fault: KernelFault) -> KernelFault {
    KernelFault::Device {
        device,
        fault: Box::new(fault),
    }
}

/// Exchanges the values of slot `arg`, and fills slot `out`.
fn exchanged(
    devices: &mut [Device<'_>],
    exchange: &Exchange,
    groups: &[Vec<usize>],
    arg: usize,
    (out, (dtype, len)): (usize, (DType, usize)),
) -> Result<(), KernelFault> {
    // Position in `groups`, and in the group, of each result. All devices of a group share one result of a
    // reduction or a gathering.
    let is_shared = matches!(exchange, Exchange::Reduce(_) | Exchange::Gather(_));
    let places = groups.iter().enumerate().flat_map(|(i, group)| {
        let n = if is_shared {
            group.len().min(1)
        } else {
            group.len()
        };
        (0..n).map(move |at| (i, at))
    });
    let places: Vec<(usize, usize)> = places.collect();
    let mut made: Vec<Option<Result<Buffer, KernelFault>>> = places.iter().map(|_| None).collect();
    let readers = &*devices;
    // Elements that are read and written.
    let nanos = places.len() * len * if is_shared { groups[0].len() } else { 1 };
    for_each_chunk(&mut made, 1, nanos, |i, made| {
        let (group, at) = places[i];
        let values = groups[group].iter();
        let values: Vec<Data<'_>> = values
            .map(|device| readers[*device].slots[arg].data())
            .collect();
        let filled = || {
            let mut buffer = Buffer::scratch(dtype, len)?;
            exchange.fill(&values, at, &mut data_mut(&mut buffer));
            Ok(buffer)
        };
        made[0] = Some(filled());
    });
    for ((group, at), made) in places.into_iter().zip(made) {
        let group = &groups[group];
        let made = made.expect("each result is computed");
        let made = Arc::new(made.map_err(|fault| on_device(group[at], fault))?);
        let to = if is_shared {
            &group[..]
        } else {
            &group[at..][..1]
        };
        for device in to {
            devices[*device].slots[out] = Slot::Made(made.clone());
        }
    }
    Ok(())
}

impl Exchange {
    /// Writes the result of device `at` of a group.
    fn fill(&self, group: &[Data<'_>], at: usize, out: &mut DataMut<'_>) {
        let n = group.len();
        match self {
            Exchange::Reduce(join) => {
                out.copy_from(group[0]);
                for x in &group[1..] {
                    joined(*join, out, *x);
                }
            }
            Exchange::Gather(blocks) => {
                for (i, x) in group.iter().enumerate() {
                    let to = Blocks {
                        len: blocks.len * n,
                        ..*blocks
                    };
                    blocks.copy(*x, 0, out, to, i * blocks.len, blocks.len);
                }
            }
            Exchange::Slice(blocks) => blocks.copy_part(group[at], at, n, out),
            Exchange::ReduceScatter(blocks) => {
                blocks.copy_part(group[0], at, n, out);
                for x in &group[1..] {
                    blocks.add_part(*x, at, n, out);
                }
            }
            Exchange::AllToAll { split, concat } => {
                // `split` describes operands, and `concat` results.
                let lens = concat.len / n;
                for (i, x) in group.iter().enumerate() {
                    all_to_all(*x, *split, [at, n], out, *concat, i * lens);
                }
            }
            Exchange::Permute(sources) => match sources[at] {
                Some(from) => out.copy_from(group[from]),
                None => zero(out),
            },
        }
    }
}

fn zero(out: &mut DataMut<'_>) {
    match out {
        DataMut::F32(xs) => xs.fill(0.0),
        DataMut::F64(xs) => xs.fill(0.0),
        DataMut::I32(xs) => xs.fill(0),
        DataMut::I64(xs) => xs.fill(0),
        DataMut::Bool(xs) => xs.fill(0),
    }
}

/// Replaces each element of `out` by itself joined with that of `x`.
fn joined(join: Join, out: &mut DataMut<'_>, x: Data<'_>) {
    fn each<T: Copy>(out: &mut [T], x: &[T], f: impl Fn(T, T) -> T) {
        out.iter_mut().zip(x).for_each(|(y, x)| *y = f(*y, *x));
    }
    macro_rules! floats {
        ($ty:ident, $out:ident, $x:ident) => {
            match join {
                Join::Sum => each($out, $x, |a, b| a + b),
                Join::Prod => each($out, $x, |a, b| a * b),
                Join::Max => each(
                    $out,
                    $x,
                    |a: $ty, b| if a >= b || a.is_nan() { a } else { b },
                ),
                Join::Min => each(
                    $out,
                    $x,
                    |a: $ty, b| if a <= b || a.is_nan() { a } else { b },
                ),
            }
        };
    }
    macro_rules! integers {
        ($ty:ident, $out:ident, $x:ident) => {
            match join {
                Join::Sum => each($out, $x, $ty::wrapping_add),
                Join::Prod => each($out, $x, $ty::wrapping_mul),
                Join::Max => each($out, $x, |a: $ty, b| a.max(b)),
                Join::Min => each($out, $x, |a: $ty, b| a.min(b)),
            }
        };
    }
    match (out, x) {
        (DataMut::F32(out), Data::F32(x)) => floats!(f32, out, x),
        (DataMut::F64(out), Data::F64(x)) => floats!(f64, out, x),
        (DataMut::I32(out), Data::I32(x)) => integers!(i32, out, x),
        (DataMut::I64(out), Data::I64(x)) => integers!(i64, out, x),
        (DataMut::Bool(out), Data::Bool(x)) => {
            let x = crate::memory::data::bytes_of(x);
            match join {
                Join::Max => each(out, x, |a, b| a.max(b)),
                Join::Min => each(out, x, |a, b| a.min(b)),
                Join::Sum | Join::Prod => unreachable!("the dtype rule refuses bools"),
            }
        }
        (out, x) => unreachable!("{x:?} is not joined with {}", out.dtype()),
    }
}

/// Evaluates `$e` with the elements of a result and of an operand of one dtype. Bools are bytes.
macro_rules! on_pair {
    ($out:expr, $x:expr, $to:ident, $from:ident => $e:expr) => {
        match ($out, $x) {
            (DataMut::F32($to), Data::F32($from)) => $e,
            (DataMut::F64($to), Data::F64($from)) => $e,
            (DataMut::I32($to), Data::I32($from)) => $e,
            (DataMut::I64($to), Data::I64($from)) => $e,
            (DataMut::Bool($to), Data::Bool($from)) => {
                let $from = crate::memory::data::bytes_of($from);
                $e
            }
            (out, x) => unreachable!("{x:?} is not copied to {}", out.dtype()),
        }
    };
}

impl Blocks {
    /// Copies `n` indices of this axis from `start` on to another value, from index `at` of its axis on.
    fn copy(
        self,
        x: Data<'_>,
        start: usize,
        out: &mut DataMut<'_>,
        to: Blocks,
        at: usize,
        n: usize,
    ) {
        let run = n * self.inner;
        on_pair!(out, x, out, x => for i in 0..self.outer {
            let from = &x[(i * self.len + start) * self.inner..][..run];
            out[(i * to.len + at) * to.inner..][..run].copy_from_slice(from);
        });
    }

    /// Copies part `i` of `n`.
    fn copy_part(self, x: Data<'_>, i: usize, n: usize, out: &mut DataMut<'_>) {
        let len = self.len / n;
        self.copy(x, i * len, out, Blocks { len, ..self }, 0, len);
    }

    /// Adds part `i` of `n`.
    fn add_part(self, x: Data<'_>, i: usize, n: usize, out: &mut DataMut<'_>) {
        let run = self.len / n * self.inner;
        for row in 0..self.outer {
            let from = x.part((row * self.len + i * (self.len / n)) * self.inner, run);
            joined(Join::Sum, &mut out.part_mut(row * run, run), from);
        }
    }
}

/// Copies part `i` of `n` along the axis that is cut to index `first` of the other axis of the result.
fn all_to_all(
    x: Data<'_>,
    split: Blocks,
    [i, n]: [usize; 2],
    out: &mut DataMut<'_>,
    concat: Blocks,
    first: usize,
) {
    let rows = concat.len / n;
    let cut = split.len / n;
    // The part in row-major order has the elements of the result from `first` on, in their order.
    let run = cut * split.inner;
    let part = concat.outer * rows * concat.inner;
    debug_assert_eq!(part, split.outer * run);
    let place = |k: usize| {
        let (row, rest) = (k / (rows * concat.inner), k % (rows * concat.inner));
        (row * concat.len + first) * concat.inner + rest
    };
    on_pair!(out, x, out, x => for k in 0..part {
        let (row, rest) = (k / run, k % run);
        out[place(k)] = x[(row * split.len + i * cut) * split.inner + rest];
    });
}

impl Division {
    /// Returns the part of a device: a slice of the value if its elements are contiguous.
    fn part_of<'a>(&self, x: Data<'a>, device: usize) -> Result<Slot<'a>, KernelFault> {
        let start = &self.starts[device];
        let (outer, run) = self.runs();
        match outer.iter().product::<usize>() * run {
            0 => return Ok(Slot::Given(x.part(0, 0))),
            len if len == run => return Ok(Slot::Given(x.part(self.offset(start), run))),
            _ => {}
        }
        fn copied<T: Element>(
            of: &Division,
            x: Data<'_>,
            start: &[usize],
        ) -> Result<Buffer, KernelFault> {
            let mut part = crate::memory::pool::PooledVec::<T>::scratch(of.part.iter().product())?;
            let x = T::slice(x);
            let (outer, run) = of.runs();
            for (i, from) in of.places(outer, start).enumerate() {
                part[i * run..][..run].copy_from_slice(&x[from..][..run]);
            }
            Ok(T::into_buffer(part))
        }
        let dtype = x.dtype().expect("only groups compute in place");
        let made = on_element!(dtype, copied(self, x, start))?;
        Ok(Slot::Made(Arc::new(made)))
    }

    /// Writes a part to its place.
    fn put(&self, out: &mut DataMut<'_>, part: Data<'_>, start: &[usize]) {
        let (outer, run) = self.runs();
        on_pair!(out, part, out, part => for (i, to) in self.places(outer, start).enumerate() {
            out[to..][..run].copy_from_slice(&part[i * run..][..run]);
        });
    }

    /// Returns the lengths of the first axes of a part, and the number of contiguous elements for each of their
    /// indices.
    fn runs(&self) -> (&[usize], usize) {
        // Along the axes after `first`, a part has all indices.
        let whole = |i: &usize| self.part[*i] == self.whole[*i];
        let n_whole = (0..self.part.len()).rev().take_while(whole).count();
        let first = (self.part.len() - n_whole).saturating_sub(1);
        (&self.part[..first], self.part[first..].iter().product())
    }

    /// Returns the position of an element of the value.
    fn offset(&self, index: &[usize]) -> usize {
        let axes = index.iter().zip(&self.whole);
        axes.fold(0, |at, (i, len)| at * len + i)
    }

    /// Returns the position in the value of each run of a part.
    fn places<'a>(
        &'a self,
        outer: &'a [usize],
        start: &'a [usize],
    ) -> impl Iterator<Item = usize> + 'a {
        let n: usize = match self.part.contains(&0) {
            true => 0,
            false => outer.iter().product(),
        };
        (0..n).map(move |mut i| {
            let mut index = start.to_vec();
            for (axis, len) in outer.iter().enumerate().rev() {
                index[axis] += i % len;
                i /= len;
            }
            self.offset(&index)
        })
    }
}
