//! Patterns that select names.

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
        let fits = |pattern: &String| fits(pattern, name);
        let included = self.included.is_empty() || self.included.iter().any(fits);
        included && !self.excluded.iter().any(fits)
    }
}

/// Returns whether a pattern fits a whole name, in time linear in the product of their lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (
        Vec::from_iter(pattern.chars()),
        Vec::from_iter(name.chars()),
    );
    let (mut p, mut n) = (0, 0);
    // Position after the last star, and the number of characters tried for all before it.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                star = Some((p, n));
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                None => return false,
                // The star takes one character more.
                Some((after, taken)) => {
                    *taken += 1;
                    (p, n) = (*after, *taken);
                }
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
