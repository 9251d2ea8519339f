//! Options of the compiler: the message `CompileOptionsProto` of XLA in the wire format of protocol buffers.

/// Returns the options of a program for `n` devices.
///
/// XLA for the CPU computes maxima and minima by instructions that lose NaN unless an option says otherwise. Other
/// platforms do not know the option.
pub(crate) fn of(n: usize, is_cpu: bool) -> Vec<u8> {
    let mut build = Vec::new();
    number(&mut build, 4, 1); // num_replicas
    number(&mut build, 5, n); // num_partitions
    if n > 1 {
        number(&mut build, 6, 1); // use_spmd_partitioning
        let mut assignment = Vec::new();
        number(&mut assignment, 1, 1); // replica_count
        number(&mut assignment, 2, n); // computation_count
        for device in 0..n {
            let mut ids = Vec::new();
            let mut id = Vec::new();
            varint(&mut id, device);
            message(&mut ids, 1, &id); // replica_device_ids
            message(&mut assignment, 3, &ids); // computation_devices
        }
        message(&mut build, 9, &assignment); // device_assignment
        number(&mut build, 19, 1); // use_shardy_partitioner
    }
    let mut options = Vec::new();
    message(&mut options, 3, &build); // executable_build_options
    if is_cpu {
        let mut value = Vec::new();
        number(&mut value, 2, 0); // bool_field
        let mut entry = Vec::new();
        message(&mut entry, 1, b"xla_cpu_enable_fast_min_max");
        message(&mut entry, 2, &value);
        message(&mut options, 7, &entry); // env_option_overrides
    }
    options
}

fn varint(out: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a field that is a number.
fn number(out: &mut Vec<u8>, field: usize, n: usize) {
    varint(out, field << 3);
    varint(out, n);
}

/// Appends a field that is a message, or a packed list.
fn message(out: &mut Vec<u8>, field: usize, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len());
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_have_the_bytes_of_the_messages() {
        assert_eq!(super::of(1, false), [0x1a, 4, 0x20, 1, 0x28, 1]);
        let two = super::of(2, false);
        assert_eq!(two[..8], [0x1a, 25, 0x20, 1, 0x28, 2, 0x30, 1]);
        assert_eq!(two[8..14], [0x4a, 14, 0x08, 1, 0x10, 2]);
        assert_eq!(
            two[14..],
            [0x1a, 3, 0x0a, 1, 0, 0x1a, 3, 0x0a, 1, 1, 0x98, 1, 1]
        );
        let cpu = super::of(1, true);
        assert_eq!(cpu[6..10], [0x3a, 33, 0x0a, 27]);
        assert_eq!(&cpu[10..37], b"xla_cpu_enable_fast_min_max");
        assert_eq!(cpu[37..], [0x12, 2, 0x10, 0]);
    }
}
