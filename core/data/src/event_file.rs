//! Event files of TensorBoard: records with checksums, each with one message of Protocol Buffers.
//!
//! A record is the length of its data in 8 bytes, a checksum of these bytes, the data, and a checksum of the data. Numbers
//! are little-endian. Numbers of fields are those of `event.proto` and `summary.proto` of
//! <https://github.com/tensorflow/tensorboard> (Apache-2.0).

/// Returns the record that is first in each file.
pub(crate) fn version_record(time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    put_double(&mut event, 1, time);
    put_bytes(&mut event, 3, b"brain.Event:2");
    record(&event)
}

/// Returns the record of a run that goes on: readers drop the metrics of `step` and later ones from earlier files.
pub(crate) fn restart_record(time: f64, step: u64) -> Vec<u8> {
    let mut session = Vec::new();
    put_int(&mut session, 1, 1); // `SessionLog.START`
    let mut event = Vec::new();
    put_double(&mut event, 1, time);
    put_int(&mut event, 2, step);
    put_bytes(&mut event, 7, &session);
    record(&event)
}

/// Returns the record of the metrics of a step. The format has values of 32 bits.
pub(crate) fn metrics_record(time: f64, step: u64, metrics: &[(String, f64)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (name, x) in metrics {
        let mut value = Vec::new();
        put_bytes(&mut value, 1, name.as_bytes());
        put_float(&mut value, 2, *x as f32);
        put_bytes(&mut summary, 1, &value);
    }
    let mut event = Vec::new();
    put_double(&mut event, 1, time);
    put_int(&mut event, 2, step);
    put_bytes(&mut event, 5, &summary);
    record(&event)
}

fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_crc(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_crc(data).to_le_bytes());
    record
}

/// Returns the CRC-32C of bytes, turned by 15 bits and moved, so that a checksum of a checksum is of use.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

fn put_varint(message: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        message.push(n as u8 | 0x80);
        n >>= 7;
    }
    message.push(n as u8);
}

fn put_int(message: &mut Vec<u8>, field: u64, n: u64) {
    put_varint(message, field << 3);
    put_varint(message, n);
}

fn put_double(message: &mut Vec<u8>, field: u64, x: f64) {
    put_varint(message, field << 3 | 1);
    message.extend(x.to_le_bytes());
}

fn put_bytes(message: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(message, field << 3 | 2);
    put_varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn put_float(message: &mut Vec<u8>, field: u64, x: f32) {
    put_varint(message, field << 3 | 5);
    message.extend(x.to_le_bytes());
}
