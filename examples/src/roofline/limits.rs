//! Limits of the machine: bandwidth of each place where data can be, and the peak of multiply-adds.

use super::measure::best_seconds;
use crate::kernel::loops;
use gradloom::DType;
use gradloom_maths::Level;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Place where the data of a computation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// First cache, of each core.
    L1,
    /// Second cache, of each core.
    L2,
    /// Last cache, shared by the cores.
    L3,
    /// Memory.
    Memory,
}

impl Place {
    /// All places, the fastest first.
    pub const ALL: [Place; 4] = [Place::L1, Place::L2, Place::L3, Place::Memory];

    /// Returns the name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Place::L1 => "l1",
            Place::L2 => "l2",
            Place::L3 => "l3",
            Place::Memory => "memory",
        }
    }
}

/// Facts about the machine that the operating system tells.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// Number of logical CPUs.
    pub cpus: usize,
    /// Number of logical CPUs that share a core, if it is known.
    pub threads_per_core: Option<usize>,
    /// Vectors that the kernels use.
    pub level: Level,
    /// Sizes of the three caches in bytes. The first two belong to one core.
    pub caches: [usize; 3],
    /// Number of runnable processes, averaged over a minute, when the measurement began.
    pub load: Option<f64>,
}

impl Machine {
    /// Asks the operating system. Sizes of caches that it does not tell are 32 KiB, 1 MiB and 16 MiB.
    pub fn detect() -> Machine {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = |name: &str| {
            let line = cpu_info.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let load = fs::read_to_string("/proc/loadavg").ok();
        // As the kernels choose it.
        let wanted = match std::env::var("GRADLOOM_LEVEL").as_deref() {
            Ok("baseline") => Level::Baseline,
            Ok("avx2") => Level::Avx2,
            _ => Level::Avx512,
        };
        Machine {
            cpu: named("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            threads_per_core: siblings(),
            level: wanted.min(Level::detect()),
            caches: caches(),
            load: load.and_then(|text| text.split_whitespace().next()?.parse().ok()),
        }
    }

    /// Returns a working set that lies in a place: two thirds of the first cache, half of the second, a quarter of
    /// the last, and four times the last in memory, but at most 128 MiB.
    pub fn working_set(&self, place: Place) -> usize {
        let [first, second, last] = self.caches;
        match place {
            Place::L1 => first * 2 / 3,
            Place::L2 => second / 2,
            Place::L3 => last / 4,
            Place::Memory => (4 * last).min(128 << 20),
        }
    }

    /// Returns where a working set lies that `threads` threads divide.
    pub fn place_of(&self, bytes: usize, threads: usize) -> Place {
        let [first, second, last] = self.caches;
        match bytes {
            _ if bytes <= first * threads => Place::L1,
            _ if bytes <= second * threads => Place::L2,
            _ if bytes <= last * 3 / 4 => Place::L3,
            _ => Place::Memory,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.caches.map(|bytes| bytes >> 10);
        let cores = match self.threads_per_core {
            Some(1) => format!("{} cores", self.cpus),
            Some(n) => format!("{} threads of {} cores", self.cpus, self.cpus / n),
            None => format!("{} logical CPUs", self.cpus),
        };
        let load = self.load.map_or("?".to_owned(), |load| load.to_string());
        write!(
            f,
            "{}, {cores}, {:?}, caches of {}, {} and {} KiB, load {load}",
            self.cpu, self.level, kib[0], kib[1], kib[2],
        )
    }
}

/// Returns the number of logical CPUs that share the core of the first one.
fn siblings() -> Option<usize> {
    let list =
        fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list").ok()?;
    let count = |range: &str| match range.split_once('-') {
        Some((from, to)) => Some(to.parse::<usize>().ok()? + 1 - from.parse::<usize>().ok()?),
        None => Some(1),
    };
    list.trim().split(',').map(count).sum()
}

/// Returns the sizes of the data caches of the first CPU.
fn caches() -> [usize; 3] {
    let mut sizes = [32 << 10, 1 << 20, 16 << 20];
    for i in 0..8 {
        let read = |name: &str| {
            let file = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{name}");
            Some(fs::read_to_string(file).ok()?.trim().to_owned())
        };
        let size = || -> Option<(usize, usize)> {
            let level: usize = read("level")?.parse().ok()?;
            let kib: usize = read("size")?.trim_end_matches('K').parse().ok()?;
            (read("type")? != "Instruction").then_some((level, kib << 10))
        };
        if let Some((level @ 1..=3, bytes)) = size() {
            sizes[level - 1] = bytes;
        }
    }
    sizes
}

/// Bandwidth of a place in bytes per second, summed over the threads.
///
/// Writes and copies are the best of plain stores and of the standard library, which may go around the caches.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub write: f64,
    /// Bytes read plus bytes written, where each byte that is read is written elsewhere.
    pub copy: f64,
}

impl Bandwidth {
    /// Returns the seconds that moving this many bytes takes: those that pair up as a copy, the others alone.
    pub fn seconds(&self, read: f64, written: f64) -> f64 {
        let pairs = read.min(written);
        let alone = (read - pairs) / self.read + (written - pairs) / self.write;
        2.0 * pairs / self.copy + alone
    }
}

/// Limits for a number of threads.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Number of threads.
    pub threads: usize,
    /// Bandwidth of each place, in the order of [`Place::ALL`].
    pub bandwidths: [Bandwidth; 4],
    /// Operations per second of multiply-adds of `f32`, two for each.
    pub peak_f32: f64,
    /// Operations per second of multiply-adds of `f64`, two for each.
    pub peak_f64: f64,
}

impl Limits {
    /// Measures the limits for this many threads. Takes a few seconds.
    pub fn measure(machine: &Machine, threads: usize) -> Limits {
        let level = machine.level;
        let bandwidth = |place: Place| {
            let each = match place {
                Place::L1 | Place::L2 => machine.working_set(place),
                Place::L3 | Place::Memory => machine.working_set(place) / threads,
            };
            // As many bytes for each kind, so that the place is the same.
            let (whole, half) = (each / 512 * 512, each / 1024 * 512);
            let turns = (256usize << 20).div_ceil(each);
            let write = |fill: fn(Level, &mut [u8])| {
                rate(threads, || {
                    let mut xs = Lines::new(whole);
                    move || {
                        (0..turns).for_each(|_| fill(level, black_box(xs.bytes_mut())));
                        whole * turns
                    }
                })
            };
            let copy = |copy: fn(Level, &[u8], &mut [u8])| {
                rate(threads, || {
                    let (xs, mut ys) = (Lines::new(half), Lines::new(half));
                    move || {
                        for _ in 0..turns {
                            copy(level, black_box(xs.bytes()), black_box(ys.bytes_mut()));
                        }
                        2 * half * turns
                    }
                })
            };
            Bandwidth {
                read: rate(threads, || {
                    let xs = Lines::new(whole);
                    move || {
                        (0..turns).for_each(|_| loops::read(level, black_box(xs.bytes())));
                        whole * turns
                    }
                }),
                write: write(loops::write).max(write(|_, xs| xs.fill(black_box(2)))),
                copy: copy(loops::copy).max(copy(|_, xs, ys| ys.copy_from_slice(xs))),
            }
        };
        const TURNS: usize = 200_000;
        Limits {
            threads,
            bandwidths: Place::ALL.map(bandwidth),
            peak_f32: rate(threads, || move || loops::multiply_add_f32(level, TURNS)),
            peak_f64: rate(threads, || move || loops::multiply_add_f64(level, TURNS)),
        }
    }

    /// Returns the bandwidth of a place.
    pub fn bandwidth(&self, place: Place) -> &Bandwidth {
        &self.bandwidths[place as usize]
    }

    /// Returns the operations per second of multiply-adds. Integers count as floats of their size.
    pub fn peak(&self, dtype: DType) -> f64 {
        match dtype.size() {
            8 => self.peak_f64,
            _ => self.peak_f32,
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} thread(s), GB/s:", self.threads)?;
        for (place, speed) in Place::ALL.iter().zip(&self.bandwidths) {
            let [read, write, copy] = [speed.read, speed.write, speed.copy].map(|x| x / 1e9);
            let name = place.name();
            write!(f, " {name} read {read:.0} write {write:.0} copy {copy:.0};")?;
        }
        let [single, double] = [self.peak_f32, self.peak_f64].map(|x| x / 1e9);
        write!(f, " GFLOP/s: f32 {single:.0}, f64 {double:.0}")
    }
}

/// Returns the best rate of loops that run on all threads at once: units per second, summed over the threads.
///
/// `prepare` makes the loop of a thread, which returns its number of units.
fn rate<L: FnMut() -> usize>(threads: usize, prepare: impl Fn() -> L + Sync) -> f64 {
    if threads == 1 {
        let mut units = 0;
        let mut work = prepare();
        let seconds = best_seconds(SAMPLES, || units = work());
        return units as f64 / seconds;
    }
    let barrier = Barrier::new(threads);
    let on_thread = || {
        let mut work = prepare();
        let sample = |_| {
            barrier.wait();
            let start = Instant::now();
            let units = work();
            units as f64 / start.elapsed().as_secs_f64()
        };
        (0..SAMPLES).map(sample).collect::<Vec<f64>>()
    };
    let rates: Vec<Vec<f64>> = thread::scope(|s| {
        let threads: Vec<_> = (0..threads).map(|_| s.spawn(on_thread)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|rates| rates.expect("no loop panics")).collect()
    });
    let sums = (0..SAMPLES).map(|i| rates.iter().map(|rates| rates[i]).sum());
    sums.fold(0.0, f64::max)
}

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Bytes that begin at a cache line.
struct Lines {
    space: Vec<u8>,
    start: usize,
    len: usize,
}

impl Lines {
    fn new(len: usize) -> Lines {
        let space = vec![1; len + LINE];
        let start = space.as_ptr().align_offset(LINE);
        Lines { space, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.space[self.start..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.space[self.start..][..self.len]
    }
}

/// Number of samples of each rate.
const SAMPLES: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            cpu: "a CPU".to_owned(),
            cpus: 2,
            threads_per_core: Some(2),
            level: Level::Avx2,
            caches: [48 << 10, 1 << 20, 32 << 20],
            load: None,
        }
    }

    #[test]
    fn a_working_set_lies_in_its_place() {
        for place in Place::ALL {
            let machine = machine();
            assert_eq!(machine.place_of(machine.working_set(place), 1), place);
        }
    }

    #[test]
    fn the_header_tells_threads_from_cores() {
        let text = machine().to_string();
        assert_eq!(
            text,
            "a CPU, 2 threads of 1 cores, Avx2, caches of 48, 1024 and 32768 KiB, load ?"
        );
    }

    #[test]
    fn bytes_that_pair_up_move_as_a_copy() {
        let bandwidth = Bandwidth {
            read: 2.0,
            write: 1.0,
            copy: 4.0,
        };
        assert_eq!(bandwidth.seconds(4.0, 4.0), 2.0);
        assert_eq!(bandwidth.seconds(8.0, 4.0), 4.0);
        assert_eq!(bandwidth.seconds(0.0, 4.0), 4.0);
    }
}
