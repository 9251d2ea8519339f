//! The notation of `einsum`: which axes of tensors are multiplied, and which of them are kept.
//!
//! The text `ij,jk->ik` names the axes of each operand, then those of the result. Axes with the same
//! letter are the same. An axis that the result lacks is summed over. The axes `...` are all others,
//! and broadcast.

/// A parsed text of `einsum`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Einsum {
    operands: Vec<Term>,
    result: Term,
}

/// The axes of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Term {
    text: String,
    letters: Vec<char>,
    /// The number of letters before `...`, if there is one.
    others_at: Option<usize>,
}

impl Term {
    fn parse(text: &str) -> Result<Term, String> {
        let mut term = Term {
            text: text.trim().to_owned(),
            ..Term::default()
        };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let n = match rest.strip_prefix("...") {
                Some(_) if term.others_at.is_some() => {
                    return Err(format!("`{}` has `...` twice", term.text));
                }
                Some(_) => {
                    term.others_at = Some(term.letters.len());
                    3
                }
                None if c.is_ascii_alphabetic() => {
                    term.letters.push(c);
                    1
                }
                None if c == ' ' => 1,
                None => {
                    return Err(format!(
                        "`{c}` is not a letter, `...`, `,` or `->`, in `{}`",
                        term.text
                    ));
                }
            };
            rest = &rest[n..];
        }
        Ok(term)
    }

    /// Returns the axes of a tensor, of which `n_others` are those of `...`.
    fn labels(&self, n_others: usize) -> Vec<Label> {
        let letters = self.letters.iter().map(|c| Label::Letter(*c));
        let mut labels: Vec<Label> = letters.collect();
        if let Some(at) = self.others_at {
            let others = (0..n_others).rev().map(Label::FromEnd);
            labels.splice(at..at, others);
        }
        labels
    }
}

/// The identity of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// An axis of `...`, counted from the last one. Lengths of 1 are repeated.
    FromEnd(usize),
    /// An axis with a letter. Its length is the same everywhere.
    Letter(char),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::FromEnd(n) => write!(f, "axis -{} of `...`", n + 1),
            Label::Letter(c) => write!(f, "`{c}`"),
        }
    }
}

impl Einsum {
    /// Parses a text such as `ij,jk->ik`.
    ///
    /// Without an arrow, the result has the axes `...` and the letters that occur once, in alphabetical
    /// order.
    ///
    /// # Errors
    ///
    /// The reason why the text is wrong.
    pub fn parse(text: &str) -> Result<Einsum, String> {
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text, None),
        };
        let operands: Result<Vec<Term>, String> = left.split(',').map(Term::parse).collect();
        let operands = operands?;
        let all = || operands.iter().flat_map(|term| &term.letters);
        let has_others = operands.iter().any(|term| term.others_at.is_some());
        let result = match right {
            Some(right) => Term::parse(right)?,
            None => {
                let once = |c: &&char| all().filter(|other| other == c).count() == 1;
                let mut letters: Vec<char> = all().filter(once).copied().collect();
                letters.sort_unstable();
                Term {
                    text: String::new(),
                    letters,
                    others_at: has_others.then_some(0),
                }
            }
        };
        for (i, c) in result.letters.iter().enumerate() {
            if !all().any(|other| other == c) {
                return Err(format!("no operand has the axis `{c}` of the result"));
            }
            if result.letters[..i].contains(c) {
                return Err(format!("the result has the axis `{c}` twice"));
            }
        }
        match (has_others, result.others_at.is_some()) {
            (true, false) => Err("the result lacks the axes `...` of the operands".into()),
            (false, true) => Err("no operand has the axes `...` of the result".into()),
            _ => Ok(Einsum { operands, result }),
        }
    }

    /// Returns an error unless the text names as many operands.
    pub fn check_operands(&self, n: usize) -> Result<(), String> {
        match self.operands.len() == n {
            true => Ok(()),
            false => Err(format!(
                "the number of tensors is {n}, expected {}",
                self.operands.len()
            )),
        }
    }

    /// Returns the axes of operands of these ranks, and of the result.
    ///
    /// # Errors
    ///
    /// If the number of operands or a rank does not fit.
    pub fn labels(&self, ranks: &[usize]) -> Result<(Vec<Vec<Label>>, Vec<Label>), String> {
        self.check_operands(ranks.len())?;
        let mut n_others = 0;
        let mut all = Vec::with_capacity(ranks.len());
        for (i, (term, rank)) in self.operands.iter().zip(ranks).enumerate() {
            let own = rank.checked_sub(term.letters.len());
            let fits = own.is_some_and(|own| own == 0 || term.others_at.is_some());
            let Some(own) = own.filter(|_| fits) else {
                return Err(format!(
                    "operand {} has rank {rank}, and `{}` has {}{} axes",
                    i + 1,
                    term.text,
                    if term.others_at.is_some() {
                        "at least "
                    } else {
                        ""
                    },
                    term.letters.len(),
                ));
            };
            n_others = n_others.max(own);
            all.push(term.labels(own));
        }
        Ok((all, self.result.labels(n_others)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        Einsum::parse(text).unwrap_err()
    }

    #[test]
    fn wrong_texts_are_refused_with_a_reason() {
        assert_eq!(fault("ij->ik"), "no operand has the axis `k` of the result");
        assert_eq!(fault("ij->ii"), "the result has the axis `i` twice");
        assert_eq!(fault("i...j...->ij"), "`i...j...` has `...` twice");
        assert_eq!(
            fault("...i->i"),
            "the result lacks the axes `...` of the operands"
        );
        assert_eq!(
            fault("i->...i"),
            "no operand has the axes `...` of the result"
        );
        assert_eq!(
            fault("i1->i"),
            "`1` is not a letter, `...`, `,` or `->`, in `i1`"
        );
        assert_eq!(
            fault("i.j"),
            "`.` is not a letter, `...`, `,` or `->`, in `i.j`"
        );
    }

    #[test]
    fn a_result_that_is_not_given_has_the_axes_that_occur_once() {
        let of =
            |text: &str, ranks: &[usize]| Einsum::parse(text).unwrap().labels(ranks).unwrap().1;
        assert_eq!(
            of("kj,ji", &[2, 2]),
            [Label::Letter('i'), Label::Letter('k')]
        );
        assert_eq!(of("ii", &[2]), []);
        let others = [Label::FromEnd(1), Label::FromEnd(0), Label::Letter('i')];
        assert_eq!(of("...i,j...,j", &[3, 2, 1]), others);
    }

    #[test]
    fn ranks_that_do_not_fit_are_refused() {
        let of =
            |text: &str, ranks: &[usize]| Einsum::parse(text).unwrap().labels(ranks).unwrap_err();
        assert_eq!(of("ij", &[3]), "operand 1 has rank 3, and `ij` has 2 axes");
        assert_eq!(
            of("i,ij...", &[1, 1]),
            "operand 2 has rank 1, and `ij...` has at least 2 axes"
        );
        assert_eq!(of("i", &[1, 1]), "the number of tensors is 2, expected 1");
    }
}
