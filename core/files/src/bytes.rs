//! Bytes of an open file: a copy, or a part of its map.

use memmap2::Mmap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a file.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    /// A copy.
    Read(Vec<u8>),
    /// A part of a mapped file. The file stays mapped as long as one of its parts is alive.
    Mapped { map: Arc<Mmap>, range: Range<usize> },
}

impl Bytes {
    /// Returns `len` bytes of a mapped file, with the error of `read_exact` if the file is shorter.
    pub(crate) fn mapped(map: &Arc<Mmap>, start: u64, len: u64) -> io::Result<Bytes> {
        let end = start
            .checked_add(len)
            .filter(|end| *end <= map.len() as u64);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Bytes::Mapped {
            map: map.clone(),
            range: start as usize..end as usize,
        })
    }

    /// Returns `len` of the bytes.
    pub(crate) fn part(self, start: usize, len: usize) -> Bytes {
        match self {
            Bytes::Read(mut bytes) => {
                bytes.truncate(start + len);
                bytes.drain(..start);
                Bytes::Read(bytes)
            }
            Bytes::Mapped { map, range } => {
                let start = range.start + start;
                let range = start..start + len;
                Bytes::Mapped { map, range }
            }
        }
    }

    /// Returns the bytes as a vector, which copies those of a mapped file.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped { .. } => self.as_ref().to_vec(),
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped { map, range } => &map[range.clone()],
        }
    }
}
