//! A case compared with its function.

use crate::case::{Case, Expected, Lanes};
use crate::function::{Derivatives, Function};
use gradloom::{Tensor, Vmap, jvp, tree, vjp};

/// The fields of a case, in the order of the table.
pub(crate) const FIELDS: [&str; 5] = ["out", "vjp", "jvp", "hvp", "vmap"];

/// Differences of one field of a case.
pub(crate) struct Report {
    /// Position in `FIELDS`.
    pub(crate) field: usize,
    /// A line for each difference.
    pub(crate) differences: Vec<String>,
}

pub(crate) type Tensors = Vec<Tensor>;

/// Values and derivatives of a function, by closures or by companions.
struct Derived<'a> {
    /// "closure" or "traced".
    world: &'static str,
    call: &'a dyn Fn(&Tensors) -> Tensors,
    /// Returns the cotangents of the differentiated inputs for inputs and cotangents.
    vjp: &'a dyn Fn(&Tensors, &Tensors) -> Tensors,
    /// Returns the tangents of the results for inputs and tangents.
    jvp: &'a dyn Fn(&Tensors, &Tensors) -> Tensors,
}

/// Compares the function with all fields of a case.
pub(crate) fn check(case: &Case, function: &Function) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    let plain = |x: &Tensors| (function.plain)(x);
    check_world(
        case,
        &Derived {
            world: "closure",
            call: &plain,
            vjp: &|x, ct| {
                vjp(with_inputs(case, x, &plain), &picked(case, x))
                    .1
                    .call(ct)
            },
            jvp: &|x, dx| jvp(with_inputs(case, x, &plain), &picked(case, x), dx).1,
        },
        &mut reports,
    );
    if let Some(traced) = &function.traced {
        let none = || panic!("the traced function has no differentiable argument");
        check_world(
            case,
            &Derived {
                world: "traced",
                call: &|x| (traced.call)(x),
                vjp: &|x, ct| {
                    traced
                        .derivatives
                        .map_or_else(none, |d| companion_vjp(case, &d, x, ct))
                },
                jvp: &|x, dx| {
                    traced
                        .derivatives
                        .map_or_else(none, |d| companion_jvp(case, &d, x, dx))
                },
            },
            &mut reports,
        );
        if let Some(lanes) = &case.lanes {
            note(&mut reports, 4, "traced companion vmap", || {
                let found = (traced.vmap)(&lanes.in_axes, &lanes.inputs);
                differences(&found, &lanes.outputs)
            });
        }
        if let (Some(d), Some((dx, result))) = (&traced.derivatives, &case.hvp)
            && let (Some(hvp), Some((cts, gradient))) = (d.hvp, &case.vjp)
        {
            note(&mut reports, 3, "traced companion hvp", || {
                let all = all_tangents(case, d, &case.inputs, dx);
                let (got, change) = hvp(&case.inputs, &cts[0], &all);
                let mut found = differences(&differentiated(case, d, got), gradient);
                found.extend(differences(&differentiated(case, d, change), result));
                found
            });
        }
    }
    reports
}

fn check_world(case: &Case, f: &Derived<'_>, reports: &mut Vec<Report>) {
    let x = &case.inputs;
    let mut note = |field: usize, what: &str, compared: &dyn Fn() -> Vec<String>| {
        note(reports, field, &format!("{} {what}", f.world), compared);
    };
    note(0, "outputs", &|| differences(&(f.call)(x), &case.outputs));
    if let Some((cts, grads)) = &case.vjp {
        note(1, "vjp", &|| differences(&(f.vjp)(x, cts), grads));
    }
    if let Some((dx, dy)) = &case.jvp {
        note(2, "jvp", &|| differences(&(f.jvp)(x, dx), dy));
    }
    if let (Some((cts, _)), Some((dx, result))) = (&case.vjp, &case.hvp) {
        let at = picked(case, x);
        let gradient = with_inputs(case, x, |x| (f.vjp)(x, cts));
        let slope = with_inputs(case, x, |x| inner(&(f.jvp)(x, dx), cts));
        note(3, "forward over reverse", &|| {
            differences(&jvp(&gradient, &at, dx).1, result)
        });
        note(3, "reverse over reverse", &|| {
            differences(&vjp(&gradient, &at).1.call(dx), result)
        });
        note(3, "reverse over forward", &|| {
            differences(&gradloom::grad(&slope)(&at), result)
        });
    }
    let Some(lanes) = &case.lanes else { return };
    let Lanes {
        in_axes,
        inputs,
        outputs,
        vjp,
    } = lanes;
    note(4, "vmap", &|| {
        let batched = Vmap::new(|x: &Tensors| (f.call)(x)).in_axes(&in_axes[..]);
        differences(&batched.call(inputs), outputs)
    });
    if let Some((cts, grads)) = vjp {
        note(4, "vmap of vjp", &|| {
            let gradient = |(x, ct): &(Tensors, Tensors)| (f.vjp)(x, ct);
            let batched = Vmap::new(gradient).in_axes((&in_axes[..], 0));
            differences(&batched.call(&(inputs.clone(), cts.clone())), grads)
        });
    }
}

/// Adds a report of the differences that `compared` returns, or of its panic.
fn note(
    reports: &mut Vec<Report>,
    field: usize,
    what: &str,
    compared: impl FnOnce() -> Vec<String>,
) {
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compared));
    let found = found.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        vec![format!("panic: {}", text.unwrap_or_default())]
    });
    let found = found.into_iter().map(|d| format!("{what}: {d}"));
    reports.push(Report {
        field,
        differences: found.collect(),
    });
}

pub(crate) fn differences(got: &[Tensor], expected: &[Expected]) -> Vec<String> {
    if got.len() != expected.len() {
        return vec![format!(
            "{} tensors, expected {}",
            got.len(),
            expected.len()
        )];
    }
    let pairs = got.iter().zip(expected).enumerate();
    pairs
        .filter_map(|(i, (got, want))| Some(format!("{i}: {}", want.difference(got)?)))
        .collect()
}

/// Returns the differentiated inputs.
pub(crate) fn picked(case: &Case, x: &Tensors) -> Tensors {
    case.diff.iter().map(|i| x[*i].clone()).collect()
}

/// Returns `f` as a function of the differentiated inputs.
pub(crate) fn with_inputs<Y>(
    case: &Case,
    x: &Tensors,
    f: impl Fn(&Tensors) -> Y,
) -> impl Fn(&Tensors) -> Y {
    move |part: &Tensors| {
        let mut all = x.clone();
        for (i, x) in case.diff.iter().zip(part) {
            all[*i] = x.clone();
        }
        f(&all)
    }
}

/// Returns the sum of the inner products of float tensors.
fn inner(a: &Tensors, b: &Tensors) -> Tensor {
    let floats = a.iter().zip(b).filter(|(a, _)| a.dtype().is_float());
    let (a, b): (Tensors, Tensors) = floats.map(|(a, b)| (a.clone(), b.clone())).unzip();
    tree::dot(&a, &b)
}

fn companion_vjp(case: &Case, d: &Derivatives, x: &Tensors, cts: &Tensors) -> Tensors {
    differentiated(case, d, (d.vjp)(x, cts).1)
}

fn companion_jvp(case: &Case, d: &Derivatives, x: &Tensors, dx: &Tensors) -> Tensors {
    (d.jvp)(x, &all_tangents(case, d, x, dx)).1
}

/// Returns the tangents of all arguments that a companion differentiates: zeros for those that the
/// case does not differentiate.
fn all_tangents(case: &Case, d: &Derivatives, x: &Tensors, dx: &Tensors) -> Tensors {
    let arguments = (0..x.len()).filter(|i| d.differentiable[*i]);
    arguments
        .map(|i| match case.diff.iter().position(|at| *at == i) {
            Some(at) => dx[at].clone(),
            None => x[i].zeros_like(),
        })
        .collect()
}

/// Returns what belongs to the arguments that the case differentiates.
fn differentiated(case: &Case, d: &Derivatives, all: Tensors) -> Tensors {
    let arguments = (0..d.differentiable.len()).filter(|i| d.differentiable[*i]);
    let mut by_argument = vec![None; d.differentiable.len()];
    for (i, x) in arguments.zip(all) {
        by_argument[i] = Some(x);
    }
    case.diff
        .iter()
        .map(|i| {
            by_argument[*i]
                .clone()
                .expect("the argument is not `#[nodiff]`")
        })
        .collect()
}
