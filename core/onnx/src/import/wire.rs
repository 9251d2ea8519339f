//! The wire format of Protocol Buffers: fields of a message, without copies.
//!
//! <https://protobuf.dev/programming-guides/encoding>

use super::ImportError;

/// Contents of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
}

fn take<'a>(rest: &mut &'a [u8], n: u64) -> Result<&'a [u8], ImportError> {
    let found = rest.len();
    let split = usize::try_from(n)
        .ok()
        .and_then(|n| rest.split_at_checked(n));
    let (taken, left) = split
        .ok_or_else(|| ImportError::format(format!("expected {n} more bytes, found {found}")))?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, ImportError> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(n);
        }
    }
    Err(ImportError::format("an integer has more than 10 bytes"))
}

/// Calls `f` with the number and the contents of each field.
pub(super) fn fields<'a>(
    mut rest: &'a [u8],
    mut f: impl FnMut(u64, Wire<'a>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let contents = match tag & 7 {
            0 => Wire::Varint(varint(&mut rest)?),
            1 => Wire::Fixed64(take(&mut rest, 8)?.try_into().expect("eight bytes")),
            2 => {
                let len = varint(&mut rest)?;
                Wire::Bytes(take(&mut rest, len)?)
            }
            5 => Wire::Fixed32(take(&mut rest, 4)?.try_into().expect("four bytes")),
            ty => {
                return Err(ImportError::format(format!(
                    "a field has the wire type {ty}"
                )));
            }
        };
        f(tag >> 3, contents)?;
    }
    Ok(())
}

impl<'a> Wire<'a> {
    fn wrong<T>(self, expected: &str) -> Result<T, ImportError> {
        Err(ImportError::format(format!(
            "expected {expected}, found the field {self:?}"
        )))
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], ImportError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => self.wrong("bytes"),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, ImportError> {
        std::str::from_utf8(self.bytes()?).map_err(|e| ImportError::format(format!("a name: {e}")))
    }

    pub(super) fn int(self) -> Result<i64, ImportError> {
        match self {
            Wire::Varint(n) => Ok(n.cast_signed()),
            _ => self.wrong("an integer"),
        }
    }

    pub(super) fn float(self) -> Result<f32, ImportError> {
        match self {
            Wire::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => self.wrong("an `f32`"),
        }
    }

    /// Appends integers, which are packed or one by one.
    pub(super) fn ints(self, out: &mut Vec<i64>) -> Result<(), ImportError> {
        match self {
            Wire::Bytes(mut rest) => {
                while !rest.is_empty() {
                    out.push(varint(&mut rest)?.cast_signed());
                }
            }
            _ => out.push(self.int()?),
        }
        Ok(())
    }

    /// Appends `f32`s, which are packed or one by one.
    pub(super) fn floats(self, out: &mut Vec<f32>) -> Result<(), ImportError> {
        match self {
            Wire::Bytes(mut rest) => {
                while !rest.is_empty() {
                    let bytes = take(&mut rest, 4)?.try_into().expect("four bytes");
                    out.push(f32::from_le_bytes(bytes));
                }
            }
            _ => out.push(self.float()?),
        }
        Ok(())
    }

    /// Appends `f64`s, which are packed or one by one.
    pub(super) fn doubles(self, out: &mut Vec<f64>) -> Result<(), ImportError> {
        match self {
            Wire::Fixed64(bytes) => out.push(f64::from_le_bytes(bytes)),
            Wire::Bytes(mut rest) => {
                while !rest.is_empty() {
                    let bytes = take(&mut rest, 8)?.try_into().expect("eight bytes");
                    out.push(f64::from_le_bytes(bytes));
                }
            }
            _ => return self.wrong("`f64`s"),
        }
        Ok(())
    }
}
