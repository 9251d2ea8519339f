//! The memory of the process.

/// Reads a size in MiB from `/proc/self/status`, where Linux has it in KiB: `VmHWM:  2252 kB`.
///
/// Returns `None` on other systems.
pub fn mebibytes(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1024.0)
}
