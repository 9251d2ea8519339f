//! Members of zip archives. Their names are never paths, and nothing is unpacked.

use crate::entry::{Fault, Region};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// Returns the members of an archive by their names.
///
/// Names that lead out of a folder, names that occur twice, members that overlap, and encrypted ones are faults.
pub(crate) fn members(file: &File) -> Result<BTreeMap<String, Region>, Fault> {
    let fault = |error: ZipError| match error {
        ZipError::Io(error) => Fault::from(error),
        error => Fault::Format(error.to_string()),
    };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(fault)?;
    if archive.has_duplicate_names() {
        return Err("two members have the same name".to_owned().into());
    }
    if archive.has_overlapping_entries().map_err(fault)? {
        return Err("two members overlap".to_owned().into());
    }
    let mut members = BTreeMap::new();
    for i in 0..archive.len() {
        let member = archive.by_index_raw(i).map_err(fault)?;
        let name = member.name().map_err(fault)?.into_owned();
        check_name(&name)?;
        let is_deflated = match member.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::Deflated => true,
            other => return Err(format!("`{name}` is compressed by {other}").into()),
        };
        if member.encrypted() {
            return Err(format!("`{name}` is encrypted").into());
        }
        let start = member.data_start().expect("the member was found");
        let (n_stored, len) = (member.compressed_size(), member.size());
        let region = Region::member(start, n_stored, len, is_deflated, member.crc32());
        let region = region.map_err(|reason| format!("`{name}`: {reason}"))?;
        members.insert(name, region);
    }
    Ok(members)
}

/// Refuses names that would lead out of a folder.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_outside = |part: &str| part == ".." || part.ends_with(':');
    match name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(is_outside) {
        true => Err(format!("`{name}` leads out of the archive")),
        false => Ok(()),
    }
}
