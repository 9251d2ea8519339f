//! Tokens of the text forms of meshes and specs.

use super::ShardingError;

/// The rest of a text.
pub(super) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Tokens<'a> {
        Tokens { rest: text }
    }

    /// Returns the error that something else was expected.
    pub(super) fn error<T>(&self, expected: &str) -> Result<T, ShardingError> {
        Err(ShardingError::Text {
            expected: expected.to_owned(),
            found: self.rest.to_owned(),
        })
    }

    /// Reads `token` if it comes next, and returns whether it did. White space in both may differ.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let mut rest = self.rest;
        for part in token.split_whitespace() {
            match rest.trim_start().strip_prefix(part) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        self.rest = rest;
        true
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<(), ShardingError> {
        match self.eat(token) {
            true => Ok(()),
            false => self.error(&format!("`{token}`")),
        }
    }

    /// Reads the characters that `is_part` accepts.
    fn take(&mut self, what: &str, is_part: fn(char) -> bool) -> Result<&'a str, ShardingError> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if end == 0 {
            return self.error(what);
        }
        self.rest = &rest[end..];
        Ok(&rest[..end])
    }

    /// Reads a word of letters, digits and `_`.
    pub(super) fn word(&mut self) -> Result<&'a str, ShardingError> {
        self.take("a name", |c| c.is_alphanumeric() || c == '_')
    }

    /// Reads a word between double quotes.
    pub(super) fn quoted(&mut self) -> Result<&'a str, ShardingError> {
        self.expect("\"")?;
        let word = self.word()?;
        self.expect("\"")?;
        Ok(word)
    }

    pub(super) fn number(&mut self) -> Result<usize, ShardingError> {
        let before = self.rest;
        let digits = self.take("a number", |c| c.is_ascii_digit())?;
        digits.parse().or_else(|_| {
            self.rest = before;
            self.error("a number that fits 64 bits")
        })
    }

    /// Reads items between `open` and `close`, separated by commas.
    pub(super) fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Tokens<'a>) -> Result<T, ShardingError>,
    ) -> Result<Vec<T>, ShardingError> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Result<(), ShardingError> {
        match self.rest.trim().is_empty() {
            true => Ok(()),
            false => self.error("the end of the text"),
        }
    }
}
