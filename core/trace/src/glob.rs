//! Patterns that select names.

use std::fmt;

/// Selection of records by name: patterns separated by commas.
///
/// `*` stands for any text, also with `/`, and `?` for one character. A pattern after `!` excludes
/// names. A name is selected if no pattern excludes it and another pattern fits, or all patterns
/// exclude. An empty selection takes every name.
///
/// ```
/// use gradloom_trace::Filter;
///
/// let filter = Filter::new("model/blk?/*, !*/scores");
/// assert!(filter.takes("model/blk3/attn/h"));
/// assert!(!filter.takes("model/blk3/attn/scores"));
/// assert!(!filter.takes("model/logits"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Filter {
    /// Parses patterns. Every text is valid.
    pub fn new(patterns: &str) -> Filter {
        let mut filter = Filter::default();
        for pattern in patterns.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match pattern.strip_prefix('!') {
                Some(pattern) => filter.excluded.push(pattern.to_owned()),
                None => filter.included.push(pattern.to_owned()),
            }
        }
        filter
    }

    /// Returns whether a name is selected.
    pub fn takes(&self, name: &str) -> bool {
        self.takes_any(&[name])
    }

    /// Returns whether one of the names of a record is selected, and none excluded.
    pub fn takes_any(&self, names: &[&str]) -> bool {
        let fits = |pattern: &String| names.iter().any(|name| fits(pattern, name));
        let included = self.included.is_empty() || self.included.iter().any(fits);
        included && !self.excluded.iter().any(fits)
    }
}

/// A rule that gives names of one implementation the names of another.
///
/// ```
/// use gradloom_trace::Rename;
///
/// let rule = Rename::new("layers.*.attn.*=model/blk*/attention/*")?;
/// assert_eq!(rule.apply("layers.3.attn.q").as_deref(), Some("model/blk3/attention/q"));
/// assert_eq!(rule.apply("layers.3.mlp"), None);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    from: String,
    to: String,
}

impl Rename {
    /// Parses a rule `FROM=TO`: patterns as in [`Filter`]. What `*` and `?` of the first stand for takes the place of
    /// those of the second, in order.
    ///
    /// # Errors
    ///
    /// If the text has no `=`, or if the second pattern has other wildcards than the first, or in another order.
    pub fn new(rule: &str) -> Result<Rename, String> {
        let (from, to) = rule
            .split_once('=')
            .ok_or_else(|| format!("`{rule}` is not a rule; give `FROM=TO`"))?;
        let wildcards =
            |pattern: &str| -> String { pattern.chars().filter(|c| is_wild(*c)).collect() };
        if wildcards(from) != wildcards(to) {
            return Err(format!(
                "`{from}` and `{to}` must have the same wildcards in the same order"
            ));
        }
        let [from, to] = [from, to].map(str::to_owned);
        Ok(Rename { from, to })
    }

    /// Returns the new name, if the rule fits. A `*` stands for the shortest text with which it does.
    pub fn apply(&self, name: &str) -> Option<String> {
        let mut found = matched(&self.from, name)?.into_iter();
        let mut renamed = String::new();
        for c in self.to.chars() {
            match is_wild(c) {
                true => renamed.push_str(&found.next()?),
                false => renamed.push(c),
            }
        }
        Some(renamed)
    }
}

impl fmt::Display for Rename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.from, self.to)
    }
}

fn is_wild(c: char) -> bool {
    matches!(c, '*' | '?')
}

/// Returns whether a pattern fits a whole name.
fn fits(pattern: &str, name: &str) -> bool {
    matched(pattern, name).is_some()
}

/// Returns what the wildcards of a pattern stand for, if it fits a whole name, in time linear in the product of their
/// lengths.
fn matched(pattern: &str, name: &str) -> Option<Vec<String>> {
    let [pattern, name] = [pattern, name].map(|text| Vec::from_iter(text.chars()));
    let (mut p, mut n) = (0, 0);
    // Start and end of the text of each wildcard so far.
    let mut found: Vec<(usize, usize)> = Vec::new();
    // Position after the last star, and the number of wildcards up to it.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                found.push((n, n));
                star = Some((p, found.len()));
            }
            Some(c) if *c == '?' || *c == name[n] => {
                if *c == '?' {
                    found.push((n, n + 1));
                }
                p += 1;
                n += 1;
            }
            _ => {
                // The star takes one character more.
                let (after, n_found) = star?;
                found.truncate(n_found);
                let (_, end) = found.last_mut()?;
                *end += 1;
                (p, n) = (after, *end);
            }
        }
    }
    let rest = &pattern[p..];
    found.extend(rest.iter().map(|_| (n, n)));
    let text = |(start, end): (usize, usize)| name[start..end].iter().collect();
    rest.iter()
        .all(|c| *c == '*')
        .then(|| found.into_iter().map(text).collect())
}
