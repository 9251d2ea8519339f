//! Records.

use crate::json::not_negative_or_null;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

/// Description of one tensor.
///
/// All fields are public, so that other programs can construct records. The last three are omitted
/// from the JSON if they are `None`, and a text without them parses. Unknown fields are ignored.
///
/// ```
/// use gradloom_trace::TraceRecord;
///
/// let text = r#"{"name": "t0/blk3/q_proj", "shape": [1, 2], "dtype": "F32",
///                "blake3": "", "rms": 1.5, "num_elements": 2, "layer_idx": 3}"#;
/// let record = TraceRecord::from_json(text)?;
/// assert_eq!((record.layer_idx, record.stage), (Some(3), None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    /// Name of the tensor, as it was given: `blk0/attn_norm`.
    pub name: String,
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// Dtype before the conversion to `f32`: `F32`, `F64`, `I32`, `I64` or `Bool` in Gradloom.
    pub dtype: String,
    /// Hash of the elements as little-endian `f32` in row-major order: BLAKE3, 64 hex digits.
    pub blake3: String,
    /// Root mean square of the elements as `f32`, or 0 if there are none.
    ///
    /// JSON has no NaN and no infinity: both are written as `null`, which is read as NaN.
    #[serde(with = "not_negative_or_null")]
    pub rms: f64,
    /// Number of elements, which is the product of the shape.
    pub num_elements: usize,
    /// Index of the token or step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq_index: Option<usize>,
    /// Index of the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_idx: Option<usize>,
    /// Stage of the computation: `forward`, `backward`, or a word of the user such as `attention`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

impl TraceRecord {
    /// Parses a record.
    ///
    /// # Errors
    ///
    /// If the text is not a JSON object with the six fields that every record has, a field has
    /// another type, or `rms` is negative. Consistency is checked by [`TraceRecord::check`].
    pub fn from_json(text: &str) -> serde_json::Result<TraceRecord> {
        // The derived parser also takes the fields as an array.
        if text.trim_start().starts_with('[') {
            return Err(serde_json::Error::custom("a record is a JSON object"));
        }
        serde_json::from_str(text)
    }

    /// Returns the record as indented JSON, with the fields in the order of the struct.
    ///
    /// # Errors
    ///
    /// If the serialiser fails, which it does for no record.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Checks that `num_elements` is the product of the shape, and that the hash has 64 hex digits.
    ///
    /// ```
    /// # use gradloom_trace::digest_f32;
    /// let mut record = digest_f32(&[1.0, 2.0]).record("h", &[2], "F32");
    /// assert_eq!(record.check(), Ok(()));
    /// record.shape = vec![3];
    /// assert_eq!(record.check().unwrap_err(), "`num_elements` is 2, and the shape [3] has 3");
    /// ```
    ///
    /// # Errors
    ///
    /// The description of the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        let product = self
            .shape
            .iter()
            .try_fold(1usize, |n, len| n.checked_mul(*len));
        match product {
            // A zero makes the product of any other lengths zero.
            None if !self.shape.contains(&0) => {
                return Err(format!("the shape {:?} has too many elements", self.shape));
            }
            None if self.num_elements == 0 => {}
            Some(n) if n == self.num_elements => {}
            n => {
                let (found, shape, n) = (self.num_elements, &self.shape, n.unwrap_or(0));
                return Err(format!(
                    "`num_elements` is {found}, and the shape {shape:?} has {n}"
                ));
            }
        }
        let is_hash = self.blake3.len() == 64 && self.blake3.bytes().all(|b| b.is_ascii_hexdigit());
        match is_hash {
            true => Ok(()),
            false => Err(format!(
                "`blake3` is `{}`, which is not 64 hex digits",
                self.blake3
            )),
        }
    }

    /// Returns the index of the token or step that the name begins with: 42 for `t42/logits`.
    ///
    /// ```
    /// # use gradloom_trace::digest_f32;
    /// let record = |name| digest_f32(&[]).record(name, &[0], "F32");
    /// assert_eq!(record("t42/logits").parse_sequence_index(), Some(42));
    /// assert_eq!(record("blk3/t42").parse_sequence_index(), None);
    /// ```
    pub fn parse_sequence_index(&self) -> Option<usize> {
        numbered(self.name.split('/').next()?, "t")
    }

    /// Returns the index of the layer in the name: 3 for `t0/blk3/attn_norm`.
    ///
    /// ```
    /// # use gradloom_trace::digest_f32;
    /// let record = |name| digest_f32(&[]).record(name, &[0], "F32");
    /// assert_eq!(record("t0/blk3/attn_norm").parse_layer_index(), Some(3));
    /// assert_eq!(record("t0/block/attn_norm").parse_layer_index(), None);
    /// ```
    pub fn parse_layer_index(&self) -> Option<usize> {
        self.name.split('/').find_map(|part| numbered(part, "blk"))
    }

    /// Returns the last part of the name: `attn_norm` for `t0/blk3/attn_norm`.
    ///
    /// ```
    /// # use gradloom_trace::digest_f32;
    /// let record = |name| digest_f32(&[]).record(name, &[0], "F32");
    /// assert_eq!(record("t0/blk3/attn_norm").parse_stage().as_deref(), Some("attn_norm"));
    /// assert_eq!(record("t0/blk3/").parse_stage(), None);
    /// ```
    pub fn parse_stage(&self) -> Option<String> {
        let last = self.name.rsplit('/').next()?;
        (!last.is_empty()).then(|| last.to_owned())
    }
}

/// Returns the number after a prefix. It has digits only: no sign, and nothing after it.
pub(crate) fn numbered(part: &str, prefix: &str) -> Option<usize> {
    let digits = part.strip_prefix(prefix)?;
    let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten()
}
