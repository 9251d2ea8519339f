//! Covers a group with existing loops.
//!
//! A group that no loop computes as a whole runs as several instructions, each of them one op or
//! one loop over some members.

use super::{Arg, Group};
use crate::hash::HashMap;
use crate::{Op, Program, ShortList, Var};

/// The computation of a loop: a parsed [`Group::signature`](super::Group::signature).
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The number of operands.
    pub n_inputs: usize,
    /// The members in order.
    members: Vec<(Op, Vec<Arg>)>,
    /// The members that are results.
    pub results: Vec<usize>,
    /// The members on which the last one depends, in breadth-first order from it, each after one of its consumers.
    down: Vec<usize>,
}

impl Pattern {
    /// Parses a signature. Returns `None` if the text is not a signature.
    pub fn parse(signature: &str) -> Option<Pattern> {
        let (n_inputs, rest) = signature.split_once(':')?;
        let n_inputs: usize = n_inputs.parse().ok()?;
        let (members, results) = rest.split_once('>')?;
        let member = |text: &str| {
            let mut words = text.split(' ');
            let op = Op::from_name(words.next()?)?;
            let arg = |word: &str| match word.strip_prefix('c') {
                Some(bits) => {
                    let bits = u64::from_str_radix(bits, 16).ok()?;
                    Some(Arg::Constant(f64::from_bits(bits)))
                }
                None => {
                    let value: usize = word.parse().ok()?;
                    Some(match value.checked_sub(n_inputs) {
                        None => Arg::Input(value),
                        Some(m) => Arg::Member(m),
                    })
                }
            };
            Some((op, words.map(arg).collect::<Option<Vec<Arg>>>()?))
        };
        let members: Vec<(Op, Vec<Arg>)> =
            members.split(';').map(member).collect::<Option<Vec<_>>>()?;
        let result = |word: &str| word.parse::<usize>().ok()?.checked_sub(n_inputs);
        let results: Vec<usize> = results.split(' ').map(result).collect::<Option<Vec<_>>>()?;
        let last = members.len().checked_sub(1)?;
        let (mut down, mut met) = (vec![last], vec![false; members.len()]);
        met[last] = true;
        let mut at = 0;
        for (m, (_, args)) in members.iter().enumerate() {
            // A member reads only earlier members.
            let later = |arg: &Arg| matches!(arg, Arg::Member(of) if *of >= m);
            if args.iter().any(later) {
                return None;
            }
        }
        while let Some(m) = down.get(at).copied() {
            at += 1;
            for arg in &members[m].1 {
                if let Arg::Member(of) = *arg
                    && !std::mem::replace(&mut met[of], true)
                {
                    down.push(of);
                }
            }
        }
        results.contains(&last).then_some(Pattern {
            n_inputs,
            members,
            results,
            down,
        })
    }

    /// Returns whether the last member depends on all others. If not, the loop only computes whole groups.
    fn is_of_one_end(&self) -> bool {
        self.down.len() == self.members.len()
    }

    /// Returns the values of a group that the pattern reads, if it computes the group with some constants as operands.
    fn operands(&self, program: &Program, group: &Group) -> Option<Vec<Var>> {
        let mut operands: Vec<Option<Var>> = vec![None; self.n_inputs];
        for (m, ((op, args), own)) in self.members.iter().zip(&group.args).enumerate() {
            let eqn = group.eqn(program, m);
            if eqn.op != *op || args.len() != own.len() {
                return None;
            }
            for ((arg, own), var) in args.iter().zip(own).zip(eqn.data()) {
                match (arg, own) {
                    (Arg::Input(i), Arg::Input(_) | Arg::Constant(_)) => {
                        let operand = operands.get_mut(*i)?;
                        if operand.is_some_and(|known| known != *var) {
                            return None;
                        }
                        *operand = Some(*var);
                    }
                    (Arg::Member(m), Arg::Member(own)) if m == own => {}
                    (Arg::Constant(x), Arg::Constant(own)) if x.to_bits() == own.to_bits() => {}
                    _ => return None,
                }
            }
        }
        operands.into_iter().collect()
    }

    /// Returns the members in order.
    pub fn members(&self) -> &[(Op, Vec<Arg>)] {
        &self.members
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether the pattern has no member. Always false for a parsed pattern.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// Patterns, each with a payload.
#[derive(Debug)]
pub struct Patterns<T> {
    all: Vec<(Pattern, T)>,
    /// Positions of those [of one end](Pattern::is_of_one_end), by the op of their last member, the largest first.
    by_last: HashMap<Op, Vec<usize>>,
    /// Positions of all by the numbers of their members and of their results.
    by_size: HashMap<(usize, usize), Vec<usize>>,
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Patterns {
            all: Vec::new(),
            by_last: HashMap::default(),
            by_size: HashMap::default(),
        }
    }
}

impl<T> Patterns<T> {
    /// Adds a pattern. Among patterns of equal size the first one added is tried first.
    pub fn add(&mut self, pattern: Pattern, of: T) {
        let there = self.all.len();
        let size = (pattern.len(), pattern.results.len());
        self.by_size.entry(size).or_default().push(there);
        if pattern.is_of_one_end() {
            let last = pattern.members[pattern.len() - 1].0;
            let list = self.by_last.entry(last).or_default();
            let at = list.partition_point(|other| self.all[*other].0.len() >= pattern.len());
            list.insert(at, there);
        }
        self.all.push((pattern, of));
    }

    /// Returns the patterns that compute a group with some of its constants as operands, each with its operands.
    pub fn of_whole<'a>(
        &'a self,
        program: &'a Program,
        group: &'a Group,
    ) -> impl Iterator<Item = (&'a T, Vec<Var>)> {
        let size = (group.members.len(), group.results.len());
        let alike = self.by_size.get(&size).into_iter().flatten();
        let alike = alike.map(|there| &self.all[*there]);
        let alike = alike.filter(|(pattern, _)| pattern.results == group.results);
        alike.filter_map(|(pattern, of)| Some((of, pattern.operands(program, group)?)))
    }
}

/// A group as numbered values: its operands, then the results of its members.
pub struct Values<'a> {
    /// The number that each operand is equal to, if that is constant.
    pub constants: &'a [Option<f64>],
    /// The ops of the members and the values they read, in an order of computation.
    pub members: &'a [(Op, &'a [usize])],
    /// For each member, true if its result is used outside of the group.
    pub is_read: &'a [bool],
}

/// Members of a group that are computed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<T> {
    /// The loop that computes them, or `None` for a single op.
    pub of: Option<T>,
    /// The values that it reads, in the order of its operands.
    pub args: ShortList<usize, 4>,
    /// The values that it computes, in the order of its results.
    pub outs: ShortList<usize, 2>,
}

/// Bound on the number of loops tried at a member. Most fail at the second op.
const MOST_TRIES: usize = 64;

/// Cuts a group into pieces, in an order in which they can run.
///
/// The search goes from the results down: each member not yet in a piece is matched as the last
/// member of the largest pattern that fits. `fits` may reject a loop given the values it would read and
/// compute.
///
/// A member inside of a piece has consumers outside only if it is a result of the loop, and then
/// every value that the loop reads precedes that member. So the pieces can run in the order of
/// their first members with outside consumers, without cyclic dependencies.
pub fn cover<T: Copy>(
    values: &Values<'_>,
    patterns: &Patterns<T>,
    mut fits: impl FnMut(T, &[usize], &[usize]) -> bool,
) -> Vec<Piece<T>> {
    let n_inputs = values.constants.len();
    let readers = Readers::new(values);
    let mut taken = vec![false; values.members.len()];
    let mut pieces: Vec<(usize, Piece<T>)> = Vec::new();
    let mut found = PatternMatch::default();
    for last in (0..values.members.len()).rev() {
        if taken[last] {
            continue;
        }
        let (op, args) = values.members[last];
        let tried = patterns.by_last.get(&op).into_iter().flatten();
        let tried = tried.take(MOST_TRIES).map(|there| &patterns.all[*there]);
        let mut tried = tried.filter(|(pattern, _)| may_end(pattern, values, last));
        let laid = tried.find_map(|(pattern, of)| {
            let first = unify(pattern, values, &readers, &taken, last, &mut found)?;
            let results = pattern.results.iter().map(|r| found.members[*r] + n_inputs);
            let outs: ShortList<usize, 2> = results.collect();
            fits(*of, &found.inputs, &outs).then(|| {
                let piece = Piece {
                    of: Some(*of),
                    args: found.inputs[..].into(),
                    outs,
                };
                (first, piece)
            })
        });
        match laid {
            Some(piece) => {
                found.members.iter().for_each(|m| taken[*m] = true);
                pieces.push(piece);
            }
            None => {
                taken[last] = true;
                let piece = Piece {
                    of: None,
                    args: args.into(),
                    outs: [last + n_inputs].into(),
                };
                pieces.push((last, piece));
            }
        }
    }
    pieces.sort_by_key(|(first, _)| *first);
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// Returns whether the operands of the member `last` can be those of the last member of a pattern.
///
/// This rejects most patterns for less than [`unify`] does.
fn may_end(pattern: &Pattern, values: &Values<'_>, last: usize) -> bool {
    let n_inputs = values.constants.len();
    let (_, own_args) = values.members[last];
    let (_, args) = &pattern.members[pattern.len() - 1];
    let mut both = args.iter().zip(own_args);
    both.all(|(arg, value)| match *arg {
        Arg::Input(_) => true,
        Arg::Member(m) => {
            let own = value.checked_sub(n_inputs).map(|m| values.members[m].0);
            own == Some(pattern.members[m].0)
        }
        Arg::Constant(_) => values.constants.get(*value).is_some_and(Option::is_some),
    })
}

/// The members that read each member.
struct Readers {
    /// Pairs of a member and one that reads it, ascending.
    pairs: Vec<(usize, usize)>,
}

impl Readers {
    fn new(values: &Values<'_>) -> Readers {
        let n_inputs = values.constants.len();
        let members = values.members.iter().enumerate();
        let reads = members.flat_map(|(m, (_, args))| args.iter().map(move |arg| (*arg, m)));
        let pairs = reads.filter_map(|(arg, m)| Some((arg.checked_sub(n_inputs)?, m)));
        let mut pairs: Vec<(usize, usize)> = pairs.collect();
        pairs.sort_unstable();
        Readers { pairs }
    }

    fn of(&self, member: usize) -> impl Iterator<Item = usize> {
        let start = self.pairs.partition_point(|(read, _)| *read < member);
        let pairs = self.pairs[start..].iter();
        let pairs = pairs.take_while(move |(read, _)| *read == member);
        pairs.map(|(_, by)| *by)
    }
}

/// The members and operands that a pattern is matched to.
#[derive(Default)]
struct PatternMatch {
    members: Vec<usize>,
    inputs: Vec<usize>,
    /// The members in ascending order.
    sorted: Vec<usize>,
}

/// Matches a pattern to members so that its last member is `last`, and stores the match in `found`.
///
/// Returns the first matched member with a consumer outside of the match.
fn unify(
    pattern: &Pattern,
    values: &Values<'_>,
    readers: &Readers,
    taken: &[bool],
    last: usize,
    found: &mut PatternMatch,
) -> Option<usize> {
    const NONE: usize = usize::MAX;
    let n_inputs = values.constants.len();
    let PatternMatch {
        members,
        inputs,
        sorted,
    } = found;
    for (list, len) in [
        (&mut *members, pattern.len()),
        (&mut *inputs, pattern.n_inputs),
    ] {
        list.clear();
        list.resize(len, NONE);
    }
    members[pattern.len() - 1] = last;
    for m in &pattern.down {
        let (at, (op, args)) = (members[*m], &pattern.members[*m]);
        let (own, own_args) = values.members[at];
        if own != *op || taken[at] || own_args.len() != args.len() {
            return None;
        }
        for (arg, &value) in args.iter().zip(own_args) {
            let slot = match *arg {
                Arg::Constant(x) => {
                    let is = values.constants.get(value).copied().flatten();
                    if is.map(f64::to_bits) != Some(x.to_bits()) {
                        return None;
                    }
                    continue;
                }
                Arg::Input(i) => &mut inputs[i],
                Arg::Member(of) => &mut members[of],
            };
            let value = match arg {
                Arg::Member(_) => value.checked_sub(n_inputs)?,
                _ => value,
            };
            if *slot != NONE && *slot != value {
                return None;
            }
            *slot = value;
        }
    }
    // The matched members are distinct, and no operand is one of them.
    sorted.clone_from(members);
    sorted.sort_unstable();
    let is_member = |m: usize| sorted.binary_search(&m).is_ok();
    let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    let inside = |value: &usize| value.checked_sub(n_inputs).is_some_and(is_member);
    if twice || inputs.contains(&NONE) || inputs.iter().any(inside) {
        return None;
    }
    let mut first = last;
    for (m, at) in members.iter().enumerate() {
        let read = values.is_read[*at] || readers.of(*at).any(|by| !is_member(by));
        if read && !pattern.results.contains(&m) {
            return None;
        }
        if read {
            first = first.min(*at);
        }
    }
    let before = |value: &usize| *value < first + n_inputs;
    inputs.iter().all(before).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(signatures: &[&'static str]) -> Patterns<&'static str> {
        let mut patterns = Patterns::default();
        for signature in signatures {
            patterns.add(Pattern::parse(signature).expect("a pattern"), *signature);
        }
        patterns
    }

    fn pieces(
        constants: &[Option<f64>],
        members: &[(Op, &[usize])],
        read: &[usize],
        signatures: &[&'static str],
    ) -> Vec<(Option<&'static str>, Vec<usize>, Vec<usize>)> {
        let is_read: Vec<bool> = (0..members.len()).map(|m| read.contains(&m)).collect();
        let values = Values {
            constants,
            members,
            is_read: &is_read,
        };
        let pieces = cover(&values, &patterns(signatures), |_, _, _| true);
        let pieces = pieces.into_iter();
        let lists = pieces.map(|p| (p.of, p.args.to_vec(), p.outs.to_vec()));
        lists.collect()
    }

    const MUL_ADD: &str = "3:mul 0 1;add 3 2>4";

    #[test]
    fn the_largest_loop_that_fits_is_taken_from_the_results_down() {
        let members: [(Op, &[usize]); 3] =
            [(Op::Mul, &[0, 1]), (Op::Add, &[2, 0]), (Op::Tanh, &[3])];
        let found = pieces(
            &[None, None],
            &members,
            &[2],
            &[MUL_ADD, "2:tanh 0;add 2 1>3"],
        );
        let expected = [
            (Some(MUL_ADD), vec![0, 1, 0], vec![3]),
            (None, vec![3], vec![4]),
        ];
        assert_eq!(found, expected);
        let whole = "2:mul 0 1;add 2 0;tanh 3>4";
        let found = pieces(&[None, None], &members, &[2], &[MUL_ADD, whole]);
        assert_eq!(found, [(Some(whole), vec![0, 1], vec![4])]);
    }

    #[test]
    fn a_value_with_outside_consumers_is_a_result_of_its_loop() {
        let members: [(Op, &[usize]); 2] = [(Op::Mul, &[0, 1]), (Op::Add, &[2, 0])];
        let found = pieces(&[None, None], &members, &[0, 1], &[MUL_ADD]);
        assert_eq!(
            found,
            [(None, vec![0, 1], vec![2]), (None, vec![2, 0], vec![3])]
        );
        let both = "3:mul 0 1;add 3 2>3 4";
        let found = pieces(&[None, None], &members, &[0, 1], &[both]);
        assert_eq!(found, [(Some(both), vec![0, 1, 0], vec![2, 3])]);
    }

    #[test]
    fn a_loop_that_would_depend_on_itself_is_rejected() {
        // The sum depends on the product through a member outside of the loop.
        let members: [(Op, &[usize]); 3] =
            [(Op::Mul, &[0, 1]), (Op::Tanh, &[2]), (Op::Add, &[2, 3])];
        let both = "3:mul 0 1;add 3 2>3 4";
        let found = pieces(&[None, None], &members, &[2], &[both]);
        assert!(found.iter().all(|(of, _, _)| of.is_none()));
    }

    #[test]
    fn a_consumer_of_the_first_result_of_a_loop_runs_after_it() {
        let members: [(Op, &[usize]); 3] =
            [(Op::Mul, &[0, 1]), (Op::Tanh, &[2]), (Op::Add, &[2, 0])];
        let both = "3:mul 0 1;add 3 2>3 4";
        let found = pieces(&[None, None], &members, &[1, 2], &[both]);
        let expected = [
            (Some(both), vec![0, 1, 0], vec![2, 4]),
            (None, vec![2], vec![3]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_constant_of_a_pattern_matches_only_the_same_number() {
        let members: [(Op, &[usize]); 2] = [(Op::Mul, &[0, 1]), (Op::Neg, &[2])];
        let half = "1:mul 0 c3fe0000000000000;neg 1>2";
        let found = pieces(&[None, Some(0.5)], &members, &[1], &[half]);
        assert_eq!(found, [(Some(half), vec![0], vec![3])]);
        let found = pieces(&[None, Some(0.25)], &members, &[1], &[half]);
        assert_eq!(found.len(), 2);
        // An operand of a pattern matches any number.
        let any = "2:mul 0 1;neg 2>3";
        let found = pieces(&[None, Some(0.25)], &members, &[1], &[any]);
        assert_eq!(found, [(Some(any), vec![0, 1], vec![3])]);
    }

    #[test]
    fn a_loop_with_several_ends_is_no_part_of_a_group() {
        let members: [(Op, &[usize]); 2] = [(Op::Mul, &[0, 1]), (Op::Sub, &[0, 1])];
        let found = pieces(&[None, None], &members, &[0, 1], &["2:mul 0 1;sub 0 1>2 3"]);
        assert!(found.iter().all(|(of, _, _)| of.is_none()));
    }

    #[test]
    fn a_whole_group_is_computed_with_constants_as_operands() {
        let program = "(x: f32[3]) {
            h = scalar[value=0.5] like x
            y = mul x, h
            z = sub y, h
            return z
        }";
        let program: Program = program.parse().expect("a program");
        let is_read = |var: Var| program.outs.contains(&var);
        let group = Group::new(&program, &[1, 2], is_read).expect("a group");
        let [x, h] = [program.params[0], program.eqns[0].out()];
        let operands = |signature| {
            let patterns = patterns(&[signature]);
            let mut found = patterns.of_whole(&program, &group);
            found.next().map(|(_, operands)| operands)
        };
        let (all, one) = (Some(vec![x, h]), Some(vec![x]));
        assert_eq!(operands("2:mul 0 1;sub 2 1>3"), all);
        assert_eq!(operands("2:mul 0 c3fe0000000000000;sub 2 1>3"), all);
        let exact = "1:mul 0 c3fe0000000000000;sub 1 c3fe0000000000000>2";
        assert_eq!(operands(exact), one);
        for other in [
            "2:mul 0 c3fd0000000000000;sub 2 1>3",
            "2:mul 0 1;sub 2 0>3",
            "2:mul 0 1;add 2 1>3",
            "2:mul 0 1;sub 2 1>2 3",
            "3:mul 0 1;sub 3 1>4",
        ] {
            assert_eq!(operands(other), None, "{other}");
        }
        assert_eq!(operands("3:mul 0 1;sub 3 2>4"), Some(vec![x, h, h]));
    }

    #[test]
    fn texts_that_are_no_signatures_are_no_patterns() {
        assert_eq!(Pattern::parse("2:mul 0 3;sub 0 1>2 3"), None);
        assert_eq!(Pattern::parse("no signature"), None);
    }
}
