//! The npy and npz formats of NumPy: a header and the elements, and a zip archive of such files.
//!
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use crate::archive;
use crate::entry::{ByteOrder, Contents, Entry, Fault, Layout, Region};
use gradloom::{DType, Tensor};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Write as _};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// First bytes of an npy file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header, in bytes. NumPy has the same limit, `max_header_size`.
const LONGEST: usize = 10_000;

/// Reads the header of an npy file. Its tensor has the name of a tree that is one tensor: an empty one.
pub(crate) fn contents(file: &File, len: u64) -> Result<Contents, Fault> {
    let mut contents = Contents::default();
    contents.add(String::new(), entry(file, Region::plain(0, len))?)?;
    Ok(contents)
}

/// Reads the headers of the members of an npz file.
pub(crate) fn contents_of_members(
    file: &File,
    members: BTreeMap<String, Region>,
) -> Result<Contents, Fault> {
    let mut contents = Contents::default();
    for (member, region) in members {
        let Some(name) = member.strip_suffix(".npy") else {
            return Err(format!("its member `{member}` does not end in `.npy`").into());
        };
        let entry = entry(file, region).map_err(|fault| match fault {
            Fault::Format(reason) => Fault::Format(format!("`{member}`: {reason}")),
            fault => fault,
        });
        contents.add(name.to_owned(), entry?)?;
    }
    Ok(contents)
}

/// Reads a header at the start of a region, whose elements end with the region.
fn entry(file: &File, region: Region) -> Result<Entry, Fault> {
    let mut reader = region.reader(file)?;
    let start: [u8; 8] = bytes(&mut reader)?;
    let Some([major, _]) = start.strip_prefix(MAGIC) else {
        return Err("it does not begin with `\\x93NUMPY`".to_owned().into());
    };
    let n_start = start.len();
    let (n, n_length) = match major {
        1 => (u16::from_le_bytes(bytes(&mut reader)?).into(), 2),
        2 | 3 => (u32::from_le_bytes(bytes(&mut reader)?) as usize, 4),
        _ => return Err(format!("its version {major} is not 1, 2 or 3").into()),
    };
    if n > LONGEST {
        return Err(format!("its header has {n} bytes, expected at most {LONGEST}").into());
    }
    let mut text = vec![0; n];
    reader.read_exact(&mut text)?;
    drop(reader);
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    let header = Header::parse(&text).map_err(|reason| format!("its header {reason}"))?;
    let (dtype, order) = header.dtype();
    let layout = match header.is_fortran {
        true => Layout::Columns,
        false => Layout::Rows,
    };
    let start = (n_start + n_length + n) as u64;
    let size = dtype.map_or(0, |dtype| dtype.bitsize() as u64 / 8);
    let numel = header
        .shape
        .iter()
        .try_fold(1u64, |n, d| n.checked_mul(*d as u64));
    let expected = numel.and_then(|n| n.checked_mul(size));
    let found = region.len() - start;
    if dtype.is_some() && expected != Some(found) {
        return Err(format!(
            "it has {found} bytes of elements, and its header names the shape {:?} of {}",
            header.shape, header.descr
        )
        .into());
    }
    Ok(Entry::new(
        (header.descr, dtype),
        header.shape,
        layout,
        order,
        region,
        start,
    )?)
}

fn bytes<const N: usize>(reader: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The dict at the start of an array.
#[derive(Debug, PartialEq)]
struct Header {
    /// The dtype, such as `<f4`, or the list of a structured one.
    descr: String,
    is_fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Parses a dict as Python prints it.
    fn parse(text: &str) -> Result<Header, String> {
        let (mut descr, mut is_fortran, mut shape) = (None, None, None);
        let mut rest = Literal(text);
        rest.expect("{")?;
        while !rest.take("}") {
            let key = rest.text()?;
            rest.expect(":")?;
            let is_repeated = match &*key {
                "descr" => descr.replace(rest.descr()?).is_some(),
                "fortran_order" => is_fortran.replace(rest.bool()?).is_some(),
                "shape" => shape.replace(rest.shape()?).is_some(),
                _ => return Err(format!("has the unknown key `{key}`")),
            };
            if is_repeated {
                return Err(format!("has `{key}` twice"));
            }
            if !rest.take(",") {
                rest.expect("}")?;
                break;
            }
        }
        if !rest.0.trim().is_empty() {
            return Err(format!("has `{}` after its dict", rest.0.trim()));
        }
        match (descr, is_fortran, shape) {
            (Some(descr), Some(is_fortran), Some(shape)) => Ok(Header {
                descr,
                is_fortran,
                shape,
            }),
            _ => Err("lacks one of `descr`, `fortran_order` and `shape`".to_owned()),
        }
    }

    /// Returns the dtype, if it has a counterpart, and the order of its bytes.
    fn dtype(&self) -> (Option<Dtype>, ByteOrder) {
        let order = match self.descr.as_bytes().first() {
            Some(b'>') => ByteOrder::Big,
            _ => ByteOrder::Little,
        };
        let dtype = match self.descr.strip_prefix(['<', '>', '|']).unwrap_or_default() {
            "b1" => Dtype::BOOL,
            "i1" => Dtype::I8,
            "u1" => Dtype::U8,
            "i2" => Dtype::I16,
            "u2" => Dtype::U16,
            "i4" => Dtype::I32,
            "u4" => Dtype::U32,
            "i8" => Dtype::I64,
            "f2" => Dtype::F16,
            "f4" => Dtype::F32,
            "f8" => Dtype::F64,
            _ => return (None, order),
        };
        (Some(dtype), order)
    }
}

/// The rest of a literal of Python.
struct Literal<'a>(&'a str);

impl Literal<'_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{token}`"))),
        }
    }

    fn unexpected(&self, expected: &str) -> String {
        let found: String = self.0.trim().chars().take(20).collect();
        format!("has `{found}`, expected {expected}")
    }

    fn text(&mut self) -> Result<String, String> {
        self.expect("'")?;
        let (text, rest) = self.0.split_once('\'').ok_or("has a text without an end")?;
        self.0 = rest;
        Ok(text.to_owned())
    }

    fn bool(&mut self) -> Result<bool, String> {
        match self.take("True") {
            true => Ok(true),
            false => self.expect("False").map(|()| false),
        }
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        self.expect("(")?;
        let mut shape = Vec::new();
        while !self.take(")") {
            let rest = self.0.trim_start();
            let n = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let number = rest[..n].parse();
            shape.push(number.map_err(|_| self.unexpected("the length of an axis"))?);
            self.0 = &rest[n..];
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(shape)
    }

    /// Takes the text of a dtype, or the list of a structured one as it is.
    fn descr(&mut self) -> Result<String, String> {
        let rest = self.0.trim_start();
        if !rest.starts_with('[') {
            return self.text();
        }
        let mut depth = 0;
        for (i, c) in rest.char_indices() {
            depth += match c {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            if depth == 0 {
                self.0 = &rest[i + 1..];
                return Ok(rest[..=i].to_owned());
            }
        }
        Err("has a list without an end".to_owned())
    }
}

/// Returns an npy file of a tensor, in version 1.0.
///
/// # Errors
///
/// If the dtype is `bf16`, which NumPy has not.
pub(crate) fn file(x: &Tensor) -> Result<Vec<u8>, String> {
    let descr = match x.dtype() {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I32 => "<i4",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::BF16 => {
            return Err(
                "NumPy has no dtype `bf16`; cast to f32, or write `.safetensors`".to_owned(),
            );
        }
        DType::Bool => "|b1",
    };
    let shape: String = x.shape().iter().map(|d| format!("{d}, ")).collect();
    let shape = match x.rank() {
        // `(3,)` is a tuple, and `(3)` a number.
        1 => shape.trim_end(),
        _ => shape.trim_end_matches(", "),
    };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The elements begin at a multiple of 64 bytes, after the magic, the version, the length and the header.
    let n_start = MAGIC.len() + 4;
    let n = (n_start + header.len() + 1).next_multiple_of(64) - n_start;
    header.push_str(&" ".repeat(n - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a shape has few axes");
    let start = [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes()].concat();
    Ok([start, x.to_le_bytes()].concat())
}

/// Returns an npz file of these tensors, without compression, as `numpy.savez` writes it.
pub(crate) fn archive_file(tensors: &[(String, Tensor)]) -> Result<Vec<u8>, String> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, x) in tensors {
        archive::check_name(name)?;
        let bytes = file(x)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(u32::try_from(bytes.len()).is_err());
        let started = archive.start_file(format!("{name}.npy"), options);
        started.map_err(|error| format!("`{name}`: {error}"))?;
        archive
            .write_all(&bytes)
            .map_err(|error| error.to_string())?;
    }
    Ok(archive
        .finish()
        .map_err(|error| error.to_string())?
        .into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_in_any_order() {
        let text = "{'shape': (2, 3, ), 'descr': '>f8', 'fortran_order': True}\n";
        let header = Header {
            descr: ">f8".to_owned(),
            is_fortran: true,
            shape: vec![2, 3],
        };
        assert_eq!(Header::parse(text), Ok(header));
    }

    #[test]
    fn wrong_headers_say_what_is_wrong() {
        for (text, reason) in [
            ("", "has ``, expected `{`"),
            ("{'shape': (2", "has ``, expected `)`"),
            (
                "{'shape': (-2,)}",
                "has `-2,)}`, expected the length of an axis",
            ),
            (
                "{'shape': (nan,)}",
                "has `nan,)}`, expected the length of an axis",
            ),
            (
                "{'shape': (99999999999999999999,)}",
                "has `99999999999999999999`, expected the length of an axis",
            ),
            ("{'shape': (), 'shape': ()}", "has `shape` twice"),
            ("{'size': 3}", "has the unknown key `size`"),
            ("{'fortran_order': 1}", "has `1}`, expected `False`"),
            ("{'descr': [('a', '<f4')}", "has a list without an end"),
            ("{'descr': '<f4}", "has a text without an end"),
            ("{'descr': '<f4'} + exit()", "has `+ exit()` after its dict"),
            (
                "{'descr': '<f4'}",
                "lacks one of `descr`, `fortran_order` and `shape`",
            ),
        ] {
            assert_eq!(Header::parse(text), Err(reason.to_owned()), "{text}");
        }
    }
}
