//! Checkpoints of PyTorch: a zip archive of a pickle and of the storages of tensors.
//!
//! `torch.save` writes them since PyTorch 1.6. Nothing is executed: see [`pickle`](crate::pickle).

use crate::entry::{ByteOrder, Contents, Entry, Fault, Layout, Region};
use crate::pickle::{Container, Pickle, Value, View};
use std::collections::BTreeMap;
use std::fs::File;

/// First bytes of the format before PyTorch 1.6: a pickle of a magic number.
pub(crate) const OLD_MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";

/// The longest pickle, in bytes.
const LONGEST: u64 = 100_000_000;

/// The deepest nesting of dicts and lists.
const DEEPEST: usize = 64;

/// Name of the pickle in its folder of the archive.
const PICKLE: &str = "data.pkl";

/// Returns whether an archive is a checkpoint of PyTorch.
pub(crate) fn has_pickle(members: &BTreeMap<String, Region>) -> bool {
    members.keys().any(|name| name.ends_with(PICKLE))
}

/// Reads the pickle of an archive.
pub(crate) fn contents(file: &File, members: &BTreeMap<String, Region>) -> Result<Contents, Fault> {
    let mut pickles = members.keys().filter_map(|name| name.strip_suffix(PICKLE));
    let (Some(folder), None) = (pickles.next(), pickles.next()) else {
        return Err(format!("it does not have one member `{PICKLE}`").into());
    };
    let region = &members[&format!("{folder}{PICKLE}")];
    if region.len() > LONGEST {
        let n = region.len();
        return Err(format!("its pickle has {n} bytes, expected at most {LONGEST}").into());
    }
    let order = match members.get(&format!("{folder}byteorder")) {
        None => ByteOrder::Little,
        Some(region) if region.len() <= 16 => match region.read(file, None)?.as_ref() {
            b"little" => ByteOrder::Little,
            b"big" => ByteOrder::Big,
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(
                    format!("its byte order is `{other}`, expected `little` or `big`").into(),
                );
            }
        },
        Some(_) => return Err("its byte order is too long".to_owned().into()),
    };
    let bytes = region.read(file, None)?.into_vec();
    let pickle = Pickle::parse(&bytes)?;
    let mut walk = Walk {
        pickle: &pickle,
        members,
        folder,
        order,
        // Every value that is not shared has an opcode.
        n_left: bytes.len(),
        contents: Contents::default(),
    };
    walk.visit(&pickle.root, String::new(), 0)?;
    Ok(walk.contents)
}

/// A walk through nested dicts to their tensors.
struct Walk<'a> {
    pickle: &'a Pickle,
    members: &'a BTreeMap<String, Region>,
    /// Folder of the archive, with a slash at its end.
    folder: &'a str,
    order: ByteOrder,
    /// Number of values that are still allowed: shared lists in shared lists would be too many.
    n_left: usize,
    contents: Contents,
}

impl Walk<'_> {
    fn visit(&mut self, value: &Value, name: String, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("its dicts are nested deeper than {DEEPEST}"));
        }
        let left = self.n_left.checked_sub(1);
        self.n_left = left.ok_or("its lists contain each other too often")?;
        let below = |key: String| match name.is_empty() {
            true => key,
            false => format!("{name}.{key}"),
        };
        let text = match value {
            Value::Tensor(view) => {
                let entry = self.entry(view).map_err(|e| format!("`{name}`: {e}"))?;
                return self.contents.add(name, entry);
            }
            Value::Container(at) => {
                match &self.pickle.containers[*at] {
                    Container::List(list) => {
                        for (i, value) in list.iter().enumerate() {
                            self.visit(value, below(i.to_string()), depth + 1)?;
                        }
                    }
                    Container::Dict(pairs) => {
                        for (key, value) in pairs {
                            let key = match key {
                                Value::Text(key) => key.to_string(),
                                Value::Int(key) => key.to_string(),
                                _ => {
                                    return Err(format!(
                                        "a key of `{name}` is not a text or an integer"
                                    ));
                                }
                            };
                            self.visit(value, below(key), depth + 1)?;
                        }
                    }
                }
                return Ok(());
            }
            Value::Tuple(values) => {
                for (i, value) in values.iter().enumerate() {
                    self.visit(value, below(i.to_string()), depth + 1)?;
                }
                return Ok(());
            }
            Value::None => "None".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(value) => value.to_string(),
            Value::Global(_) | Value::Storage(_) => {
                return Err(format!(
                    "`{name}` is not a tensor, number, text, list or dict"
                ));
            }
        };
        match self.contents.metadata.insert(name.clone(), text) {
            None => Ok(()),
            Some(_) => Err(format!("it has two values `{name}`")),
        }
    }

    fn entry(&self, view: &View) -> Result<Entry, String> {
        let storage = &view.storage;
        let member = format!("{}data/{}", self.folder, storage.key);
        let region = self.members.get(&member);
        let region = region.ok_or_else(|| format!("the archive has no member `{member}`"))?;
        let (name, dtype) = storage.dtype;
        let size = dtype.map_or(0, |dtype| dtype.bitsize() as u64 / 8);
        let expected = (storage.numel as u64).checked_mul(size);
        if dtype.is_some() && expected != Some(region.len()) {
            return Err(format!(
                "its storage has {} bytes, and the pickle names {} elements of {name}",
                region.len(),
                storage.numel
            ));
        }
        let offset = (view.offset as u64).checked_mul(size);
        Entry::new(
            (name.to_owned(), dtype),
            view.shape.clone(),
            Layout::Strides(view.strides.clone()),
            self.order,
            region.clone(),
            offset.ok_or("its offset is too large")?,
        )
    }
}
