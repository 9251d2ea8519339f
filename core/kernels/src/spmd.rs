//! Simulated devices: one program on the parts of a value that each device of a mesh has.
//!
//! The program is cut at its collectives. All devices run a segment, each with buffers of its own, and then
//! exchange values before the next segment. So no device ever waits for another one, whatever the number of
//! threads, and results do not depend on it.

use crate::body::Body;
use crate::control::with_lines;
use crate::memory::buffer::Buffer;
use crate::memory::data::{Data, DataMut};
use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::memory::layout::Layout;
use crate::memory::words::Word;
use crate::movement::copy::Scatter;
use crate::movement::gather::Gather;
use crate::reduce::Fold;
use crate::simd::number::Number;
use crate::task::Prepared;
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
        body: Box<Body>,
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
    Reduce(Fold),
    /// Each device gets all values, one after the other along an axis.
    Gather(Blocks),
    /// Each device keeps a part of its value.
    Slice(Blocks),
    /// Each device gets a part of the sum of all values.
    ReduceScatter(Blocks),
    /// Each device gets a part of each value: the axis that is cut, and the one along which parts follow each other.
    AllToAll { split: Blocks, concat: Blocks },
    /// Each device gets the value of the device at the given position of its group, or zeros.
    Permute(Vec<Option<usize>>),
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
        Buffer::BF16(xs) => Data::BF16(xs),
        Buffer::F16(xs) => Data::F16(xs),
        Buffer::I64(xs) => Data::I64(xs),
        Buffer::I8(xs) => Data::I8(xs),
        Buffer::U8(xs) => Data::U8(xs),
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
    let inputs: Vec<Parts> = of.inputs.iter().map(Parts::new).collect();
    let outputs = of.outputs.iter();
    let outputs: Vec<(usize, Parts)> = outputs
        .map(|(slot, division)| (*slot, Parts::new(division)))
        .collect();
    Box::new(move |args, outs| {
        let mut devices = Vec::with_capacity(of.n_devices);
        for device in 0..of.n_devices {
            let mut slots = vec![Slot::Empty; of.slots.len()];
            for (slot, (x, parts)) in slots.iter_mut().zip(args.iter().zip(&inputs)) {
                *slot = parts.part_of(*x, device)?;
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
        for (out, (slot, parts)) in outs.iter_mut().zip(&outputs) {
            on_word!(out.dtype(), put(parts, &devices, *slot, out));
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
        match self {
            Exchange::Reduce(by) => {
                out.copy_from(group[0]);
                for x in &group[1..] {
                    joined(*by, out, *x);
                }
            }
            Exchange::Gather(blocks) => on_word!(out.dtype(), gathered(*blocks, group, out)),
            Exchange::Slice(blocks) => {
                on_word!(out.dtype(), sliced(*blocks, group, at, out));
            }
            Exchange::ReduceScatter(blocks) => {
                on_number!(out.dtype(), sum_scattered(*blocks, group, at, out));
            }
            Exchange::AllToAll { split, concat } => {
                on_word!(out.dtype(), all_to_all(*split, *concat, group, at, out));
            }
            Exchange::Permute(sources) => match sources[at] {
                Some(from) => out.copy_from(group[from]),
                None => on_word!(out.dtype(), zero(out)),
            },
        }
    }
}

fn zero<T: Word>(out: &mut DataMut<'_>) {
    T::slice_mut(out).fill(T::default());
}

/// Replaces each element of `out` by itself joined with that of `x`, as the reduction of an axis joins elements.
fn joined(by: Fold, out: &mut DataMut<'_>, x: Data<'_>) {
    fn each<T: Element>(out: &mut DataMut<'_>, x: Data<'_>, f: impl Fn(T, T) -> T) {
        let pairs = T::slice_mut(out).iter_mut().zip(T::slice(x));
        pairs.for_each(|(y, x)| *y = f(*y, *x));
    }
    fn numbers<T: Number>(by: Fold, out: &mut DataMut<'_>, x: Data<'_>) {
        match by {
            Fold::Sum => each(out, x, T::plus),
            Fold::Product => each(out, x, T::times),
            Fold::Max => each(out, x, T::greater),
            Fold::Min => each(out, x, T::less),
        }
    }
    match (out.dtype(), by) {
        (DType::Bool, Fold::Max) => each(out, x, |a: bool, b| a | b),
        (DType::Bool, Fold::Min) => each(out, x, |a: bool, b| a & b),
        (DType::Bool, by) => unreachable!("the dtype rule refuses {by:?} of bools"),
        (dtype, by) => on_number!(dtype, numbers(by, out, x)),
    }
}

impl Blocks {
    /// Returns the blocks with an axis of another length.
    fn with_len(self, len: usize) -> Blocks {
        Blocks { len, ..self }
    }

    /// Copies `n` indices of this axis from `start` on to another value, from index `at` of its axis on.
    fn copy<T: Copy>(self, x: &[T], start: usize, out: &mut [T], to: Blocks, at: usize, n: usize) {
        let run = n * self.inner;
        for i in 0..self.outer {
            let from = &x[(i * self.len + start) * self.inner..][..run];
            out[(i * to.len + at) * to.inner..][..run].copy_from_slice(from);
        }
    }
}

/// Writes all values, one after the other along an axis.
fn gathered<T: Word>(blocks: Blocks, group: &[Data<'_>], out: &mut DataMut<'_>) {
    let dtype = out.dtype();
    let out = T::slice_mut(out);
    let to = blocks.with_len(blocks.len * group.len());
    for (i, x) in group.iter().enumerate() {
        blocks.copy(T::slice(*x, dtype), 0, out, to, i * blocks.len, blocks.len);
    }
}

/// Writes part `at` of value `at`.
fn sliced<T: Word>(blocks: Blocks, group: &[Data<'_>], at: usize, out: &mut DataMut<'_>) {
    let len = blocks.len / group.len();
    let x = T::slice(group[at], out.dtype());
    blocks.copy(x, at * len, T::slice_mut(out), blocks.with_len(len), 0, len);
}

/// Writes the sum of part `at` of all values.
fn sum_scattered<T: Number>(blocks: Blocks, group: &[Data<'_>], at: usize, out: &mut DataMut<'_>) {
    let out = T::slice_mut(out);
    let len = blocks.len / group.len();
    let run = len * blocks.inner;
    for (i, x) in group.iter().enumerate() {
        let x = T::slice(*x);
        if i == 0 {
            blocks.copy(x, at * len, out, blocks.with_len(len), 0, len);
            continue;
        }
        for row in 0..blocks.outer {
            let from = &x[(row * blocks.len + at * len) * blocks.inner..][..run];
            let sums = out[row * run..][..run].iter_mut();
            sums.zip(from).for_each(|(y, x)| *y = y.plus(*x));
        }
    }
}

/// Writes part `at` of each value along one axis, one after the other along another axis.
///
/// `split` has the axis of a value, and `concat` that of the result.
fn all_to_all<T: Word>(
    split: Blocks,
    concat: Blocks,
    group: &[Data<'_>],
    at: usize,
    out: &mut DataMut<'_>,
) {
    let dtype = out.dtype();
    let out = T::slice_mut(out);
    let rows = concat.len / group.len();
    let cut = split.len / group.len();
    // A part in row-major order has the elements of its place in the result, in their order.
    let run = cut * split.inner;
    let part = concat.outer * rows * concat.inner;
    debug_assert_eq!(part, split.outer * run);
    for (i, x) in group.iter().enumerate() {
        let x = T::slice(*x, dtype);
        for k in 0..part {
            let (row, rest) = (k / (rows * concat.inner), k % (rows * concat.inner));
            let to = (row * concat.len + i * rows) * concat.inner + rest;
            let (row, rest) = (k / run, k % run);
            out[to] = x[(row * split.len + at * cut) * split.inner + rest];
        }
    }
}

/// Parts of a value, prepared for copying.
struct Parts {
    /// Number of elements of a part.
    n: usize,
    /// Position of the first element of the part of each device.
    offsets: Vec<usize>,
    /// The first device that has each part.
    owners: Vec<usize>,
    /// Reads and writes the part at the start of the value.
    gather: Gather,
    scatter: Scatter,
}

impl Parts {
    fn new(division: &Division) -> Parts {
        let whole = Layout::contiguous(&division.whole);
        let mut part = whole.clone();
        for (axis, len) in division.part.iter().enumerate() {
            part = part.narrow(axis, 0, *len, 1);
        }
        let offset =
            |start: &Vec<usize>| start.iter().zip(&whole.strides).map(|(i, s)| i * s).sum();
        let offsets: Vec<usize> = division.starts.iter().map(offset).collect();
        let is_owner = |i: &usize| !division.starts[..*i].contains(&division.starts[*i]);
        Parts {
            n: division.part.iter().product(),
            owners: (0..offsets.len()).filter(is_owner).collect(),
            offsets,
            gather: Gather::new(&part),
            scatter: Scatter::new(&part),
        }
    }

    /// Returns the part of a device: a slice of the value if its elements are contiguous.
    fn part_of<'a>(&self, x: Data<'a>, device: usize) -> Result<Slot<'a>, KernelFault> {
        fn copy<T: Word>(of: &Parts, x: Data<'_>, from: usize, part: &mut DataMut<'_>) {
            let dtype = part.dtype();
            of.gather
                .read(&T::slice(x, dtype)[from..], 0, T::slice_mut(part));
        }
        if self.n == 0 {
            return Ok(Slot::Given(x.part(0, 0)));
        }
        let from = self.offsets[device];
        if self.gather.run(0, self.n).is_some() {
            return Ok(Slot::Given(x.part(from, self.n)));
        }
        let dtype = x.dtype().expect("only groups compute in place");
        let mut part = Buffer::scratch(dtype, self.n)?;
        on_word!(dtype, copy(self, x, from, &mut data_mut(&mut part)));
        Ok(Slot::Made(Arc::new(part)))
    }
}

/// Writes the parts that the devices have in a slot. Devices with the same part have the same value.
fn put<T: Word>(parts: &Parts, devices: &[Device<'_>], slot: usize, out: &mut DataMut<'_>) {
    if parts.n == 0 {
        return;
    }
    let dtype = out.dtype();
    let out = T::slice_mut(out);
    for owner in &parts.owners {
        let part = T::slice(devices[*owner].slots[slot].data(), dtype);
        parts.scatter.run(part, &mut out[parts.offsets[*owner]..]);
    }
}
