//! Groups of parameters, chosen by the paths of their leaves.

use super::Optimiser;
use crate::raise::{expect, raise};
use crate::tree::key::CallKey;
use crate::tree::{frozen, leaves, leaves_with_paths, share};
use crate::{Error, Result, Tensor, Tree, check};
use std::collections::BTreeMap;

/// Leaves of a tree by their paths in it: the parameters of one group.
#[derive(Clone, Debug, Default)]
pub struct Subtree(BTreeMap<String, Tensor>);

impl Tree for Subtree {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.0.visit(f);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.0.visit_mut(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Subtree(self.0.map(f))
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        match prefix {
            // Groups of a group match the paths in the whole tree.
            "" => out.extend(self.0.keys().cloned()),
            _ => self.0.paths(prefix, out),
        }
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        self.0.__key(key);
    }
    const __SHARED: Option<&'static str> = None;
}

/// Two optimisers: one for the parameters whose paths match a pattern, one for the others.
///
/// [`Optimiser::group`] makes it. In a pattern, `*` stands for any characters, also none and dots; all
/// other characters stand for themselves. Paths are those of
/// [`tree::leaves_with_paths`](crate::tree::leaves_with_paths), such as `layers[0].norm.weight`. Of several
/// groups, the last one that matches a parameter takes it. Each pattern matches a parameter that no later group
/// takes. Leaves in fields marked `#[nodiff]` are in no group.
///
/// `step_with` scales the learning rate of the group, such that its ratio to that of the others is the
/// ratio in [`Optimiser::step`]. So a schedule around groups changes all rates alike.
///
/// ```
/// use gradloom::optim::{AdamW, Frozen, Sgd};
/// use gradloom::prelude::*;
///
/// #[derive(Tree)]
/// struct Model { embedding: Tensor, weight: Tensor, bias: Tensor }
///
/// let model = Model {
///     embedding: Tensor::from([1.0f32]),
///     weight: Tensor::from([1.0f32]),
///     bias: Tensor::from([1.0f32]),
/// };
/// let adam = AdamW { weight_decay: 0.1, ..AdamW::default() };
/// let adam = adam.group(["*bias"], AdamW { weight_decay: 0.0, ..adam }).group(["emb*"], Frozen);
/// let zeros = model.map(&mut |x| x.zeros_like());
/// let (model, _state) = adam.step(&model, &zeros, &adam.init(&model));
/// assert_eq!(model.embedding.to_vec::<f32>(), [1.0]);
/// assert_eq!(model.weight.to_vec::<f32>(), [0.9999]);
/// assert_eq!(model.bias.to_vec::<f32>(), [1.0]);
/// ```
///
/// # Panics
///
/// As for [`Optimiser`], and if a pattern matches no parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped<O, G> {
    /// Optimiser of the other parameters.
    pub rest: O,
    /// Patterns of the group.
    pub patterns: Vec<String>,
    /// Optimiser of the group.
    pub group: G,
}

/// State of [`Grouped`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct GroupedState<O, G> {
    /// State of the optimiser of the other parameters.
    pub rest: O,
    /// State of the optimiser of the group.
    pub group: G,
}

/// An optimiser that keeps all parameters: for groups that are not trained.
///
/// The gradients are still computed; mark a field `#[nodiff]` to avoid that. A frozen leaf may have any dtype.
///
/// ```
/// use gradloom::optim::Frozen;
/// use gradloom::prelude::*;
///
/// let x = Tensor::from([1.0f32]);
/// let (y, ()) = Frozen.step(&x, &Tensor::from([2.0f32]), &());
/// assert_eq!(y.to_vec::<f32>(), [1.0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frozen;

impl Optimiser for Frozen {
    type State<P: Tree> = ();

    fn init<P: Tree>(&self, _: &P) {}

    fn lr(&self) -> f64 {
        0.0
    }

    fn step_with<P: Tree>(&self, _: &Tensor, params: &P, _: &P, (): &()) -> (P, ()) {
        (share(params), ())
    }
}

impl<O: Optimiser, G: Optimiser> Optimiser for Grouped<O, G> {
    type State<P: Tree> = GroupedState<O::State<Subtree>, G::State<Subtree>>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> Self::State<P> {
        let parts = expect(Parts::new(params, &self.patterns));
        let [rest, group] = parts.split(leaves(params));
        GroupedState {
            rest: self.rest.init(&rest),
            group: self.group.init(&group),
        }
    }

    /// Returns the learning rate of the other parameters.
    fn lr(&self) -> f64 {
        self.rest.lr()
    }

    #[track_caller]
    fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &Self::State<P>,
    ) -> (P, Self::State<P>) {
        let ratio = self.group.lr() / self.rest.lr();
        let scaled = match self.group.lr() == self.rest.lr() {
            true => lr.clone(),
            false if ratio.is_finite() => lr * ratio,
            false => raise(Error::Arguments {
                call: "optim::Grouped".to_owned(),
                reason: format!(
                    "the rate of the group, {}, has no ratio to that of the others, which is {}",
                    self.group.lr(),
                    self.rest.lr(),
                ),
            }),
        };
        self.stepped(params, grads, |[params, group], [grads, of_group]| {
            (
                self.rest.step_with(lr, params, grads, &state.rest),
                self.group.step_with(&scaled, group, of_group, &state.group),
            )
        })
    }

    #[track_caller]
    fn step<P: Tree>(&self, params: &P, grads: &P, state: &Self::State<P>) -> (P, Self::State<P>) {
        self.stepped(params, grads, |[params, group], [grads, of_group]| {
            (
                self.rest.step(params, grads, &state.rest),
                self.group.step(group, of_group, &state.group),
            )
        })
    }
}

impl<O, G> Grouped<O, G> {
    /// Applies the steps of both optimisers to their parts of the parameters and gradients.
    #[track_caller]
    fn stepped<P: Tree, R, S>(
        &self,
        params: &P,
        grads: &P,
        steps: impl FnOnce([&Subtree; 2], [&Subtree; 2]) -> ((Subtree, R), (Subtree, S)),
    ) -> (P, GroupedState<R, S>) {
        let parts = expect(Parts::new(params, &self.patterns));
        let of_grads = leaves(grads);
        let xs = leaves(params);
        let expected = xs.iter().map(|_| None);
        expect(check::beside(
            "gradient",
            params,
            "parameters",
            &of_grads,
            expected,
        ));
        let ([params_of_rest, params_of_group], [rest, group]) =
            (parts.split(xs), parts.split(of_grads));
        let params_of_both = [&params_of_rest, &params_of_group];
        let ((rest, of_rest), (group, of_group)) = steps(params_of_both, [&rest, &group]);
        let state = GroupedState {
            rest: of_rest,
            group: of_group,
        };
        (parts.join(params, &rest, &group), state)
    }
}

/// The part of each leaf of a tree.
struct Parts(Vec<(String, Option<Part>)>);

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Rest,
    Group,
}

impl Parts {
    /// # Errors
    ///
    /// If a pattern matches no leaf that is not frozen.
    fn new(params: &impl Tree, patterns: &[String]) -> Result<Parts> {
        let mut parts = Vec::new();
        let matched = matches(params, patterns)?;
        for ((path, matched), frozen) in matched.into_iter().zip(frozen(params)) {
            let part = match matched {
                _ if frozen => None,
                true => Some(Part::Group),
                false => Some(Part::Rest),
            };
            parts.push((path, part));
        }
        Ok(Parts(parts))
    }

    /// Returns the leaves of the rest and of the group.
    fn split(&self, leaves: Vec<Tensor>) -> [Subtree; 2] {
        let mut parts = [Subtree::default(), Subtree::default()];
        for (leaf, (path, part)) in leaves.into_iter().zip(&self.0) {
            if let Some(part) = part {
                parts[*part as usize].0.insert(path.clone(), leaf);
            }
        }
        parts
    }

    /// Returns the tree with the leaves of both parts.
    fn join<P: Tree>(&self, like: &P, rest: &Subtree, group: &Subtree) -> P {
        let mut parts = self.0.iter();
        like.map(&mut |leaf| match parts.next() {
            Some((path, Some(Part::Rest))) => rest.0[path].clone(),
            Some((path, Some(Part::Group))) => group.0[path].clone(),
            _ => leaf.clone(),
        })
    }
}

/// Returns the path of each leaf, and whether a pattern matches it.
///
/// # Errors
///
/// If a pattern matches no leaf that is not frozen.
pub(super) fn matches(tree: &impl Tree, patterns: &[String]) -> Result<Vec<(String, bool)>> {
    let paths = leaves_with_paths(tree).into_iter().map(|(path, _)| path);
    let paths: Vec<String> = paths.collect();
    let frozen = frozen(tree);
    for pattern in patterns {
        let mut free = paths.iter().zip(&frozen).filter(|(_, frozen)| !**frozen);
        if !free.any(|(path, _)| is_match(pattern, path)) {
            return Err(Error::Pattern {
                pattern: pattern.clone(),
                paths,
            });
        }
    }
    let matched = paths.into_iter().map(|path| {
        let matched = patterns.iter().any(|pattern| is_match(pattern, &path));
        (path, matched)
    });
    Ok(matched.collect())
}

/// Returns whether a path matches a pattern, in which `*` stands for any characters.
fn is_match(pattern: &str, path: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else {
        return pattern == path;
    };
    let Some(mut path) = path.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = others.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match path.find(part) {
            Some(at) => path = &path[at + part.len()..],
            None => return false,
        }
    }
    path.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, path) in [
            ("", ""),
            ("*", ""),
            ("*", "a.b"),
            ("a.b", "a.b"),
            ("*.b", "a.b"),
            ("layers[*].w", "layers[10].w"),
            ("*norm*", "layers[0].norm.weight"),
            ("a*a", "aa"),
            ("**", "x"),
            ("*ab*ab", "abab"),
        ] {
            assert!(is_match(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("", "a"),
            ("a", "ab"),
            ("b", "ab"),
            ("a*a", "a"),
            ("*.b", "b"),
            ("layers[0].w", "layers00.w"),
            ("*ab*ab", "ab"),
        ] {
            assert!(!is_match(pattern, path), "{pattern} {path}");
        }
    }
}
