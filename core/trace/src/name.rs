//! Names of files.

/// Number of bytes of a name above which its file name is cut.
const LONGEST: usize = 180;

/// Returns the name of a record as the name of a file: `/` and `\` become `_`.
///
/// Control characters become `_` too, because file systems refuse some of them.
///
/// ```
/// # use gradloom_trace::sanitize_filename;
/// assert_eq!(sanitize_filename("blk0/attn_norm"), "blk0_attn_norm");
/// assert_eq!(sanitize_filename(r"layer\weights"), "layer_weights");
/// ```
pub fn sanitize_filename(name: &str) -> String {
    name.replace(|c: char| matches!(c, '/' | '\\') || c.is_control(), "_")
}

/// Returns the stem of the file of a record: [`sanitize_filename`], unless that is too long.
pub(crate) fn stem(name: &str) -> String {
    let stem = sanitize_filename(name);
    match stem.len() {
        // A file name that is only an extension has none.
        0 => "_".to_owned(),
        n if n > LONGEST => hashed_stem(name),
        _ => stem,
    }
}

/// Returns the stem of a record whose stem belongs to another name.
pub(crate) fn hashed_stem(name: &str) -> String {
    let mut stem = sanitize_filename(name);
    let end = (0..=LONGEST.min(stem.len()))
        .rev()
        .find(|i| stem.is_char_boundary(*i));
    stem.truncate(end.unwrap_or(0));
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{stem}-{}", &hash[..8])
}
