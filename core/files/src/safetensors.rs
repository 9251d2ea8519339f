//! The safetensors format: a length, a header as JSON, and the elements.
//!
//! <https://github.com/huggingface/safetensors#format>

use crate::dtype;
use crate::entry::{ByteOrder, Contents, Entry, Fault, Layout, Region};
use gradloom::Tensor;
use safetensors::tensor::{Metadata, TensorView};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read as _;

/// Number of bytes of the length of a header.
const LENGTH: u64 = size_of::<u64>() as u64;

/// The longest header that the format allows, in bytes.
const LONGEST: u64 = 100_000_000;

/// Reads the header of a file.
pub(crate) fn contents(mut file: &File, len: u64) -> Result<Contents, Fault> {
    let mut n = [0; LENGTH as usize];
    if len < LENGTH {
        return Err(format!("it has {len} bytes, and no length of a header").into());
    }
    file.read_exact(&mut n)?;
    let n = u64::from_le_bytes(n);
    if n > LONGEST.min(len - LENGTH) {
        return Err(format!("its header has {n} bytes, and the file {len}").into());
    }
    let mut text = vec![0; n as usize];
    file.read_exact(&mut text)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    serde_json::Deserializer::from_slice(&text)
        .deserialize_map(DistinctKeys)
        .map_err(|error| error.to_string())?;
    let (found, expected) = (len - LENGTH - n, header.data_len() as u64);
    if found != expected {
        return Err(
            format!("it has {found} bytes of elements, and its header names {expected}").into(),
        );
    }
    let mut contents = Contents::default();
    for (name, info) in header.tensors() {
        let (start, stop) = info.data_offsets;
        let region = Region::plain(LENGTH + n + start as u64, (stop - start) as u64);
        // Elements of less than a byte have no counterpart.
        let dtype = Some(info.dtype).filter(|dtype| dtype::own(*dtype).is_some());
        let dtype = (format!("{:?}", info.dtype), dtype);
        let entry = Entry::new(
            dtype,
            info.shape.clone(),
            Layout::Rows,
            ByteOrder::Little,
            region,
            0,
        );
        contents.add(name.clone(), entry.map_err(|e| format!("`{name}`: {e}"))?)?;
    }
    let metadata = header.metadata().clone().unwrap_or_default();
    contents.metadata = metadata.into_iter().collect();
    Ok(contents)
}

/// Checks that no key of a map occurs twice. `serde` takes the last one.
struct DistinctKeys;

impl<'de> Visitor<'de> for DistinctKeys {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format!("it has two tensors `{key}`")));
            }
            keys.insert(key);
        }
        Ok(())
    }
}

/// Returns a file of these tensors.
pub(crate) fn file(tensors: &[(String, Tensor)]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = tensors.iter().map(|(_, x)| x.to_le_bytes()).collect();
    let views = tensors.iter().zip(&parts).map(|((name, x), bytes)| {
        let view = TensorView::new(dtype::in_file(x.dtype()), x.shape().to_vec(), bytes);
        (
            name,
            view.expect("a tensor has a byte for each of its elements"),
        )
    });
    safetensors::serialize(views, None).expect("the names are distinct")
}
