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

impl Einsum {
    /// Returns the letters in the order in which the operands name them first, or `None` if the text
    /// has `...`.
    pub fn letters(&self) -> Option<Vec<char>> {
        if self.result.others_at.is_some() {
            return None;
        }
        let mut letters = Vec::new();
        for c in self.operands.iter().flat_map(|term| &term.letters) {
            if !letters.contains(c) {
                letters.push(*c);
            }
        }
        Some(letters)
    }

    /// Returns the product as a Rust expression of methods, for operands `x0`, `x1` and so on.
    ///
    /// In the expression, `lens` holds the lengths of [`Einsum::letters`]. Lengths are not known here,
    /// so the next pair of several operands is the one with the fewest letters. Returns `None` if the
    /// text has `...`.
    pub fn body(&self) -> Option<String> {
        let letters = self.letters()?;
        let of = |(i, term): (usize, &Term)| Factor {
            expr: format!("x{i}"),
            letters: term.letters.clone(),
        };
        let operands = self.operands.iter().enumerate().map(of);
        let mut all: Vec<Factor> = operands.map(Factor::with_diagonals).collect();
        while all.len() > 1 {
            let n_letters = |&(i, j): &(usize, usize)| {
                let others = all[j].letters.iter().filter(|c| !all[i].has(**c));
                all[i].letters.len() + others.count()
            };
            let pairs = (0..all.len()).flat_map(|i| (i + 1..all.len()).map(move |j| (i, j)));
            let (i, j) = pairs.min_by_key(n_letters)?;
            let (y, x) = (all.remove(j), all.remove(i));
            let kept = |c: char| self.result.letters.contains(&c) || all.iter().any(|z| z.has(c));
            let x = x.summed(|c| kept(c) || y.has(c));
            let y = y.summed(|c| kept(c) || x.has(c));
            let z = x.times(y, kept, &letters);
            all.insert(i, z);
        }
        let result = &self.result.letters;
        let last = all.pop()?.summed(|c| result.contains(&c));
        Some(last.permuted(result).expr)
    }
}

/// An expression for a tensor, with the letters of its axes.
struct Factor {
    expr: String,
    letters: Vec<char>,
}

impl Factor {
    fn has(&self, c: char) -> bool {
        self.letters.contains(&c)
    }

    /// Returns the letters for which `fits` holds.
    fn those(&self, fits: impl Fn(char) -> bool) -> Vec<char> {
        self.letters.iter().copied().filter(|c| fits(*c)).collect()
    }

    /// Appends the call of a method.
    fn call(mut self, method: &str) -> Factor {
        self.expr = format!("{}.{method}", self.expr);
        self
    }

    /// Takes the diagonal of axes with the same letter.
    fn with_diagonals(mut self) -> Factor {
        let twice = |x: &Factor| {
            (0..x.letters.len()).find_map(|i| {
                let j = x.letters[i + 1..].iter().position(|c| *c == x.letters[i])?;
                Some((i, i + 1 + j))
            })
        };
        while let Some((i, j)) = twice(&self) {
            let letter = self.letters.remove(j);
            self.letters.remove(i);
            self.letters.push(letter);
            self = self.call(&format!("moveaxis({j}, -1).moveaxis({i}, -1).diagonal(0)"));
        }
        self
    }

    /// Sums over the axes whose letters are not kept.
    fn summed(mut self, kept: impl Fn(char) -> bool) -> Factor {
        let axes = (0..self.letters.len()).filter(|axis| !kept(self.letters[*axis]));
        let axes: Vec<usize> = axes.collect();
        if axes.is_empty() {
            return self;
        }
        self.letters.retain(|c| kept(*c));
        self.call(&format!("sum({axes:?})"))
    }

    /// Moves the axes to this order.
    fn permuted(mut self, letters: &[char]) -> Factor {
        if self.letters == letters {
            return self;
        }
        let axis = |c: &char| self.letters.iter().position(|own| own == c);
        let order: Vec<usize> = letters.iter().filter_map(axis).collect();
        self.letters = letters.to_vec();
        self.call(&format!("permute({order:?})"))
    }

    /// Multiplies with another factor, and sums over the shared letters that are not kept.
    fn times(self, y: Factor, kept: impl Fn(char) -> bool, all: &[char]) -> Factor {
        let x = self;
        let batch = x.those(|c| y.has(c) && kept(c));
        let inner = x.those(|c| y.has(c) && !kept(c));
        let (left, right) = (x.those(|c| !y.has(c)), y.those(|c| !x.has(c)));
        let letters = [&batch[..], &left, &right].concat();
        if inner.is_empty() {
            // Element by element, with broadcasting.
            let x = x.permuted(&[&batch[..], &left].concat());
            let y = y.permuted(&[&batch[..], &right].concat());
            let x = right.iter().fold(x, |x, _| x.call("unsqueeze(-1)"));
            let ones = format!("unsqueeze({})", batch.len());
            let y = left.iter().fold(y, |y, _| y.call(&ones));
            let expr = format!("({} * {})", x.expr, y.expr);
            return Factor { expr, letters };
        }
        let len = |c: &char| {
            let at = all.iter().position(|other| other == c);
            format!("lens[{}]", at.expect("a letter of an operand"))
        };
        // The length of the axes of a group, joined to one.
        let joined = |group: &[char]| match group {
            [] => "1".to_owned(),
            group => group.iter().map(len).collect::<Vec<_>>().join(" * "),
        };
        let operand = |x: Factor, groups: [&[char]; 2]| {
            let x = x.permuted(&[&batch[..], groups[0], groups[1]].concat());
            match groups {
                [[_], [_]] => x,
                _ => {
                    let lens = batch.iter().map(len).chain(groups.map(joined));
                    x.call(&format!(
                        "reshape([{}])",
                        lens.collect::<Vec<_>>().join(", ")
                    ))
                }
            }
        };
        let x = operand(x, [&left, &inner]);
        let y = operand(y, [&inner, &right]);
        let z = Factor {
            expr: format!("{}.matmul({})", x.expr, y.expr),
            letters,
        };
        match (&left[..], &right[..]) {
            ([_], [_]) => z,
            _ if z.letters.is_empty() => z.call("reshape(())"),
            _ => {
                let lens: Vec<String> = z.letters.iter().map(len).collect();
                z.call(&format!("reshape([{}])", lens.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_dots_is_an_expression_of_methods() {
        let of = |text: &str| Einsum::parse(text).unwrap().body().unwrap();
        assert_eq!(of("ij,jk->ik"), "x0.matmul(x1)");
        assert_eq!(
            of("ii"),
            "x0.moveaxis(1, -1).moveaxis(0, -1).diagonal(0).sum([0])"
        );
        assert_eq!(
            of("i,j->ji"),
            "(x0.unsqueeze(-1) * x1.unsqueeze(0)).permute([1, 0])"
        );
        assert_eq!(
            of("ij,j->i"),
            "x0.matmul(x1.reshape([lens[1], 1])).reshape([lens[0]])"
        );
        assert_eq!(
            of("i,i"),
            "x0.reshape([1, lens[0]]).matmul(x1.reshape([lens[0], 1])).reshape(())"
        );
        assert_eq!(Einsum::parse("...i->...").unwrap().body(), None);
    }

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
