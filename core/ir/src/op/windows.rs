//! Windows that slide along axes, for convolutions and pooling.
//!
//! A *window* has a length along each of the last axes. Its elements are `dilation` apart, and
//! neighbouring windows start `stride` apart. An axis is first extended by its *padding*, or cut if
//! that is negative.

use super::nd_array::Application;
use crate::{Dim, Fault, Poly, Shape, Static, StaticKind};
use std::ops::Range;

/// Largest number of axes along which windows slide.
pub const MAX_AXES: usize = 3;

/// An axis along which windows slide, with all lengths known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// Length of the axis.
    pub len: usize,
    /// Number of windows.
    pub count: usize,
    /// Number of elements of a window.
    pub window: usize,
    /// Distance between the first elements of neighbouring windows.
    pub stride: usize,
    /// Distance between neighbouring elements of a window.
    pub dilation: usize,
    /// Padding before the first element of the axis.
    pub before: i64,
}

impl WindowAxis {
    /// An axis of length 1 with one window.
    pub const UNIT: WindowAxis = WindowAxis {
        len: 1,
        count: 1,
        window: 1,
        stride: 1,
        dilation: 1,
        before: 0,
    };

    /// Returns the position of element `tap` of window `i`, or `None` if it lies in the padding.
    pub fn position(&self, i: usize, tap: usize) -> Option<usize> {
        let at = i * self.stride + tap * self.dilation;
        let at = usize::try_from(at as i64 - self.before).ok()?;
        (at < self.len).then_some(at)
    }

    /// Returns the windows whose element `tap` does not lie in the padding.
    pub fn inside(&self, tap: usize) -> Range<usize> {
        // Element `tap` of window `i` is at `i * stride + first`.
        let first = (tap * self.dilation) as i64 - self.before;
        let windows_before = |end: i64| (end.max(0) as usize).div_ceil(self.stride);
        let start = windows_before(-first);
        let end = windows_before(self.len as i64 - first).min(self.count);
        start.min(end)..end
    }
}

/// The padding of an axis.
#[derive(Clone, Copy, Debug)]
enum Padding {
    /// Just enough that there are `len / stride` windows, rounded up.
    Same,
    /// The padding before and after the axis.
    Sides(i64, i64),
}

/// The static arguments for an axis, as far as they are known.
#[derive(Clone, Copy, Debug)]
struct Slide {
    axis: usize,
    stride: Option<i64>,
    padding: Option<Padding>,
    dilation: Option<i64>,
}

/// Returns the static argument for each of `n` axes: one number for all, or one for each.
fn each(value: &Static, name: &str, n: usize) -> Result<Vec<Option<i64>>, Fault> {
    match value.ints() {
        None => Ok(vec![None; n]),
        Some([one]) => Ok(vec![Some(*one); n]),
        Some(all) if all.len() == n => Ok(all.iter().copied().map(Some).collect()),
        Some(all) => Err(Fault::Length {
            what: format!("the number of `{name}`"),
            found: all.len().to_string(),
            expected: one_or(&[n]),
        }),
    }
}

/// Returns the numbers in words, and 1.
fn one_or(numbers: &[usize]) -> String {
    let mut all = vec![1];
    all.extend(numbers.iter().filter(|n| **n != 1));
    let all: Vec<String> = all.iter().map(usize::to_string).collect();
    all.join(" or ")
}

/// Returns the padding of each of `n` axes.
fn paddings(value: &Static, n: usize) -> Result<Vec<Option<Padding>>, Fault> {
    if *value == Static::All {
        return Ok(vec![Some(Padding::Same); n]);
    }
    let both = |p: &i64| Some(Padding::Sides(*p, *p));
    match value.ints() {
        None => Ok(vec![None; n]),
        Some([one]) => Ok(vec![both(one); n]),
        Some(all) if all.len() == n => Ok(all.iter().map(both).collect()),
        Some(all) if all.len() == 2 * n => Ok(all
            .chunks(2)
            .map(|pair| Some(Padding::Sides(pair[0], pair[1])))
            .collect()),
        Some(all) => Err(Fault::Length {
            what: "the number of `padding`".into(),
            found: all.len().to_string(),
            expected: one_or(&[n, 2 * n]),
        }),
    }
}

/// Returns the static arguments for each of the last `n` of `rank` axes.
fn slides(
    [strides, padding, dilation]: [&Static; 3],
    n: usize,
    rank: usize,
) -> Result<Vec<Slide>, Fault> {
    let strides = each(strides, "strides", n)?;
    let padding = paddings(padding, n)?;
    let dilation = each(dilation, "dilation", n)?;
    let slide = |i| Slide {
        axis: rank - n + i,
        stride: strides[i],
        padding: padding[i],
        dilation: dilation[i],
    };
    Ok((0..n).map(slide).collect())
}

impl Slide {
    /// Returns the distance from the first element of a window to the last.
    fn reach(self, window: Dim) -> Option<Poly> {
        let steps = window.poly()?.minus(&Poly::constant(1))?;
        steps.times(&Poly::constant(self.dilation?.into()))
    }

    /// Returns the number of windows along an axis of this length.
    fn count(self, len: Dim, window: Dim) -> Result<Dim, Fault> {
        let (Some(stride), Some(padding)) = (self.stride, self.padding) else {
            return Ok(Dim::Unknown);
        };
        let stride = i128::from(stride);
        let (before, after) = match (padding, len.known()) {
            (Padding::Sides(before, after), _) => (before, after),
            (Padding::Same, _) if stride == 1 => return Ok(len),
            (Padding::Same, Some(len)) => return Ok(Dim::Known(len.div_ceil(stride as usize))),
            (Padding::Same, None) => {
                let count = len.poly().and_then(|len| len.exact_div(stride));
                return Ok(count.map_or(Dim::Unknown, Dim::from));
            }
        };
        let padding = Poly::constant(i128::from(before) + i128::from(after));
        let padded = len.poly().and_then(|len| len.plus(&padding));
        let (Some(padded), Some(reach)) = (padded, self.reach(window)) else {
            return Ok(Dim::Unknown);
        };
        // The last window starts here, at the latest.
        let last = padded
            .minus(&reach)
            .and_then(|p| p.minus(&Poly::constant(1)));
        let Some(last) = last else {
            return Ok(Dim::Unknown);
        };
        // An axis of length 0 may have no windows. If a longer one has none, that is a mistake.
        let has_none = match (last.as_constant(), len) {
            (Some(last), Dim::Known(0)) => last < -stride,
            (Some(last), _) => last < 0,
            (None, _) => last.is_negative(),
        };
        if has_none {
            let extent = reach.plus(&Poly::constant(1)).unwrap_or(reach);
            return Err(Fault::Length {
                what: format!("axis {} with its padding", self.axis),
                found: padded.to_string(),
                expected: format!("at least {extent}, the extent of a window"),
            });
        }
        let steps = match last.as_constant() {
            Some(last) => Some(Poly::constant(last.div_euclid(stride))),
            None => last.exact_div(stride),
        };
        let count = steps.and_then(|steps| steps.plus(&Poly::constant(1)));
        Ok(count.map_or(Dim::Unknown, Dim::from))
    }

    /// Returns the length of an axis along which there are `count` windows.
    ///
    /// Of the lengths with as many windows, this is the least.
    fn len(self, count: Dim, window: Dim) -> Result<Dim, Fault> {
        let (Some(stride), Some(padding)) = (self.stride, self.padding) else {
            return Ok(Dim::Unknown);
        };
        let stride = Poly::constant(stride.into());
        let stepped = |count: &Poly| count.times(&stride);
        let (before, after) = match padding {
            Padding::Sides(before, after) => (before, after),
            Padding::Same => {
                let len = count.poly().and_then(|count| stepped(&count));
                return Ok(len.map_or(Dim::Unknown, Dim::from));
            }
        };
        let (Some(count), Some(reach)) = (count.poly(), self.reach(window)) else {
            return Ok(Dim::Unknown);
        };
        let padding = i128::from(before) + i128::from(after);
        let len = count
            .minus(&Poly::constant(1))
            .and_then(|steps| stepped(&steps))
            .and_then(|last| last.plus(&reach))
            .and_then(|last| last.plus(&Poly::constant(1 - padding)));
        let Some(len) = len else {
            return Ok(Dim::Unknown);
        };
        if len.is_negative() {
            return Err(Fault::Length {
                what: format!("axis {} of the result", self.axis),
                found: len.to_string(),
                expected: "at least 0: the padding is too long".into(),
            });
        }
        // No window slides along such an axis, so the convolution would refuse it.
        if count == Poly::ZERO && len != Poly::ZERO {
            return Err(Fault::Length {
                what: format!("axis {} of the input", self.axis),
                found: "0".into(),
                expected: "at least 1".into(),
            });
        }
        Ok(Dim::from(len))
    }

    /// Returns the axis, given its length, and the length and the number of its windows.
    fn known(self, len: usize, window: usize, count: usize) -> WindowAxis {
        const CHECKED: &str = "the op takes these static arguments";
        let stride = self.stride.expect(CHECKED) as usize;
        let dilation = self.dilation.expect(CHECKED) as usize;
        let before = match self.padding.expect(CHECKED) {
            Padding::Sides(before, _) => before,
            Padding::Same => {
                let end =
                    count.saturating_sub(1) * stride + window.saturating_sub(1) * dilation + 1;
                (end.saturating_sub(len) / 2) as i64
            }
        };
        WindowAxis {
            len,
            count,
            window,
            stride,
            dilation,
            before,
        }
    }
}

/// Static argument of windows without gaps.
const DENSE: Static = Static::Int(1);

/// The static arguments of pooling.
pub(super) const POOL: [crate::StaticArg; 3] = [
    StaticKind::Window.named("window"),
    StaticKind::Strides.named("strides"),
    StaticKind::Padding.named("padding"),
];

/// The lengths of a window, and those of the value.
type WindowOf<'a> = (&'a [i64], &'a [Dim]);

/// Returns the lengths of a window, after a check that it has at most as many axes as `x`.
///
/// Returns `None` if the window or the rank is unknown.
fn window_of<'a>(
    value: &'a Static,
    name: &str,
    x: &'a Shape,
) -> Result<Option<WindowOf<'a>>, Fault> {
    let Some(window) = value.ints() else {
        return Ok(None);
    };
    let n = window.len();
    if n > MAX_AXES {
        return Err(Fault::Length {
            what: format!("the number of `{name}`"),
            found: n.to_string(),
            expected: format!("at most {MAX_AXES}"),
        });
    }
    match x.dims() {
        Some(dims) if n > dims.len() => Err(Fault::Rank {
            found: dims.len(),
            expected: format!("at least {n}, the number of `{name}`"),
        }),
        Some(dims) => Ok(Some((window, dims))),
        None => Ok(None),
    }
}

/// Returns a shape of the same rank with unknown lengths.
fn unknown(x: &Shape) -> Shape {
    Shape(x.dims().map(|dims| vec![Dim::Unknown; dims.len()].into()))
}

/// Returns the shape after pooling of `x` with the static arguments [`POOL`].
pub(super) fn pooled(statics: &[Static], x: &Shape) -> Result<Shape, Fault> {
    if let Some(padding) = statics[2].ints()
        && padding.iter().any(|p| *p < 0)
    {
        return Err(statics[2].refused("padding"));
    }
    let Some((window, dims)) = window_of(&statics[0], "window", x)? else {
        return Ok(unknown(x));
    };
    let mut shape = dims.to_vec();
    let statics = [&statics[1], &statics[2], &DENSE];
    for (slide, window) in slides(statics, window.len(), dims.len())?
        .into_iter()
        .zip(window)
    {
        let dim = &mut shape[slide.axis];
        *dim = slide.count(*dim, Dim::Known(*window as usize))?;
    }
    Ok(Shape::from(shape))
}

/// Returns the shape of `x` with its last axes longer by `factors`.
pub(super) fn upsampled(factors: &Static, x: &Shape) -> Result<Shape, Fault> {
    let Some((factors, dims)) = window_of(factors, "factors", x)? else {
        return Ok(unknown(x));
    };
    let (leading, last) = dims.split_at(dims.len() - factors.len());
    let longer = last.iter().zip(factors);
    let longer = longer.map(|(dim, factor)| times(*dim, Some(*factor as usize)));
    Ok(Shape(Some(leading.iter().copied().chain(longer).collect())))
}

/// Returns the axes along which the windows of a pooling op slide.
///
/// `x` is the shape before and `y` the shape after pooling.
pub fn pool_axes(statics: &[Static], x: &[usize], y: &[usize]) -> Vec<WindowAxis> {
    let window = statics[0].ints().unwrap_or_default();
    let slides = slides([&statics[1], &statics[2], &DENSE], window.len(), x.len());
    let slides = slides.unwrap_or_default().into_iter().zip(window);
    slides
        .map(|(slide, window)| slide.known(x[slide.axis], *window as usize, y[slide.axis]))
        .collect()
}

/// The static arguments of convolutions.
pub(super) const CONV: [crate::StaticArg; 4] = [
    StaticKind::Strides.named("strides"),
    StaticKind::Padding.named("padding"),
    StaticKind::Strides.named("dilation"),
    StaticKind::Count.named("groups"),
];

/// Returns the known dims of an input and of weights, which have the same rank.
fn conv_dims(input: &Shape, weights: &Shape) -> Result<Option<[Vec<Dim>; 2]>, Fault> {
    let known = [input, weights].map(Shape::dims);
    let Some(rank) = known.iter().flatten().map(|dims| dims.len()).next() else {
        return Ok(None);
    };
    for dims in known.iter().flatten() {
        if !(3..=2 + MAX_AXES).contains(&dims.len()) {
            return Err(Fault::Rank {
                found: dims.len(),
                expected: format!("from 3 to {}", 2 + MAX_AXES),
            });
        }
        if dims.len() != rank {
            return Err(Fault::Rank {
                found: dims.len(),
                expected: format!("{rank} for the weights, as for the input"),
            });
        }
    }
    let dims = known.map(|dims| dims.map_or_else(|| vec![Dim::Unknown; rank], <[Dim]>::to_vec));
    for (axis, len) in dims[1].iter().enumerate().skip(2) {
        if *len == Dim::Known(0) {
            return Err(Fault::Length {
                what: format!("axis {axis} of the weights"),
                found: "0".into(),
                expected: "at least 1".into(),
            });
        }
    }
    Ok(Some(dims))
}

/// Returns the number of groups, if it is known, after a check that it divides `channels`.
fn groups(value: &Static, channels: Dim) -> Result<Option<usize>, Fault> {
    let Some(groups) = value.int() else {
        return Ok(None);
    };
    if groups < 1 {
        return Err(Fault::Length {
            what: "`groups`".into(),
            found: groups.to_string(),
            expected: "at least 1".into(),
        });
    }
    let divides = |channels: Poly| !channels.is_never_multiple_of(groups.into());
    if !channels.poly().is_none_or(divides) {
        return Err(Fault::Length {
            what: "axis 0 of the weights".into(),
            found: channels.to_string(),
            expected: format!("a multiple of {groups}, the number of groups"),
        });
    }
    Ok(Some(groups as usize))
}

/// Returns the product of a length and a number.
fn times(len: Dim, n: Option<usize>) -> Dim {
    let product = || len.poly()?.times(&Poly::constant(n? as i128));
    product().map_or(Dim::Unknown, Dim::from)
}

/// Checks that an axis of the input has the number of channels that the weights need.
fn channels(found: Dim, expected: Dim) -> Result<(), Fault> {
    match found.differs(expected) {
        true => Err(Fault::Length {
            what: "axis 1 of the input".into(),
            found: found.to_string(),
            expected: format!("{expected}, the number of channels of the weights"),
        }),
        false => Ok(()),
    }
}

/// Returns the shape of the convolution of `x` with weights of shape `w`.
pub(super) fn convolved(statics: &[Static], x: &Shape, w: &Shape) -> Result<Shape, Fault> {
    let Some([x, w]) = conv_dims(x, w)? else {
        groups(&statics[3], Dim::Unknown)?;
        return Ok(Shape::UNKNOWN);
    };
    let n_groups = groups(&statics[3], w[0])?;
    channels(x[1], times(w[1], n_groups))?;
    let slides = slides(
        [&statics[0], &statics[1], &statics[2]],
        x.len() - 2,
        x.len(),
    )?;
    let counts = slides
        .into_iter()
        .map(|slide| slide.count(x[slide.axis], w[slide.axis]));
    let ends = [Ok(x[0]), Ok(w[0])].into_iter();
    Ok(Shape(Some(ends.chain(counts).collect::<Result<_, _>>()?)))
}

/// Returns the shape of the transposed convolution of `z` with weights of shape `w`.
pub(super) fn convolved_back(statics: &[Static], z: &Shape, w: &Shape) -> Result<Shape, Fault> {
    let Some([z, w]) = conv_dims(z, w)? else {
        groups(&statics[3], Dim::Unknown)?;
        return Ok(Shape::UNKNOWN);
    };
    let n_groups = groups(&statics[3], w[0])?;
    channels(z[1], w[0])?;
    let slides = slides(
        [&statics[0], &statics[1], &statics[2]],
        z.len() - 2,
        z.len(),
    )?;
    let lens = slides
        .into_iter()
        .map(|slide| slide.len(z[slide.axis], w[slide.axis]));
    let ends = [Ok(z[0]), Ok(times(w[1], n_groups))].into_iter();
    Ok(Shape(Some(ends.chain(lens).collect::<Result<_, _>>()?)))
}

/// Returns the axes along which the windows of a convolution of `x` to `z` with weights `w` slide.
pub fn conv_axes(statics: &[Static], x: &[usize], w: &[usize], z: &[usize]) -> Vec<WindowAxis> {
    let slides = slides(
        [&statics[0], &statics[1], &statics[2]],
        x.len() - 2,
        x.len(),
    );
    let axis = |slide: Slide| {
        let a = slide.axis;
        slide.known(x[a], w[a], z[a])
    };
    slides.unwrap_or_default().into_iter().map(axis).collect()
}

/// Returns the indices into `x`, `w` and `z` of each term of a convolution of `x` to `z`.
///
/// `shapes` are those of `x`, `w` and `z`.
pub(super) fn terms(of: &Application<'_>, shapes: [&[usize]; 3]) -> Vec<[Vec<usize>; 3]> {
    let [x, w, z] = shapes;
    let axes = conv_axes(of.statics, x, w, z);
    let per_group = w[0] / of.int(3) as usize;
    let mut all = Vec::new();
    for at in super::indices(z) {
        let group = at[1] / per_group.max(1);
        for inner in super::indices(&w[1..]) {
            let taps = axes.iter().zip(&at[2..]).zip(&inner[1..]);
            let positions: Option<Vec<usize>> = taps
                .map(|((axis, i), tap)| axis.position(*i, *tap))
                .collect();
            if let Some(positions) = positions {
                let channel = group * w[1] + inner[0];
                all.push([
                    [&[at[0], channel], &positions[..]].concat(),
                    [&[at[1]], &inner[..]].concat(),
                    at.clone(),
                ]);
            }
        }
    }
    all
}

/// Returns the indices into `x` of each window of a pooling op, by the index of the window.
///
/// The elements of a window are in row-major order, without those in the padding.
pub(super) fn windows(
    statics: &[Static],
    x: &[usize],
    y: &[usize],
) -> Vec<(Vec<usize>, Vec<Vec<usize>>)> {
    let axes = pool_axes(statics, x, y);
    let lens: Vec<usize> = axes.iter().map(|axis| axis.window).collect();
    let n_leading = x.len() - axes.len();
    let window = |at: Vec<usize>| {
        let element = |taps: Vec<usize>| {
            let along = axes.iter().zip(&at[n_leading..]).zip(taps);
            let positions: Option<Vec<usize>> = along
                .map(|((axis, i), tap)| axis.position(*i, tap))
                .collect();
            Some([&at[..n_leading], &positions?].concat())
        };
        let elements = super::indices(&lens).into_iter().filter_map(element);
        let elements = elements.collect();
        (at, elements)
    };
    super::indices(y).into_iter().map(window).collect()
}

/// Returns the axes along which the windows of `upsample_t` slide, from the shape `y` to `x`.
pub fn upsample_axes(factors: &Static, y: &[usize], x: &[usize]) -> Vec<WindowAxis> {
    let factors = factors.ints().unwrap_or_default();
    let first = y.len() - factors.len();
    let axis = |(i, factor): (usize, &i64)| WindowAxis {
        len: y[first + i],
        count: x[first + i],
        window: *factor as usize,
        stride: *factor as usize,
        ..WindowAxis::UNIT
    };
    factors.iter().enumerate().map(axis).collect()
}
