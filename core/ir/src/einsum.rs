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
    /// Returns the letters in the order in which the operands name them first.
    pub fn letters(&self) -> Vec<char> {
        let mut letters = Vec::new();
        for c in self.operands.iter().flat_map(|term| &term.letters) {
            if !letters.contains(c) {
                letters.push(*c);
            }
        }
        letters
    }

    /// Returns the product as a Rust block of methods, for operands `x0`, `x1` and so on.
    ///
    /// In the block, `lens` holds the lengths of [`Einsum::letters`], and `rt::with_last` replaces the
    /// last lengths of a shape. Lengths are not known here, so the next pair of several operands is one with
    /// the fewest letters, and of these one whose product keeps the fewest.
    pub fn body(&self) -> String {
        let letters = self.letters();
        let mut lets = Vec::new();
        let operands = self.operands.iter().enumerate().map(Factor::of_term);
        let mut all: Vec<Factor> = operands.map(Factor::with_diagonals).collect();
        while all.len() > 1 {
            let n_letters = |&(i, j): &(usize, usize)| {
                let rest = (0..all.len()).filter(|k| *k != i && *k != j);
                let rest: Vec<&Factor> = rest.map(|k| &all[k]).collect();
                let kept =
                    |c: &char| self.result.letters.contains(c) || rest.iter().any(|z| z.has(*c));
                let others = all[j].those(|c| !all[i].has(c));
                let both = [&all[i].letters[..], &others].concat();
                (both.len(), both.iter().filter(|c| kept(c)).count())
            };
            let pairs = (0..all.len()).flat_map(|i| (i + 1..all.len()).map(move |j| (i, j)));
            let (i, j) = pairs.min_by_key(n_letters).expect("there are two");
            let (y, x) = (all.remove(j), all.remove(i));
            let kept = |c: char| self.result.letters.contains(&c) || all.iter().any(|z| z.has(c));
            let x = x.summed(|c| kept(c) || y.has(c));
            let y = y.summed(|c| kept(c) || x.has(c));
            let z = x.times(y, kept, &letters, &mut lets);
            all.insert(i, z);
        }
        let result = &self.result.letters;
        let last = all.pop().expect("there is an operand");
        let last = last.summed(|c| result.contains(&c));
        // The axes `...` come first until the end.
        let (before, after) = result.split_at(self.result.others_at.unwrap_or(0));
        let last = last.permuted(&[after, before].concat());
        let last = before.iter().fold(last, |x, _| x.call("moveaxis(-1, 0)"));
        let lets: String = lets.iter().map(|line| format!("{line}; ")).collect();
        format!("{{ {lets}{} }}", last.expr)
    }
}

/// An expression for a tensor, with the letters of its last axes.
struct Factor {
    expr: String,
    letters: Vec<char>,
    /// Whether the axes `...` are before those with letters. Otherwise there are no others.
    has_others: bool,
}

impl Factor {
    fn of_term((i, term): (usize, &Term)) -> Factor {
        let mut x = Factor {
            expr: format!("x{i}"),
            letters: term.letters.clone(),
            has_others: term.others_at.is_some(),
        };
        let before = term.others_at.unwrap_or(0);
        x.letters.rotate_left(before);
        (0..before).fold(x, |x, _| x.call("moveaxis(0, -1)"))
    }

    fn has(&self, c: char) -> bool {
        self.letters.contains(&c)
    }

    /// Returns the letters for which `fits` holds.
    fn those(&self, fits: impl Fn(char) -> bool) -> Vec<char> {
        self.letters.iter().copied().filter(|c| fits(*c)).collect()
    }

    /// Returns the number of the axis with a letter.
    fn axis(&self, place: usize) -> i64 {
        match self.has_others {
            true => place as i64 - self.letters.len() as i64,
            false => place as i64,
        }
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
            let (first, second) = (self.axis(i), self.axis(j));
            let letter = self.letters.remove(j);
            self.letters.remove(i);
            self.letters.push(letter);
            self = self.call(&format!(
                "moveaxis({second}, -1).moveaxis({first}, -1).diagonal(0)"
            ));
        }
        self
    }

    /// Sums over the axes whose letters are not kept.
    fn summed(mut self, kept: impl Fn(char) -> bool) -> Factor {
        let axes = (0..self.letters.len()).filter(|place| !kept(self.letters[*place]));
        let axes: Vec<i64> = axes.map(|place| self.axis(place)).collect();
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
        let place = |x: &Factor, c: &char| x.letters.iter().position(|own| own == c);
        if self.has_others {
            for c in letters {
                let place = place(&self, c).expect("a letter of the tensor");
                let axis = self.axis(place);
                let letter = self.letters.remove(place);
                self.letters.push(letter);
                if axis != -1 {
                    self = self.call(&format!("moveaxis({axis}, -1)"));
                }
            }
            return self;
        }
        let order: Vec<usize> = letters.iter().filter_map(|c| place(&self, c)).collect();
        self.letters = letters.to_vec();
        self.call(&format!("permute({order:?})"))
    }

    /// Gives the last `n` axes these lengths.
    fn reshaped(mut self, n: usize, lens: &[String], lets: &mut Vec<String>) -> Factor {
        let lens = lens.join(", ");
        if self.has_others {
            let local = format!("y{}", lets.len());
            lets.push(format!("let {local} = {}", self.expr));
            let whole = format!("rt::with_last({local}.shape(), {n}, &[{lens}])");
            self.expr = format!("{local}.reshape({whole})");
            return self;
        }
        match lens.is_empty() {
            true => self.call("reshape(())"),
            false => self.call(&format!("reshape([{lens}])")),
        }
    }

    /// Multiplies with another factor, and sums over the shared letters that are not kept.
    fn times(
        self,
        y: Factor,
        kept: impl Fn(char) -> bool,
        all: &[char],
        lets: &mut Vec<String>,
    ) -> Factor {
        let x = self;
        let has_others = x.has_others || y.has_others;
        let batch = x.those(|c| y.has(c) && kept(c));
        let inner = x.those(|c| y.has(c) && !kept(c));
        let (left, right) = (x.those(|c| !y.has(c)), y.those(|c| !x.has(c)));
        let letters = [&batch[..], &left, &right].concat();
        if inner.is_empty() {
            // Element by element, with broadcasting.
            let x = x.permuted(&[&batch[..], &left].concat());
            let y = y.permuted(&[&batch[..], &right].concat());
            let x = right.iter().fold(x, |x, _| x.call("unsqueeze(-1)"));
            let ones = match y.has_others {
                true => format!("unsqueeze(-{})", right.len() + 1),
                false => format!("unsqueeze({})", batch.len()),
            };
            let y = left.iter().fold(y, |y, _| y.call(&ones));
            return Factor {
                expr: format!("({} * {})", x.expr, y.expr),
                letters,
                has_others,
            };
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
        let mut operand = |x: Factor, groups: [&[char]; 2]| {
            let x = x.permuted(&[&batch[..], groups[0], groups[1]].concat());
            match groups {
                [[_], [_]] => x,
                _ => {
                    let lens = batch.iter().map(len).chain(groups.map(joined));
                    let n = x.letters.len();
                    x.reshaped(n, &lens.collect::<Vec<_>>(), lets)
                }
            }
        };
        let x = operand(x, [&left, &inner]);
        let y = operand(y, [&inner, &right]);
        let z = Factor {
            expr: format!("{}.matmul({})", x.expr, y.expr),
            letters,
            has_others,
        };
        match (&left[..], &right[..]) {
            ([_], [_]) => z,
            _ => {
                let lens: Vec<String> = z.letters.iter().map(len).collect();
                z.reshaped(batch.len() + 2, &lens, lets)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_block_of_methods() {
        let of = |text: &str| {
            let body = Einsum::parse(text).unwrap().body();
            body[2..body.len() - 2].to_owned()
        };
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
        assert_eq!(of("...i->..."), "x0.sum([-1])");
        assert_eq!(of("...ij,...jk->...ik"), "x0.matmul(x1)");
        assert_eq!(
            of("i...j->j...i"),
            "x0.moveaxis(0, -1).moveaxis(-2, -1).moveaxis(-1, 0)"
        );
        assert_eq!(
            of("...ij,j->...i"),
            "let y0 = x0.matmul(x1.reshape([lens[1], 1])); y0.reshape(rt::with_last(y0.shape(), 2, &[lens[0]]))"
        );
        assert_eq!(
            of("...i,...j->...ij"),
            "(x0.unsqueeze(-1) * x1.unsqueeze(-2))"
        );
        // Of pairs with as many letters, the one that sums is first.
        for text in ["jk,bkl,l->bj", "bij,jk,bkl,l->bi", "ij,jk,k->i"] {
            assert!(!of(text).contains("unsqueeze"), "{text}: {}", of(text));
        }
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
