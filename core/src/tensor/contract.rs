//! Products of tensors that are summed over axes: `einsum`, and the axes of `dot_general`.
//!
//! They consist of matrix products and of ops that move axes, so those give their derivatives.

use super::Tensor;
use crate::Error;
use crate::raise::raise;
use gradloom_ir::einsum::{Einsum, Label};

/// A tensor with the identities of its axes.
struct Labelled {
    x: Tensor,
    labels: Vec<Label>,
}

impl Labelled {
    /// Returns the axis with a label.
    fn axis(&self, label: Label) -> Option<usize> {
        self.labels.iter().position(|own| *own == label)
    }

    fn has(&self, label: Label) -> bool {
        self.labels.contains(&label)
    }

    /// Returns the length of the axis with a label, or 1 if there is none.
    fn len(&self, label: Label) -> usize {
        self.axis(label).map_or(1, |axis| self.x.shape()[axis])
    }

    /// Moves the axes to this order of labels.
    fn permuted(self, labels: &[Label]) -> Labelled {
        if self.labels == labels {
            return self;
        }
        let axis = |label: &Label| self.axis(*label).expect("a label of the tensor") as i64;
        let order: Vec<i64> = labels.iter().map(axis).collect();
        Labelled {
            x: self.x.permute(order),
            labels: labels.to_vec(),
        }
    }

    /// Takes the diagonal of axes with the same label.
    fn with_diagonals(mut self) -> Labelled {
        while let Some((i, j)) = repeated(&self.labels) {
            let label = self.labels.remove(j);
            self.labels.remove(i);
            self.labels.push(label);
            self.x = self
                .x
                .moveaxis(j as i64, -1)
                .moveaxis(i as i64, -1)
                .diagonal(0);
        }
        self
    }

    /// Sums over the axes whose labels are not kept.
    fn summed(self, kept: impl Fn(Label) -> bool) -> Labelled {
        let dropped: Vec<i64> = (0..self.labels.len())
            .filter(|axis| !kept(self.labels[*axis]))
            .map(|axis| axis as i64)
            .collect();
        if dropped.is_empty() {
            return self;
        }
        Labelled {
            x: self.x.sum(dropped),
            labels: self.labels.into_iter().filter(|l| kept(*l)).collect(),
        }
    }

    /// Returns the tensor with the axes of the batch, and those of each group joined to one.
    fn joined(self, batch: &[Label], groups: [&[Label]; 2]) -> Tensor {
        let lens = |labels: &[Label]| labels.iter().map(|l| self.len(*l)).collect::<Vec<_>>();
        let joined = groups.map(|group| lens(group).iter().product());
        let shape = [&lens(batch)[..], &joined].concat();
        let order = [batch, groups[0], groups[1]].concat();
        reshaped(self.permuted(&order).x, &shape)
    }
}

fn reshaped(x: Tensor, shape: &[usize]) -> Tensor {
    match x.shape() == shape {
        true => x,
        false => x.reshape(shape.iter().map(|len| *len as i64).collect::<Vec<_>>()),
    }
}

/// Returns the positions of two equal labels.
fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|i| {
        let j = labels[i + 1..].iter().position(|l| *l == labels[i])?;
        Some((i, i + 1 + j))
    })
}

/// Multiplies two tensors and sums over the labels that are not kept.
fn product(x: Labelled, y: Labelled, kept: impl Fn(Label) -> bool) -> Labelled {
    let x_labels = x.labels.clone();
    let of = |fits: &dyn Fn(Label) -> bool, labels: &[Label]| -> Vec<Label> {
        labels.iter().copied().filter(|l| fits(*l)).collect()
    };
    let batch = of(&|l| y.has(l) && kept(l), &x_labels);
    let inner = of(&|l| y.has(l) && !kept(l), &x_labels);
    let left = of(&|l| !y.has(l), &x_labels);
    let right = of(&|l| !x.has(l), &y.labels);
    let labels = [&batch[..], &left, &right].concat();
    let lens = |labels: &[Label], of: &Labelled| -> Vec<usize> {
        labels.iter().map(|l| of.len(*l)).collect()
    };
    if inner.is_empty() {
        // Element by element, with broadcasting.
        let ones = |labels: &[Label]| vec![1; labels.len()];
        let wide = [lens(&batch, &x), lens(&left, &x), ones(&right)].concat();
        let tall = [lens(&batch, &y), ones(&left), lens(&right, &y)].concat();
        let x = reshaped(x.permuted(&[&batch[..], &left].concat()).x, &wide);
        let y = reshaped(y.permuted(&[&batch[..], &right].concat()).x, &tall);
        return Labelled { x: x * y, labels };
    }
    let shape = [lens(&batch, &x), lens(&left, &x), lens(&right, &y)].concat();
    let x = x.joined(&batch, [&left, &inner]);
    let y = y.joined(&batch, [&inner, &right]);
    Labelled {
        x: reshaped(x.matmul(y), &shape),
        labels,
    }
}

/// Multiplies tensors and sums over the labels that the result lacks.
///
/// Of more than two tensors, the pair with the cheapest product is next.
fn contract(operands: Vec<Labelled>, result: &[Label]) -> Tensor {
    let mut all: Vec<Labelled> = operands.into_iter().map(Labelled::with_diagonals).collect();
    let lengths: Vec<(Label, usize)> = {
        let axes = all
            .iter()
            .flat_map(|x| x.labels.iter().map(|l| (*l, x.len(*l))));
        axes.collect()
    };
    let longest = |label: Label| {
        let lens = lengths
            .iter()
            .filter(|(l, _)| *l == label)
            .map(|(_, len)| *len);
        // An axis of length 1 is repeated, also to length 0.
        lens.filter(|len| *len != 1).max().unwrap_or(1)
    };
    // An axis that is repeated need not be there.
    for x in &mut all {
        let is_repeated = |axis: &usize| x.x.shape()[*axis] == 1 && longest(x.labels[*axis]) != 1;
        let axes: Vec<usize> = (0..x.labels.len()).filter(is_repeated).collect();
        for axis in axes.into_iter().rev() {
            x.x = x.x.squeeze(axis as i64);
            x.labels.remove(axis);
        }
    }
    while all.len() > 1 {
        let cost = |&(i, j): &(usize, usize)| {
            let both = [&all[i].labels[..], &all[j].labels].concat();
            let distinct = (0..both.len()).filter(|k| !both[..*k].contains(&both[*k]));
            distinct.map(|k| longest(both[k]) as f64).product::<f64>()
        };
        let pairs = (0..all.len()).flat_map(|i| (i + 1..all.len()).map(move |j| (i, j)));
        let (i, j) = pairs
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
            .expect("there are two operands");
        let (y, x) = (all.remove(j), all.remove(i));
        let others = |label: Label| result.contains(&label) || all.iter().any(|z| z.has(label));
        let x = x.summed(|l| others(l) || y.has(l));
        let y = y.summed(|l| others(l) || x.has(l));
        let z = product(x, y, others);
        all.insert(i, z);
    }
    let last = all.pop().expect("there is an operand");
    last.summed(|l| result.contains(&l)).permuted(result).x
}

/// Returns the reason why axes with the same label differ, if they do.
fn differing<'a>(operands: impl Iterator<Item = (&'a [Label], &'a [usize])>) -> Option<String> {
    let mut seen: Vec<(Label, usize, usize)> = Vec::new();
    for (i, (labels, shape)) in operands.enumerate() {
        for (label, len) in labels.iter().zip(shape) {
            let repeats =
                |a: usize, b: usize| matches!(label, Label::FromEnd(_)) && (a == 1 || b == 1);
            for (other, at, first) in &seen {
                if other == label && first != len && !repeats(*first, *len) {
                    let (at, i) = (at + 1, i + 1);
                    return Some(format!(
                        "{label} is {first} in operand {at} and {len} in operand {i}"
                    ));
                }
            }
            seen.push((*label, i, *len));
        }
    }
    None
}

#[track_caller]
fn refuse_text(text: &str, reason: String) -> ! {
    raise(Error::Arguments {
        call: format!("einsum of `{text}`"),
        reason,
    })
}

/// Returns the lengths of the letters of a text, in the order of their first use.
#[track_caller]
pub fn einsum_lengths(text: &str, shapes: &[&[usize]]) -> Vec<usize> {
    let ranks: Vec<usize> = shapes.iter().map(|shape| shape.len()).collect();
    let labels = Einsum::parse(text).and_then(|einsum| Ok(einsum.labels(&ranks)?.0));
    let labels = labels.unwrap_or_else(|reason| refuse_text(text, reason));
    let axes = || {
        labels
            .iter()
            .map(|labels| &labels[..])
            .zip(shapes.iter().copied())
    };
    if let Some(reason) = differing(axes()) {
        refuse_text(text, reason);
    }
    let mut lengths: Vec<(Label, usize)> = Vec::new();
    for (label, len) in axes().flat_map(|(labels, shape)| labels.iter().zip(shape)) {
        let is_letter = matches!(label, Label::Letter(_));
        if is_letter && !lengths.iter().any(|(known, _)| known == label) {
            lengths.push((*label, *len));
        }
    }
    lengths.into_iter().map(|(_, len)| len).collect()
}

/// Products that are summed over axes.
impl Tensor {
    /// Multiplies tensors and sums over axes, as a text says: `"ij,jk->ik"` is the matrix product.
    ///
    /// The text names the axes of each tensor by letters, and then those of the result. Axes with the
    /// same letter have the same length. An axis that the result lacks is summed over. A letter that
    /// occurs twice in one tensor takes its diagonal. The axes `...` are all others of a tensor, and
    /// broadcast. Without `->`, the result has the axes `...` and the letters that occur once, in
    /// alphabetical order. Products of more than two tensors start with the cheapest pair.
    ///
    /// In a traced function, a literal text is checked at compile time and lowered. The next pair is
    /// the one with the fewest letters, because the lengths are not known.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = Tensor::from([1.0f32, 10.0]);
    /// assert_eq!(Tensor::einsum("ij,j->i", &[&x, &y]).to_vec::<f32>(), [21.0, 43.0]);
    /// assert_eq!(Tensor::einsum("ii->i", &[&x]).to_vec::<f32>(), [1.0, 4.0]);
    /// assert_eq!(Tensor::einsum("...j->j...", &[&x]).to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the text is wrong or does not fit the tensors, axes with the same letter have different
    /// lengths, the axes `...` do not broadcast, or the dtypes differ or are `bool`.
    #[track_caller]
    pub fn einsum<T: AsRef<Tensor>>(text: &str, tensors: &[T]) -> Tensor {
        let tensors: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
        let ranks: Vec<usize> = tensors.iter().map(|x| x.rank()).collect();
        let labels = Einsum::parse(text).and_then(|einsum| einsum.labels(&ranks));
        let found = labels.and_then(|(labels, result)| {
            let operands = tensors.into_iter().zip(labels).map(|(x, labels)| Labelled {
                x: x.clone(),
                labels,
            });
            let operands: Vec<Labelled> = operands.collect();
            match differing(operands.iter().map(|x| (&x.labels[..], x.x.shape()))) {
                Some(reason) => Err(reason),
                None => Ok((operands, result)),
            }
        });
        match found {
            Ok((operands, result)) => contract(operands, &result),
            Err(reason) => refuse_text(text, reason),
        }
    }
}

/// Returns the pairs of axes that are kept, and of those that are summed over.
pub(super) fn paired(
    ranks: [usize; 2],
    summed: &[Vec<i64>; 2],
    batch: &[Vec<i64>; 2],
) -> Result<[Vec<[usize; 2]>; 2], String> {
    let mut used = [Vec::new(), Vec::new()];
    let mut all = [Vec::new(), Vec::new()];
    for ([lefts, rights], pairs) in [batch, summed].into_iter().zip(&mut all) {
        if lefts.len() != rights.len() {
            let (m, n) = (lefts.len(), rights.len());
            return Err(format!(
                "{m} axes on the left are paired with {n} on the right"
            ));
        }
        for pair in lefts.iter().zip(rights) {
            let mut at = [0; 2];
            for (side, axis) in [*pair.0, *pair.1].into_iter().enumerate() {
                let rank = ranks[side];
                let found = if axis < 0 { axis + rank as i64 } else { axis };
                let Some(found) = usize::try_from(found).ok().filter(|a| *a < rank) else {
                    return Err(format!("axis {axis} is out of range for rank {rank}"));
                };
                if used[side].contains(&found) {
                    return Err(format!("axis {axis} is named twice"));
                }
                used[side].push(found);
                at[side] = found;
            }
            pairs.push(at);
        }
    }
    Ok(all)
}
