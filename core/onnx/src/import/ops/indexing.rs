//! Ops that read and write elements at computed places.

use super::{Call, Fallible, Outputs, Table, all, iota, one};
use gradloom::{DType, Tensor};

pub(super) const OPS: Table = &[
    ("Gather", |c| {
        let (x, indices) = (c.x(0)?, indices(c, 1)?);
        one(x.take(indices, c.axis(0, x.rank())?))
    }),
    ("GatherElements", |c| {
        let (x, indices) = (c.x(0)?, indices(c, 1)?);
        let axis = c.axis(0, x.rank())?;
        let places = along(c, &x, &indices, axis)?;
        one(x.flatten().take(places, 0))
    }),
    ("GatherND", |c| {
        let (x, indices) = (c.x(0)?, indices(c, 1)?);
        let n_batch = c.lens(&[c.int("batch_dims", 0)?])?[0];
        let (places, n) = nd_places(c, &x, &indices, n_batch)?;
        let rest = &x.shape()[n..];
        let rows: usize = x.shape()[..n].iter().product();
        one(x.reshape([&[rows], rest].concat()).take(places, 0))
    }),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", |c| {
        let (x, indices, updates) = (c.x(0)?, indices(c, 1)?, c.x(2)?);
        let (places, n) = nd_places(c, &x, &indices, 0)?;
        let rest = &x.shape()[n..];
        if updates.shape() != [places.shape(), rest].concat() {
            return c.fault(format!(
                "has updates of {} for indices of {}",
                updates.aval(),
                indices.aval()
            ));
        }
        let rows: usize = x.shape()[..n].iter().product();
        let y = x.reshape([&[rows], rest].concat());
        one(scatter(c, &y, &places, &updates)?.reshape(x.shape()))
    }),
    ("OneHot", |c| {
        let (labels, depth, values) = (c.x(0)?.cast(DType::I64), c.x(1)?, c.x(2)?);
        let depth = c.read_floats(&depth)?.first().copied().unwrap_or(0.0);
        if depth < 1.0 || values.shape() != [2] {
            return c.fault(format!(
                "has the depth {depth} and the values {}",
                values.aval()
            ));
        }
        let depth = depth as usize;
        super::movement::made(c, &[labels.numel(), depth])?;
        let axis = c.axis(-1, labels.rank() + 1)?;
        let labels = labels
            .lt(0i64)
            .select(&labels + depth as i64, &labels)
            .unsqueeze(axis);
        let is_on = labels.eq(iota(axis, labels.rank(), depth, DType::I64));
        one(is_on.select(values.row(1), values.row(0)))
    }),
    ("Compress", |c| {
        let (x, condition) = (c.x(0)?, c.x(1)?);
        let (x, axis) = match c.int_or_none("axis")? {
            Some(axis) => (x.clone(), c.axis_of(axis, x.rank())?),
            None => (x.flatten(), 0),
        };
        let kept = c.read_ints(&condition)?;
        if kept.len() > x.shape()[axis] {
            return c.fault(format!(
                "has {} conditions for axis {axis} of {}",
                kept.len(),
                x.aval()
            ));
        }
        let places = (0i64..).zip(kept).filter(|(_, is_kept)| *is_kept != 0);
        one(x.take(
            Tensor::from(places.map(|(i, _)| i).collect::<Vec<i64>>()),
            axis,
        ))
    }),
    ("NonZero", |c| {
        let x = c.x(0)?;
        let is_set = if x.dtype() == DType::Bool {
            x.clone()
        } else {
            x.ne(0)
        };
        let is_set = c.read_ints(&is_set)?;
        let places: Vec<usize> = (0..is_set.len()).filter(|i| is_set[*i] != 0).collect();
        let mut columns = Vec::with_capacity(places.len() * x.rank());
        let mut after = x.numel();
        for len in x.shape() {
            after /= len.max(&1);
            columns.extend(
                places
                    .iter()
                    .map(|place| (place / after.max(1) % len) as i64),
            );
        }
        one(Tensor::from_vec(columns, [x.rank(), places.len()]))
    }),
    ("TensorScatter", |c| {
        let (x, updates) = (c.x(0)?, c.x(1)?);
        c.same_dtype(&[&x, &updates])?;
        let (axis, mode) = (c.axis(-2, x.rank())?, c.text("mode", "linear")?);
        c.one_of("mode", mode, &["linear", "circular"])?;
        if axis == 0 || updates.rank() != x.rank() {
            return c.fault(format!(
                "writes {} along axis {axis} of {}",
                updates.aval(),
                x.aval()
            ));
        }
        let rank = x.rank();
        let mut starts = Tensor::zeros(vec![1; rank], DType::I64);
        if let Some(given) = c.optional(2)? {
            let mut shape = vec![1; rank];
            shape[0] = given.numel();
            starts = given.cast(DType::I64).reshape(shape);
        }
        let mut places = starts + iota(axis, rank, updates.shape()[axis], DType::I64);
        if mode == "circular" {
            places = places.mod_floor(x.shape()[axis] as i64);
        }
        let indices: Vec<Tensor> = (0..rank)
            .map(|i| match i == axis {
                true => places.clone(),
                false => iota(i, rank, updates.shape()[i], DType::I64),
            })
            .collect();
        let places = flat(&indices, x.shape()).broadcast_to(updates.shape());
        one(x
            .flatten()
            .scatter_set(places.flatten(), updates.flatten(), 0)
            .reshape(x.shape()))
    }),
    ("Unique", unique),
    ("NonMaxSuppression", non_max_suppression),
];

fn indices(c: &Call<'_>, i: usize) -> Fallible<Tensor> {
    let x = c.x(i)?;
    match x.dtype().is_integer() {
        true => Ok(x.cast(DType::I64)),
        false => c.fault(format!("has the indices {}, expected integers", x.aval())),
    }
}

/// Returns the places of elements in a flat tensor, from an index for each axis. The place of an index out of range is
/// out of range, too.
pub(super) fn flat(indices: &[Tensor], lens: &[usize]) -> Tensor {
    let numel = lens.iter().product::<usize>() as i64;
    let mut place = Tensor::from(0i64);
    let mut is_inside = Tensor::from(true);
    for (i, len) in indices.iter().zip(lens) {
        let len = *len as i64;
        let i = i.lt(0i64).select(i + len, i);
        is_inside = is_inside.bit_and(i.ge(0i64).bit_and(i.lt(len)));
        place = place * len + i;
    }
    is_inside.select(&place, numel)
}

/// Returns the places of elements along an axis.
fn along(c: &Call<'_>, x: &Tensor, indices: &Tensor, axis: usize) -> Fallible<Tensor> {
    let rank = x.rank();
    let fits = indices.rank() == rank
        && (0..rank).all(|i| i == axis || indices.shape()[i] <= x.shape()[i]);
    if !fits {
        return c.fault(format!(
            "has the indices {} for axis {axis} of {}",
            indices.aval(),
            x.aval()
        ));
    }
    let all: Vec<Tensor> = (0..rank)
        .map(|i| match i == axis {
            true => indices.clone(),
            false => iota(i, rank, indices.shape()[i], DType::I64),
        })
        .collect();
    Ok(flat(&all, x.shape()))
}

/// Returns the places of slices, and the number of axes before a slice.
fn nd_places(
    c: &Call<'_>,
    x: &Tensor,
    indices: &Tensor,
    n_batch: usize,
) -> Fallible<(Tensor, usize)> {
    let depth = indices.shape().last().copied().unwrap_or(0);
    let n = n_batch + depth;
    let has_batch = n <= x.rank()
        && n_batch < indices.rank()
        && x.shape()[..n_batch] == indices.shape()[..n_batch];
    if depth == 0 || !has_batch {
        return c.fault(format!(
            "has the indices {} for {}",
            indices.aval(),
            x.aval()
        ));
    }
    let rank = indices.rank() - 1;
    let mut all: Vec<Tensor> = (0..n_batch)
        .map(|i| iota(i, rank, x.shape()[i], DType::I64))
        .collect();
    all.extend((0..depth).map(|i| indices.select_index(-1, i)));
    Ok((flat(&all, &x.shape()[..n]), n))
}

/// Returns `x` with updates of slices of its first axis.
fn scatter(c: &Call<'_>, x: &Tensor, places: &Tensor, updates: &Tensor) -> Fallible<Tensor> {
    c.same_dtype(&[x, updates])?;
    let reduction = c.text("reduction", "none")?;
    c.one_of(
        "reduction",
        reduction,
        &["none", "add", "mul", "max", "min"],
    )?;
    Ok(match reduction {
        "add" => x.scatter_add(places, updates, 0),
        "mul" => x.scatter_mul(places, updates, 0),
        "max" => x.scatter_max(places, updates, 0),
        "min" => x.scatter_min(places, updates, 0),
        _ => x.scatter_set(places, updates, 0),
    })
}

fn scatter_elements(c: &Call<'_>) -> Outputs {
    let (x, indices, updates) = (c.x(0)?, indices(c, 1)?, c.x(2)?);
    let axis = c.axis(0, x.rank())?;
    if updates.shape() != indices.shape() {
        return c.fault(format!(
            "has updates of {} for indices of {}",
            updates.aval(),
            indices.aval()
        ));
    }
    let places = along(c, &x, &indices, axis)?.flatten();
    one(scatter(c, &x.flatten(), &places, &updates.flatten())?.reshape(x.shape()))
}

/// Finds equal slices by their elements, which are read.
fn unique(c: &Call<'_>) -> Outputs {
    let (x, is_sorted) = (c.x(0)?, c.flag("sorted", true)?);
    let (x, axis) = match c.int_or_none("axis")? {
        Some(axis) => (x.clone(), c.axis_of(axis, x.rank())?),
        None => (x.flatten(), 0),
    };
    let n = x.shape()[axis];
    let elements = c.read_floats(&x.moveaxis(axis, 0))?;
    if !x.dtype().is_float() && elements.iter().any(|x| x.abs() > 2f64.powi(53)) {
        return c.unsupported("its integers are not exact in `f64`");
    }
    let rows: Vec<&[f64]> = elements
        .chunks(elements.len().max(1) / n.max(1))
        .take(n)
        .collect();
    let mut firsts: Vec<usize> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        if !firsts.iter().any(|first| rows[*first] == *row) {
            firsts.push(i);
        }
    }
    if is_sorted {
        firsts.sort_by(|a, b| {
            let pairs = rows[*a].iter().zip(rows[*b]);
            let orders = pairs.map(|(a, b)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
            orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
    }
    let place = |row: &&[f64]| firsts.iter().position(|first| rows[*first] == *row);
    // NaN equals nothing, itself included.
    let Some(inverse) = rows.iter().map(place).collect::<Option<Vec<usize>>>() else {
        return c.unsupported("an element is NaN");
    };
    let counts = (0..firsts.len()).map(|i| inverse.iter().filter(|place| **place == i).count());
    let [counts, places, inverse] =
        [counts.collect(), firsts, inverse].map(|all: Vec<usize>| super::ints(&all));
    let outputs = [x.take(&places, axis), places, inverse, counts];
    all(outputs.into_iter().take(c.n_outputs()))
}

/// Selects boxes in the order of their scores, except for those that overlap one before. All elements are read.
fn non_max_suppression(c: &Call<'_>) -> Outputs {
    let (boxes, scores, by_centre) = (c.x(0)?, c.x(1)?, c.flag("center_point_box", false)?);
    let limit = c.input_int(2)?.unwrap_or(0);
    let number = |i: usize| {
        c.input_floats(i)
            .map(|all| all.and_then(|all| all.first().copied()))
    };
    let (overlap, least) = (number(3)?.unwrap_or(0.0), number(4)?);
    let (&[batch, classes, n], true) = (scores.shape(), boxes.rank() == 3) else {
        return c.fault(format!(
            "has boxes {} and scores {}",
            boxes.aval(),
            scores.aval()
        ));
    };
    if boxes.shape() != [batch, n, 4] {
        return c.fault(format!(
            "has boxes {} and scores {}",
            boxes.aval(),
            scores.aval()
        ));
    }
    let (corners, all_scores) = (c.read_floats(&boxes)?, c.read_floats(&scores)?);
    // Low and high ends of both axes.
    let sides = |image: usize, i: usize| {
        let of = &corners[(image * n + i) * 4..][..4];
        let side = |a: f64, b: f64| {
            if by_centre {
                (a - b / 2.0, a + b / 2.0)
            } else {
                (a.min(b), a.max(b))
            }
        };
        [side(of[0], of[2]), side(of[1], of[3])]
    };
    let overlaps = |image: usize, i: usize, j: usize| {
        let (a, b) = (sides(image, i), sides(image, j));
        let area = |of: [(f64, f64); 2]| of.iter().map(|(low, high)| high - low).product::<f64>();
        let common = [0, 1].map(|k| (a[k].0.max(b[k].0), a[k].1.min(b[k].1)));
        let is_empty = common.iter().any(|(low, high)| high <= low);
        let shared = area(common);
        !is_empty && shared / (area(a) + area(b) - shared) > overlap
    };
    let mut found: Vec<i64> = Vec::new();
    for image in 0..batch {
        for class in 0..classes {
            let scores = &all_scores[(image * classes + class) * n..][..n];
            let mut order: Vec<usize> = (0..n)
                .filter(|i| least.is_none_or(|least| scores[*i] > least))
                .collect();
            order.sort_by(|i, j| scores[*j].total_cmp(&scores[*i]));
            let mut chosen: Vec<usize> = Vec::new();
            for i in order {
                if chosen.len() as i64 >= limit {
                    break;
                }
                if !chosen.iter().any(|j| overlaps(image, i, *j)) {
                    chosen.push(i);
                    found.extend([image, class, i].map(|n| n as i64));
                }
            }
        }
    }
    let rows = found.len() / 3;
    one(Tensor::from_vec(found, [rows, 3]))
}
