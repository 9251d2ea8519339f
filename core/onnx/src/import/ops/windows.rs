//! Convolutions, pooling and resampling.

use super::{Call, Fallible, Outputs, Table, all, as_lens, iota, one, part};
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("Conv", |c| {
        let (x, w) = c.pair()?;
        biased(c, convolved(c, &x, &w)?)
    }),
    ("ConvTranspose", conv_transpose),
    ("MaxPool", max_pool),
    ("AveragePool", |c| {
        let x = c.x(0)?;
        let window = Window::of(c, &x)?;
        let counts_pads = c.flag("count_include_pad", false)?;
        let ones = Tensor::ones([&[1, 1], &x.shape()[2..]].concat(), x.dtype());
        let n = match counts_pads {
            false => sums(&ones, &window),
            true => {
                let (inner, outer) = window.split();
                sums(&inner.padded(&ones, 1.0), &outer)
            }
        };
        one(sums(&x, &window) / n)
    }),
    ("LpPool", |c| {
        let x = c.x(0)?;
        let window = Window::of(c, &x)?;
        c.without_effect(&["count_include_pad"]); // zeros add nothing to the sum
        let p = c.int("p", 2)? as f64;
        one(sums(&x.abs().pow(p), &window).pow(1.0 / p))
    }),
    ("GlobalAveragePool", |c| {
        let x = c.x(0)?;
        rank(c, &x, None)?;
        one(x.mean_keepdims(2..x.rank()))
    }),
    ("GlobalMaxPool", |c| {
        let x = c.x(0)?;
        rank(c, &x, None)?;
        one(x.max_keepdims(2..x.rank()))
    }),
    ("GlobalLpPool", |c| {
        let x = c.x(0)?;
        rank(c, &x, None)?;
        let p = c.int("p", 2)? as f64;
        one(x.abs().pow(p).sum_keepdims(2..x.rank()).pow(1.0 / p))
    }),
    ("LRN", |c| {
        let (x, size) = (c.x(0)?, c.int("size", 0)?);
        let (alpha, beta, bias) = (
            c.float("alpha", 1e-4)?,
            c.float("beta", 0.75)?,
            c.float("bias", 1.0)?,
        );
        if size < 1 || x.rank() < 2 {
            return c.fault(format!("has the size {size} for {}", x.aval()));
        }
        let (mut low, mut high) = (vec![0; x.rank()], vec![0; x.rank()]);
        (low[1], high[1]) = ((size - 1) / 2, size / 2);
        let places = iota(0, 2, x.shape()[1], DType::I64) + iota(1, 2, size as usize, DType::I64);
        let sums = x.square().pad(low, high, 0, 0).take(places, 1).sum(2);
        one(&x / (sums * (alpha / size as f64) + bias).pow(beta))
    }),
    ("MaxUnpool", |c| {
        let (x, indices) = (c.x(0)?, c.x(1)?);
        let n = rank(c, &x, None)?;
        let [kernel, strides, pads] = ["kernel_shape", "strides", "pads"].map(|name| c.ints(name));
        let (Some(kernel), strides) = (kernel?, strides?.unwrap_or_else(|| vec![1; n])) else {
            return c.fault("has no attribute `kernel_shape`");
        };
        let pads = pads?.unwrap_or_else(|| vec![0; 2 * n]);
        if [kernel.len(), strides.len(), pads.len() / 2] != [n; 3] {
            return c.fault("has windows that do not fit its input");
        }
        let len = |i: usize| {
            (x.shape()[2 + i] as i64 - 1) * strides[i] + kernel[i] - pads[i] - pads[n + i]
        };
        let mut shape = x.shape()[..2].to_vec();
        shape.extend(c.lens(&(0..n).map(len).collect::<Vec<i64>>())?);
        let numel: usize = shape.iter().product();
        let zeros = Tensor::zeros([numel], x.dtype());
        let y = zeros
            .scatter_set(indices.flatten(), x.flatten(), 0)
            .reshape(&shape);
        one(match c.input_ints(2)? {
            Some(lens) if lens.len() == shape.len() => {
                let added = lens.iter().zip(&shape).map(|(to, from)| to - *from as i64);
                y.pad(0, added.collect::<Vec<i64>>(), 0, 0)
            }
            Some(lens) => {
                return c.fault(format!("has the output shape {lens:?} for {}", x.aval()));
            }
            None => y,
        })
    }),
    ("Col2Im", col2im),
    ("Resize", resize),
    ("Upsample", |c| {
        let (x, mode) = (c.x(0)?, c.text("mode", "nearest")?);
        c.one_of("mode", mode, &["nearest", "linear"])?;
        let scales = match c.floats("scales")? {
            Some(scales) => scales.into_iter().map(f64::from).collect(),
            None => c.input_floats(1)?.unwrap_or_default(),
        };
        if scales.len() != x.rank() || !scales.iter().all(|scale| *scale > 0.0) {
            return c.fault(format!("has the scales {scales:?} for {}", x.aval()));
        }
        let mut y = x.clone();
        for (axis, scale) in scales.into_iter().enumerate() {
            let to = (x.shape()[axis] as f64 * scale) as usize;
            let taps = |at: f64| match mode {
                "nearest" => vec![(at.floor() as i64, 1.0)],
                _ => vec![
                    (at.floor() as i64, 1.0 - at.fract()),
                    (at.floor() as i64 + 1, at.fract()),
                ],
            };
            y = resampled(&y, axis, (0..to).map(|i| taps(i as f64 / scale)).collect());
        }
        one(y)
    }),
    ("GridSample", grid_sample),
];

/// Returns the convolution with the attributes of a node.
pub(super) fn convolved(c: &Call<'_>, x: &Tensor, w: &Tensor) -> Fallible<Tensor> {
    let n = rank(c, x, Some(w))?;
    let window = Window::of_weights(c, x, w, n)?;
    let groups = c.int("group", 1)?;
    let padding = pairs(&window.low, &window.high);
    Ok(x.conv(w, window.strides, padding, window.dilations, groups))
}

/// Returns the number of axes after the channels.
fn rank(c: &Call<'_>, x: &Tensor, w: Option<&Tensor>) -> Fallible<usize> {
    match x.rank().checked_sub(2) {
        Some(n) if n > 0 && w.is_none_or(|w| w.rank() == x.rank()) => Ok(n),
        _ => c.fault(format!(
            "has {}, expected axes after those of the batch and the channels",
            x.aval()
        )),
    }
}

/// Returns numbers before and after each axis as pairs.
fn pairs(low: &[i64], high: &[i64]) -> Vec<i64> {
    low.iter()
        .zip(high)
        .flat_map(|(low, high)| [*low, *high])
        .collect()
}

/// Windows that slide along axes.
#[derive(Clone, Debug)]
struct Window {
    kernel: Vec<usize>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    low: Vec<i64>,
    high: Vec<i64>,
    /// Elements of `high` that only rounding up adds. They do not count in a mean.
    extra: Vec<i64>,
    /// Lengths of the result.
    lens: Vec<usize>,
}

impl Window {
    fn of(c: &Call<'_>, x: &Tensor) -> Fallible<Window> {
        let n = rank(c, x, None)?;
        match c.ints("kernel_shape")? {
            Some(kernel) if kernel.len() == n => Window::new(c, x, c.lens(&kernel)?),
            found => c.fault(format!("has the kernel shape {found:?} for {}", x.aval())),
        }
    }

    fn of_weights(c: &Call<'_>, x: &Tensor, w: &Tensor, n: usize) -> Fallible<Window> {
        let kernel = w.shape()[2..].to_vec();
        match c.ints("kernel_shape")? {
            Some(given) if as_lens(&given).as_ref() != Some(&kernel) => c.fault(format!(
                "has the kernel shape {given:?} for weights of {}",
                w.aval()
            )),
            _ if kernel.len() != n => {
                c.fault(format!("has weights of {} for {}", w.aval(), x.aval()))
            }
            _ => Window::new(c, x, kernel),
        }
    }

    fn new(c: &Call<'_>, x: &Tensor, kernel: Vec<usize>) -> Fallible<Window> {
        let n = kernel.len();
        let (strides, dilations) = (c.ints("strides")?, c.ints("dilations")?);
        let [strides, dilations] =
            [strides, dilations].map(|all| all.unwrap_or_else(|| vec![1; n]));
        let (auto, ceil) = (c.text("auto_pad", "NOTSET")?, c.flag("ceil_mode", false)?);
        c.one_of(
            "auto_pad",
            auto,
            &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"],
        )?;
        let pads = c
            .ints("pads")?
            .filter(|_| auto == "NOTSET")
            .unwrap_or_else(|| vec![0; 2 * n]);
        let is_positive =
            strides.iter().chain(&dilations).all(|n| *n > 0) && kernel.iter().all(|n| *n > 0);
        if [strides.len(), dilations.len(), pads.len()] != [n, n, 2 * n] || !is_positive {
            return c.fault(format!(
                "has the strides {strides:?}, dilations {dilations:?} and pads {pads:?} for windows of {kernel:?}"
            ));
        }
        let (mut low, mut high, mut lens) = (pads[..n].to_vec(), pads[n..].to_vec(), Vec::new());
        let mut extra = vec![0; n];
        for i in 0..n {
            let len = x.shape()[2 + i] as i64;
            let reach = (kernel[i] as i64 - 1) * dilations[i] + 1;
            if auto.starts_with("SAME") {
                let total = ((len - 1) / strides[i] * strides[i] + reach - len).max(0);
                let (less, more) = (total / 2, total - total / 2);
                (low[i], high[i]) = if auto == "SAME_UPPER" {
                    (less, more)
                } else {
                    (more, less)
                };
            }
            let free = len + low[i] + high[i] - reach;
            if free < 0 {
                return c.fault(format!("has windows of {kernel:?} for {}", x.aval()));
            }
            let mut steps = free / strides[i];
            if ceil && free % strides[i] > 0 && (steps + 1) * strides[i] < len + low[i] {
                steps += 1;
                extra[i] = steps * strides[i] - free;
                high[i] += extra[i];
            }
            lens.push(steps as usize + 1);
        }
        Ok(Window {
            kernel,
            strides,
            dilations,
            low,
            high,
            extra,
            lens,
        })
    }

    /// Returns the windows with the margins that count only, and with the others only.
    fn split(&self) -> (Window, Window) {
        let (mut inner, mut outer) = (self.clone(), self.clone());
        for i in 0..self.extra.len() {
            inner.high[i] -= self.extra[i];
            (outer.low[i], outer.high[i]) = (0, self.extra[i]);
        }
        (inner, outer)
    }

    /// Pooling ops take up to three axes of neighbours.
    fn is_plain(&self) -> bool {
        self.kernel.len() <= 3 && self.dilations.iter().all(|n| *n == 1)
    }

    fn padded(&self, x: &Tensor, value: f64) -> Tensor {
        let grow = |pads: &[i64]| [&[0, 0], pads].concat();
        match x.dtype() {
            DType::I32 if value < 0.0 => x.pad(grow(&self.low), grow(&self.high), 0, i32::MIN),
            DType::I64 if value < 0.0 => x.pad(grow(&self.low), grow(&self.high), 0, i64::MIN),
            _ if value == 0.0 => x.pad(grow(&self.low), grow(&self.high), 0, 0),
            _ => x.pad(grow(&self.low), grow(&self.high), 0, value),
        }
    }

    /// Returns the elements of each window of a padded tensor, along an additional last axis.
    fn elements(&self, padded: &Tensor) -> Tensor {
        let (n, mut y) = (self.kernel.len(), padded.clone());
        for i in 0..n {
            let starts = iota(0, 2, self.lens[i], DType::I64) * self.strides[i];
            let places = starts + iota(1, 2, self.kernel[i], DType::I64) * self.dilations[i];
            y = y.take(places, 2 + 2 * i);
        }
        let mut order: Vec<usize> = vec![0, 1];
        order.extend((0..n).map(|i| 2 + 2 * i));
        order.extend((0..n).map(|i| 3 + 2 * i));
        let size: usize = self.kernel.iter().product();
        y.permute(order)
            .reshape([&padded.shape()[..2], &self.lens, &[size]].concat())
    }
}

fn sums(x: &Tensor, window: &Window) -> Tensor {
    match window.is_plain() {
        true => x.sum_pool(
            &window.kernel,
            &window.strides,
            pairs(&window.low, &window.high),
        ),
        false => window.elements(&window.padded(x, 0.0)).sum(-1),
    }
}

fn max_pool(c: &Call<'_>) -> Outputs {
    let x = c.x(0)?;
    let window = Window::of(c, &x)?;
    let by_columns = c.flag("storage_order", false)?;
    if c.n_outputs() < 2 && window.is_plain() {
        return one(x.max_pool(
            &window.kernel,
            &window.strides,
            pairs(&window.low, &window.high),
        ));
    }
    let elements = window.elements(&window.padded(&x, f64::NEG_INFINITY));
    let best = elements.argmax_keepdims(-1);
    let y = elements.take_along_axis(&best, -1).squeeze(-1);
    // Places of the elements in the flat input; with `storage_order`, the first axis of an image is the fastest.
    let lens = &x.shape()[2..];
    let size: usize = lens.iter().product();
    let mut place = Tensor::from(0i64);
    let mut step = 1;
    let axes: Vec<usize> = if by_columns {
        (0..lens.len()).collect()
    } else {
        (0..lens.len()).rev().collect()
    };
    for i in axes {
        place += iota(2 + i, x.rank(), lens[i], DType::I64) * step;
        step *= lens[i];
    }
    let images = x.shape()[0] * x.shape()[1];
    let first = Tensor::arange(images, DType::I64) * size;
    let first = first.reshape([&x.shape()[..2], &vec![1; lens.len()]].concat());
    let places = window.elements(&window.padded(&(place + first), 0.0));
    all([y, places.take_along_axis(best, -1).squeeze(-1)]
        .into_iter()
        .take(c.n_outputs()))
}

/// Adds a bias for each channel.
fn biased(c: &Call<'_>, y: Tensor) -> Outputs {
    let Some(bias) = c.optional(2)? else {
        return one(y);
    };
    c.same_dtype(&[&y, &bias])?;
    if bias.shape() != [y.shape()[1]] {
        return c.fault(format!("has the bias {} for {}", bias.aval(), y.aval()));
    }
    let after: Vec<usize> = (1..y.rank() - 1).collect();
    one(y + bias.unsqueeze(after))
}

fn conv_transpose(c: &Call<'_>) -> Outputs {
    let (x, w) = c.pair()?;
    let n = rank(c, &x, Some(&w))?;
    let kernel = w.shape()[2..]
        .iter()
        .map(|len| *len as i64)
        .collect::<Vec<i64>>();
    if c.ints("kernel_shape")?.is_some_and(|given| given != kernel) {
        return c.fault(format!(
            "has another kernel shape than the weights {}",
            w.aval()
        ));
    }
    let list = |name: &str, default: i64, len: usize| -> Fallible<Vec<i64>> {
        let list = c.ints(name)?.unwrap_or_else(|| vec![default; len]);
        match list.len() == len {
            true => Ok(list),
            false => c.fault(format!("has {} `{name}`, expected {len}", list.len())),
        }
    };
    let (strides, dilations) = (list("strides", 1, n)?, list("dilations", 1, n)?);
    let (more, pads) = (list("output_padding", 0, n)?, list("pads", 0, 2 * n)?);
    let auto = c.text("auto_pad", "NOTSET")?;
    c.one_of(
        "auto_pad",
        auto,
        &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"],
    )?;
    let mut shape = c.ints("output_shape")?;
    if shape.is_none() && auto.starts_with("SAME") {
        shape = Some(
            (0..n)
                .map(|i| x.shape()[2 + i] as i64 * strides[i])
                .collect(),
        );
    }
    let (mut low, mut high) = (pads[..n].to_vec(), pads[n..].to_vec());
    for i in 0..n {
        if let Some(shape) = &shape {
            let Some(len) = shape.len().checked_sub(n).map(|first| shape[first + i]) else {
                return c.fault(format!(
                    "has the output shape {shape:?}, expected {n} lengths"
                ));
            };
            let full = (x.shape()[2 + i] as i64 - 1) * strides[i]
                + more[i]
                + (kernel[i] - 1) * dilations[i]
                + 1;
            let total = (full - len).max(0);
            let (less, most) = (total / 2, total - total / 2);
            (low[i], high[i]) = if auto == "SAME_UPPER" {
                (less, most)
            } else {
                (most, less)
            };
            high[i] += (full - len).min(0);
        }
        high[i] -= more[i];
    }
    let groups = c.int("group", 1)?;
    biased(
        c,
        x.conv_transpose(w, strides, pairs(&low, &high), dilations, groups),
    )
}

fn col2im(c: &Call<'_>) -> Outputs {
    let x = c.x(0)?;
    let (Some(image), Some(block)) = (c.input_ints(1)?, c.input_ints(2)?) else {
        return c.fault("has no image or block shape");
    };
    let (image, block, n) = (c.lens(&image)?, c.lens(&block)?, image.len());
    let list = |name: &str, default: i64, len: usize| -> Fallible<Vec<usize>> {
        c.lens(&c.ints(name)?.unwrap_or_else(|| vec![default; len]))
    };
    let (strides, dilations, pads) = (
        list("strides", 1, n)?,
        list("dilations", 1, n)?,
        list("pads", 0, 2 * n)?,
    );
    let size: usize = block.iter().product();
    let is_valid = [block.len(), strides.len(), dilations.len(), pads.len()] == [n, n, n, 2 * n];
    if !is_valid
        || x.rank() != 3
        || size == 0
        || !x.shape()[1].is_multiple_of(size)
        || strides.contains(&0)
    {
        return c.fault(format!(
            "has images {image:?} and blocks {block:?} for {}",
            x.aval()
        ));
    }
    let padded: Vec<usize> = (0..n).map(|i| image[i] + pads[i] + pads[n + i]).collect();
    super::movement::made(c, &padded)?;
    // Places in the padded image: of each element of a block, then of each block.
    let mut places = Tensor::zeros(vec![1; 2 * n], DType::I64);
    let mut lens = Vec::new();
    for i in 0..n {
        let Some(free) = padded[i].checked_sub((block[i].max(1) - 1) * dilations[i] + 1) else {
            return c.fault(format!("has blocks of {block:?} for images of {image:?}"));
        };
        lens.push(free / strides[i] + 1);
        let within = iota(i, 2 * n, block[i], DType::I64) * dilations[i];
        places = places * padded[i] + within + iota(n + i, 2 * n, lens[i], DType::I64) * strides[i];
    }
    let blocks: usize = lens.iter().product();
    if blocks != x.shape()[2] {
        return c.fault(format!("has {} blocks, expected {blocks}", x.shape()[2]));
    }
    let (batch, channels) = (x.shape()[0], x.shape()[1] / size);
    let zeros = Tensor::zeros([batch * channels, padded.iter().product()], x.dtype());
    let y = zeros.scatter_add(
        places.flatten(),
        x.reshape([batch * channels, size * blocks]),
        1,
    );
    let y = y.reshape([&[batch, channels][..], &padded].concat());
    let stops: Vec<usize> = (0..n).map(|i| pads[i] + image[i]).collect();
    one((0..n).fold(y, |y, i| part(&y, 2 + i, pads[i], stops[i])))
}

/// Returns weighted sums of elements along an axis, as places and weights of each result.
fn resampled(x: &Tensor, axis: usize, taps: Vec<Vec<(i64, f64)>>) -> Tensor {
    let (n, len) = (taps.len(), x.shape()[axis] as i64);
    let width = taps.first().map_or(0, Vec::len);
    let places = taps
        .iter()
        .flatten()
        .map(|(place, _)| (*place).clamp(0, len - 1));
    let places = Tensor::from_vec(places.collect::<Vec<i64>>(), [n, width]);
    if taps.iter().flatten().all(|(_, weight)| *weight == 1.0) && width == 1 {
        return x.take(places.flatten(), axis);
    }
    let mut shape = vec![1; x.rank() + 1];
    (shape[axis], shape[axis + 1]) = (n, width);
    let weights = taps.iter().flatten().map(|(_, weight)| *weight);
    let weights = Tensor::from_vec(weights.collect::<Vec<f64>>(), shape).cast(x.dtype());
    (x.take(places, axis) * weights).sum(axis + 1)
}

/// Weights of the neighbours of a place in cubic interpolation (Keys, 1981), at the distance `t` after the second.
fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance.abs();
    match x {
        _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => ((x - 5.0) * x + 8.0) * x * a - 4.0 * a,
        _ => 0.0,
    }
}

fn resize(c: &Call<'_>) -> Outputs {
    let x = c.x(0)?;
    let is_old = c.opset() < 11;
    let (mode, nearest) = (
        c.text("mode", "nearest")?,
        c.text("nearest_mode", "round_prefer_floor")?,
    );
    let default = if is_old { "asymmetric" } else { "half_pixel" };
    let transform = c.text("coordinate_transformation_mode", default)?;
    let policy = c.text("keep_aspect_ratio_policy", "stretch")?;
    c.one_of("mode", mode, &["nearest", "linear", "cubic"])?;
    c.one_of(
        "nearest_mode",
        nearest,
        &["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"],
    )?;
    c.one_of(
        "keep_aspect_ratio_policy",
        policy,
        &["stretch", "not_larger", "not_smaller"],
    )?;
    let transforms = [
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ];
    c.one_of("coordinate_transformation_mode", transform, &transforms)?;
    let nearest = if is_old { "floor" } else { nearest };
    let (smooth, a) = (
        c.flag("antialias", false)?,
        c.float("cubic_coeff_a", -0.75)?,
    );
    let (excludes, outside) = (
        c.flag("exclude_outside", false)?,
        c.float("extrapolation_value", 0.0)?,
    );
    let axes = c
        .ints("axes")?
        .unwrap_or_else(|| (0..x.rank() as i64).collect());
    let axes = c.axes_of(&axes, x.rank())?;
    let (roi, scales) = match is_old {
        true => (None, c.input_floats(1)?),
        false => (c.input_floats(1)?, c.input_floats(2)?),
    };
    let scales = scales.filter(|scales| !scales.is_empty());
    let sizes = c.input_ints(3)?.map(|sizes| c.lens(&sizes)).transpose()?;
    let roi = roi.filter(|roi| transform == "tf_crop_and_resize" && !roi.is_empty());
    let n = axes.len();
    let wrong = scales
        .as_ref()
        .is_some_and(|scales| scales.len() != n || !scales.iter().all(|s| *s > 0.0))
        || sizes.as_ref().is_some_and(|sizes| sizes.len() != n)
        || roi.as_ref().is_some_and(|roi| roi.len() != 2 * n)
        || scales.is_some() == sizes.is_some()
        || x.numel() == 0;
    if wrong {
        return c.fault(format!(
            "has the scales {scales:?} and sizes {sizes:?} for {n} axes of {}",
            x.aval()
        ));
    }
    if smooth && mode == "nearest" {
        return c.unsupported("its attribute `antialias` with the mode `nearest` is not");
    }
    let lens: Vec<f64> = axes.iter().map(|axis| x.shape()[*axis] as f64).collect();
    let mut by: Vec<f64> = match &sizes {
        Some(sizes) => sizes
            .iter()
            .zip(&lens)
            .map(|(size, len)| *size as f64 / len)
            .collect(),
        None => scales.unwrap_or_default(),
    };
    let mut to: Vec<usize> = match sizes {
        Some(sizes) => sizes,
        None => by
            .iter()
            .zip(&lens)
            .map(|(by, len)| (by * len).floor() as usize)
            .collect(),
    };
    if policy != "stretch" {
        let pick = if policy == "not_larger" {
            f64::min
        } else {
            f64::max
        };
        let scale = by.iter().copied().reduce(pick).unwrap_or(1.0);
        by = vec![scale; n];
        to = lens
            .iter()
            .map(|len| (scale * len + 0.5) as usize)
            .collect();
    }
    super::movement::made(c, &to)?;
    let (mut y, mut is_outside) = (x.clone(), None::<Tensor>);
    for (i, axis) in axes.iter().copied().enumerate() {
        let (len, by, to) = (lens[i], by[i], to[i]);
        let whole = by * len;
        let roi = roi.as_ref().map_or((0.0, 1.0), |roi| (roi[i], roi[n + i]));
        let source = |at: usize| {
            let at = at as f64;
            match transform {
                "align_corners" if whole == 1.0 => 0.0,
                "align_corners" => at * (len - 1.0) / (whole - 1.0),
                "asymmetric" => at / by,
                "pytorch_half_pixel" if whole == 1.0 => -0.5,
                "half_pixel_symmetric" => {
                    len / 2.0 * (1.0 - to as f64 / whole) + (at + 0.5) / by - 0.5
                }
                "tf_crop_and_resize" if whole == 1.0 => (roi.0 + roi.1) * (len - 1.0) / 2.0,
                "tf_crop_and_resize" => {
                    (at * (roi.1 - roi.0) / (whole - 1.0) + roi.0) * (len - 1.0)
                }
                _ => (at + 0.5) / by - 0.5,
            }
        };
        let places: Vec<f64> = (0..to).map(source).collect();
        if by == 1.0 && to == x.shape()[axis] && roi == (0.0, 1.0) {
            continue;
        }
        let taps = |at: &f64| {
            // The element before the place, which is itself only as the second of two equally near ones.
            let first = at.ceil() - 1.0;
            let t = at - first;
            let shrink = if smooth { by.min(1.0) } else { 1.0 };
            let around = |reach: f64, weight: &dyn Fn(f64) -> f64| {
                let start = (-reach / shrink).floor() + 1.0;
                let places = (0..(2.0 - 2.0 * start) as i64).map(|k| start + k as f64);
                places
                    .map(|place| ((first + place) as i64, weight((place - t) * shrink)))
                    .collect::<Vec<_>>()
            };
            let mut taps = match mode {
                "linear" => around(1.0, &|x| (1.0 - x.abs()).max(0.0)),
                "cubic" => around(2.0, &|x| cubic(x, a)),
                _ => {
                    let up = match nearest {
                        _ if t == 1.0 => true,
                        "round_prefer_floor" => t > 0.5,
                        "round_prefer_ceil" => t >= 0.5,
                        name => name == "ceil",
                    };
                    vec![(first as i64 + i64::from(up), 1.0)]
                }
            };
            if excludes {
                taps.iter_mut()
                    .filter(|(place, _)| !(0..len as i64).contains(place))
                    .for_each(|tap| tap.1 = 0.0);
            }
            if excludes || smooth {
                let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
                taps.iter_mut()
                    .for_each(|tap| tap.1 /= if sum == 0.0 { 1.0 } else { sum });
            }
            taps
        };
        y = resampled(&y, axis, places.iter().map(taps).collect());
        if transform == "tf_crop_and_resize" {
            let flags = places.iter().map(|at| *at < 0.0 || *at > len - 1.0);
            let mut shape = vec![1; x.rank()];
            shape[axis] = to;
            let flags = Tensor::from_vec(flags.collect::<Vec<bool>>(), shape);
            is_outside = Some(is_outside.map_or(flags.clone(), |other| other.bit_or(&flags)));
        }
    }
    one(match is_outside {
        Some(is_outside) => is_outside.select(outside, &y),
        None => y,
    })
}

fn grid_sample(c: &Call<'_>) -> Outputs {
    let (x, grid) = c.pair()?;
    let n = rank(c, &x, Some(&grid))?;
    let (mode, padding) = (c.text("mode", "linear")?, c.text("padding_mode", "zeros")?);
    c.one_of(
        "mode",
        mode,
        &["linear", "bilinear", "nearest", "cubic", "bicubic"],
    )?;
    c.one_of("padding_mode", padding, &["zeros", "border", "reflection"])?;
    let corners = c.flag("align_corners", false)?;
    if grid.shape()[n + 1] != n || grid.shape()[0] != x.shape()[0] {
        return c.fault(format!("has the grid {} for {}", grid.aval(), x.aval()));
    }
    // Reflects at the borders, which are at elements or between them.
    let reflected = |at: &Tensor, len: f64| {
        let (low, high) = if corners {
            (0.0, len - 1.0)
        } else {
            (-0.5, len - 0.5)
        };
        let span = high - low;
        if span == 0.0 {
            return at * 0.0;
        }
        let phase = (at - low).mod_floor(2.0 * span);
        let back = (&phase * -1.0) + 2.0 * span;
        phase.minimum(back) + low
    };
    // Indices with their weights, for each axis.
    let mut taps: Vec<Vec<(Tensor, Tensor)>> = Vec::new();
    for i in 0..n {
        let len = x.shape()[2 + i] as f64;
        let at = grid.select_index(-1, n - 1 - i);
        let mut at = match corners {
            true => (at + 1.0) * ((len - 1.0) / 2.0),
            false => ((at + 1.0) * len - 1.0) / 2.0,
        };
        if mode == "nearest" {
            at = at.round();
        }
        if !mode.ends_with("cubic") {
            at = match padding {
                "border" => at.clamp(0.0, len - 1.0),
                "reflection" => reflected(&at, len),
                _ => at,
            };
        }
        let first = at.floor();
        let t = &at - &first;
        let offsets = match mode {
            "nearest" => 0..1,
            "linear" | "bilinear" => 0..2,
            _ => -1..3,
        };
        let tap = |k: i64| {
            let weight = match mode {
                "nearest" => Tensor::ones_like(&t),
                "linear" | "bilinear" if k == 0 => &t * -1.0 + 1.0,
                "linear" | "bilinear" => t.clone(),
                _ => {
                    let (x, a) = ((&t - k as f64).abs(), -0.75);
                    match k {
                        0 | 1 => (&x * (a + 2.0) - (a + 3.0)) * x.square() + 1.0,
                        _ => ((&x - 5.0) * &x + 8.0) * &x * a - 4.0 * a,
                    }
                }
            };
            let place = &first + k as f64;
            match padding {
                "zeros" => {
                    let is_inside = place.ge(0.0).bit_and(place.le(len - 1.0));
                    (
                        place.clamp(0.0, len - 1.0),
                        weight * is_inside.cast(x.dtype()),
                    )
                }
                "reflection" => (reflected(&place, len).clamp(0.0, len - 1.0), weight),
                _ => (place.clamp(0.0, len - 1.0), weight),
            }
        };
        taps.push(offsets.map(tap).collect());
    }
    let points: usize = grid.shape()[1..=n].iter().product();
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    let flat = x.reshape([batch, channels, x.shape()[2..].iter().product()]);
    let mut combinations: Vec<(Option<Tensor>, Option<Tensor>)> = vec![(None, None)];
    for (i, taps) in taps.iter().enumerate() {
        let mut grown = Vec::with_capacity(combinations.len() * taps.len());
        for (place, weight) in &combinations {
            for (at, by) in taps {
                let at = at.cast(DType::I64);
                let place = place
                    .as_ref()
                    .map_or(at.clone(), |place| place * x.shape()[2 + i] as i64 + &at);
                let weight = weight.as_ref().map_or(by.clone(), |weight| weight * by);
                grown.push((Some(place), Some(weight)));
            }
        }
        combinations = grown;
    }
    let terms = combinations.into_iter().filter_map(|(place, weight)| {
        let place = place?
            .reshape([batch, 1, points])
            .broadcast_to([batch, channels, points]);
        Some(flat.take_along_axis(place, 2) * weight?.reshape([batch, 1, points]))
    });
    let shape = [&[batch, channels], &grid.shape()[1..=n]].concat();
    match terms.reduce(|x, y| x + y) {
        Some(y) => one(y.reshape(shape)),
        None => c.fault("has no axes"),
    }
}
