//! Text inside of XML and DOT.

use std::fmt::{self, Write};

/// Text that prints escaped for XML: inside of elements, and of attributes in double quotes.
///
/// Characters that XML does not allow print as U+FFFD.
pub(crate) struct Xml<'a>(pub(crate) &'a str);

impl fmt::Display for Xml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Text that prints as a quoted string of DOT. Lines are aligned to the left.
pub(crate) struct DotString<'a>(pub(crate) &'a str);

impl fmt::Display for DotString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\l")?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        let hostile = "</script><b a='1' c=\"2\">&\u{0}\\";
        assert_eq!(
            Xml(hostile).to_string(),
            "&lt;/script&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}\\"
        );
        assert_eq!(
            DotString(hostile).to_string(),
            "\"</script><b a='1' c=\\\"2\\\">&\u{fffd}\\\\\""
        );
    }
}
