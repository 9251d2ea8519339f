//! Places of tensors in a file, and reading their elements.

use crate::bytes::Bytes;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use memmap2::Mmap;
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::sync::Arc;

/// The most bytes that one byte of a file stands for. DEFLATE reaches no more (RFC 1951: 258 bytes in 2 bits).
///
/// Repeated elements are held to it too, so a small file never asks for much memory.
const LARGEST_RATIO: u64 = 1032;

/// Reason why a file cannot be opened.
pub(crate) enum Fault {
    /// The system cannot read it.
    Io(io::Error),
    /// It is not of its format.
    Format(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                Fault::Format(error.to_string())
            }
            _ => Fault::Io(error),
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault::Format(reason)
    }
}

/// Everything that the head of a file says.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Contents {
    /// Adds a tensor, whose name has to be free.
    pub(crate) fn add(&mut self, name: String, entry: Entry) -> Result<(), String> {
        match self.entries.insert(name.clone(), entry) {
            None => Ok(()),
            Some(_) => Err(format!("it has two tensors `{name}`")),
        }
    }
}

/// Bytes of a file, which may be compressed.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    start: u64,
    /// Number of bytes in the file.
    n_stored: u64,
    /// Number of bytes that they stand for.
    len: u64,
    is_deflated: bool,
    /// CRC-32 of these bytes.
    crc: Option<u32>,
}

impl Region {
    /// Returns a region of a file as it is.
    pub(crate) fn plain(start: u64, len: u64) -> Region {
        Region {
            start,
            n_stored: len,
            len,
            is_deflated: false,
            crc: None,
        }
    }

    /// Returns the region of a member of an archive.
    pub(crate) fn member(
        start: u64,
        n_stored: u64,
        len: u64,
        is_deflated: bool,
        crc: u32,
    ) -> Result<Region, String> {
        let most = match is_deflated {
            true => n_stored.saturating_mul(LARGEST_RATIO),
            false => n_stored,
        };
        if len > most || (!is_deflated && len != n_stored) {
            return Err(format!("{n_stored} bytes cannot stand for {len}"));
        }
        Ok(Region {
            start,
            n_stored,
            len,
            is_deflated,
            crc: Some(crc),
        })
    }

    /// Returns the number of bytes that [`read`](Self::read) gives.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns a reader of the bytes, which does not check them.
    pub(crate) fn reader<'a>(&self, mut file: &'a File) -> io::Result<Box<dyn Read + 'a>> {
        file.seek(SeekFrom::Start(self.start))?;
        let stored = file.take(self.n_stored);
        Ok(match self.is_deflated {
            true => Box::new(DeflateDecoder::new(stored).take(self.len)),
            false => Box::new(stored),
        })
    }

    /// Returns all bytes. Those of a map are not copied, unless they are compressed.
    pub(crate) fn read(&self, file: &File, map: Option<&Arc<Mmap>>) -> io::Result<Bytes> {
        let broken = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
        let bytes = match map {
            Some(map) if !self.is_deflated => Bytes::mapped(map, self.start, self.len)?,
            _ => {
                let len = usize::try_from(self.len);
                let len = len.map_err(|_| broken("it has more bytes than memory"))?;
                let mut bytes = vec![0; len];
                self.reader(file)?.read_exact(&mut bytes)?;
                Bytes::Read(bytes)
            }
        };
        if let Some(expected) = self.crc {
            let mut crc = Crc::new();
            crc.update(bytes.as_ref());
            if crc.sum() != expected {
                return Err(broken("its bytes do not have the CRC-32 of the archive"));
            }
        }
        Ok(bytes)
    }
}

/// Order of the bytes of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

/// Order of the elements of an array.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// The last axis is dense.
    Rows,
    /// The first axis is dense.
    Columns,
    /// Number of elements between two neighbours of each axis.
    Strides(Vec<usize>),
}

/// A tensor in a file.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The dtype as the file writes it.
    pub(crate) written: String,
    /// The dtype, if elements of it can be read.
    pub(crate) dtype: Option<Dtype>,
    pub(crate) shape: Vec<usize>,
    region: Region,
    /// Number of bytes before the first element.
    offset: u64,
    strides: Vec<usize>,
    order: ByteOrder,
}

impl Entry {
    /// Returns a tensor, all of whose elements have to be in the region.
    pub(crate) fn new(
        (written, dtype): (String, Option<Dtype>),
        shape: Vec<usize>,
        layout: Layout,
        order: ByteOrder,
        region: Region,
        offset: u64,
    ) -> Result<Entry, String> {
        let overflow = || format!("its shape {shape:?} has more elements than can be addressed");
        let numel = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let numel = match shape.contains(&0) {
            true => 0,
            false => numel.ok_or_else(overflow)?,
        };
        let dense = |lens: &mut dyn Iterator<Item = &usize>| -> Vec<usize> {
            let before = |n: &mut usize, d: &usize| {
                let stride = *n;
                *n = n.saturating_mul(*d);
                Some(stride)
            };
            lens.scan(1, before).collect()
        };
        let strides = match layout {
            Layout::Strides(strides) => strides,
            Layout::Columns => dense(&mut shape.iter()),
            Layout::Rows => {
                let mut strides = dense(&mut shape.iter().rev());
                strides.reverse();
                strides
            }
        };
        if strides.len() != shape.len() {
            return Err(format!(
                "its shape {shape:?} and its strides {strides:?} have different lengths"
            ));
        }
        if let Some(dtype) = dtype.filter(|_| numel > 0) {
            let size = dtype.bitsize() as u64 / 8;
            let last = shape.iter().zip(&strides).try_fold(0u64, |last, (d, s)| {
                last.checked_add((*d as u64 - 1).checked_mul(*s as u64)?)
            });
            let end =
                last.and_then(|last| last.checked_add(1)?.checked_mul(size)?.checked_add(offset));
            if end.is_none_or(|end| end > region.len) {
                return Err(format!(
                    "its shape {shape:?} with the strides {strides:?} begins at byte {offset} and does not fit in {} bytes",
                    region.len
                ));
            }
            let bytes = (numel as u64).checked_mul(size);
            if bytes.is_none_or(|n| n > region.n_stored.saturating_mul(LARGEST_RATIO)) {
                return Err(format!(
                    "{} bytes cannot stand for its shape {shape:?} of {written}",
                    region.n_stored
                ));
            }
        }
        Ok(Entry {
            written,
            dtype,
            shape,
            region,
            offset,
            strides,
            order,
        })
    }

    /// Returns the elements as little-endian bytes, row by row.
    ///
    /// # Panics
    ///
    /// If the dtype is not known.
    pub(crate) fn bytes(&self, file: &File, map: Option<&Arc<Mmap>>) -> io::Result<Bytes> {
        let size = self.dtype.expect("the caller has checked it").bitsize() / 8;
        let numel: usize = match self.shape.contains(&0) {
            true => 0,
            false => self.shape.iter().product(),
        };
        let is_dense = || {
            let rows = self.shape.iter().zip(&self.strides).rev();
            let mut n = 1;
            rows.into_iter().all(|(d, stride)| {
                let fits = *d == 1 || *stride == n;
                n *= d;
                fits
            })
        };
        let offset = self.offset as usize;
        let bytes = match (&self.region.crc, numel) {
            (_, 0) => return Ok(Bytes::Read(Vec::new())),
            // Without a sum of all bytes, only those of this tensor are read.
            (None, _) if is_dense() => {
                let own = Region::plain(self.region.start + self.offset, (numel * size) as u64);
                own.read(file, map)?
            }
            _ => {
                let all = self.region.read(file, map)?;
                match is_dense() {
                    true => all.part(offset, numel * size),
                    false => Bytes::Read(self.rows_of(&all.as_ref()[offset..], size, numel)),
                }
            }
        };
        Ok(match self.order {
            ByteOrder::Little => bytes,
            ByteOrder::Big => {
                let mut bytes = bytes.into_vec();
                bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
                Bytes::Read(bytes)
            }
        })
    }

    /// Returns the elements row by row, from bytes that begin at the first element.
    fn rows_of(&self, bytes: &[u8], size: usize, numel: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(numel * size);
        let mut index = vec![0; self.shape.len()];
        let mut at = 0;
        for _ in 0..numel {
            out.extend_from_slice(&bytes[at * size..][..size]);
            for axis in (0..index.len()).rev() {
                index[axis] += 1;
                at += self.strides[axis];
                if index[axis] < self.shape[axis] {
                    break;
                }
                at -= self.strides[axis] * self.shape[axis];
                index[axis] = 0;
            }
        }
        out
    }
}
