//! Tokens of the text form, and the positions of errors.

use super::parse::{ParseError, Parsed, Parser};

impl<'a> Parser<'a> {
    /// Reads a word of letters, digits and `_`.
    pub(super) fn word(&mut self) -> Parsed<&'a str> {
        self.space();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error(format!("expected a name, found {}", self.found())));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// Reads `word` if it comes next, and returns whether it did.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let saved = self.at;
        if self.word() == Ok(word) {
            return true;
        }
        self.at = saved;
        false
    }

    /// Reads `token` if it comes next, and returns whether it did.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.error(format!("expected `{token}`, found {}", self.found())))
        }
    }

    /// Skips white space.
    pub(super) fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Skips white space and returns the position of the next token.
    pub(super) fn mark(&mut self) -> usize {
        self.space();
        self.at
    }

    /// Returns the text up to the next white space, for error messages.
    pub(super) fn found(&self) -> String {
        match self.text[self.at..].split_whitespace().next() {
            Some(word) => format!("`{word}`"),
            None => "the end".to_owned(),
        }
    }

    pub(super) fn error(&self, message: String) -> ParseError {
        self.error_at(self.at, message)
    }

    pub(super) fn error_at(&self, at: usize, message: String) -> ParseError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message,
        }
    }
}
