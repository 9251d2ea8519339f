//! Programs of one op, made from the samples of the op table, and grown to a size.
//!
//! A sample, such as `(x: f64[2, 3]) { y = sum[axes=[1], keepdims=false] x, like x return y }`, tests the laws of its
//! op. Its lengths are small. A *class* is a set of axes that have to grow together: those that share a factor in the
//! signature of the op, or those that the shape rule accepts together. A length grows by a whole number, so that
//! lengths of which one is a multiple of another stay so.

use gradloom::DType;
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::op::{Diff, Operands};
use gradloom_ir::{Aval, Builder, Eqn, Op, Program, Static, StaticKind, Var};
use std::collections::{BTreeMap, BTreeSet};

/// Program of one equation.
#[derive(Clone, Debug)]
pub struct Template {
    /// The program. Dtypes and shapes of all parameters are known.
    pub program: Program,
    /// Name of the axis along which the op works, or `-`.
    pub axis: &'static str,
}

/// Axes that grow together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Class {
    /// Parameters and their axes.
    places: BTreeSet<(usize, usize)>,
    /// Positions of entries in static arguments: the argument, and the entry.
    entries: BTreeSet<(usize, usize)>,
}

/// Largest number of samples of an op that are measured.
const MAX_SAMPLES: usize = 4;

/// Factors by which lengths grow. The larger ones keep lengths multiples of vectors.
fn multipliers() -> impl DoubleEndedIterator<Item = usize> + Clone {
    let exact = [1, 2, 3, 4, 5, 6, 8, 10, 12];
    let even = |step: u32| (8..16).map(move |i| (i << step) as usize);
    exact.into_iter().chain((1..24).flat_map(even))
}

impl Template {
    /// Returns the op.
    pub fn op(&self) -> Op {
        self.eqn().op
    }

    /// Returns the only equation.
    pub fn eqn(&self) -> &Eqn {
        &self.program.eqns[0]
    }

    /// Returns the dtype of the first operand, or of the first result of an op that has none.
    pub fn dtype(&self) -> DType {
        let eqn = self.eqn();
        let first = eqn.args.first().unwrap_or(&eqn.outs[0]);
        let dtype = self.program.aval(*first).dtype;
        dtype.expect("samples have known dtypes")
    }

    /// Returns the bytes of all parameters that the op reads and of all results.
    pub fn bytes(&self) -> usize {
        let eqn = self.eqn();
        let read: BTreeSet<&Var> = eqn.data().iter().collect();
        let all = read.into_iter().chain(&eqn.outs);
        all.map(|var| bytes(self.program.aval(*var))).sum()
    }

    /// Returns the template with another dtype in place of its own, or `None` if the op does not take it.
    pub fn with_dtype(&self, dtype: DType) -> Option<Template> {
        let own = self.dtype();
        let other = |aval: &Aval| match aval.dtype == Some(own) {
            true => Aval {
                dtype: Some(dtype),
                ..aval.clone()
            },
            false => aval.clone(),
        };
        let avals: Vec<Aval> = self.params().map(other).collect();
        let converts = self.op().def().facts().converts();
        let statics = self.statics().map(|value| match value {
            // A conversion to its own dtype would be nothing.
            Static::DType(_) if converts && dtype == DType::F32 => Static::DType(DType::F64),
            Static::DType(_) if converts => Static::DType(DType::F32),
            Static::DType(of) if *of == own => Static::DType(dtype),
            other => other.clone(),
        });
        self.rebuilt(&avals, statics.collect())
    }

    /// Returns the template with the largest lengths for which operands and results have at most `bytes`.
    ///
    /// Returns the template itself if it has more, or if no length can grow.
    pub fn grown(&self, most: usize) -> Template {
        let classes = self.classes();
        let grown = |by: usize| self.times(&classes, by);
        let fits = |by: &usize| grown(*by).is_some_and(|t| t.bytes() <= most);
        let by = multipliers().take_while(fits).last();
        by.and_then(grown).unwrap_or_else(|| self.clone())
    }

    /// Returns whether an operand or a result has no elements.
    fn is_empty(&self) -> bool {
        let eqn = self.eqn();
        let all = eqn.args.iter().chain(&eqn.outs);
        all.map(|x| lens(self.program.aval(*x)))
            .any(|lens| lens.contains(&0))
    }

    /// Returns whether a length can grow.
    fn can_grow(&self) -> bool {
        !self.classes().is_empty()
    }

    fn params(&self) -> impl Iterator<Item = &Aval> {
        self.program.params.iter().map(|x| self.program.aval(*x))
    }

    fn statics(&self) -> impl Iterator<Item = &Static> {
        self.eqn().attrs.iter().map(|attr| self.program.attr(*attr))
    }

    fn param_of(&self, var: Var) -> usize {
        let at = self.program.params.iter().position(|x| *x == var);
        at.expect("operands of the only equation are parameters")
    }

    /// Returns the same equation on other parameters, if the op accepts them.
    fn rebuilt(&self, params: &[Aval], statics: Vec<Static>) -> Option<Template> {
        let eqn = self.eqn();
        let args: Vec<usize> = eqn.args.iter().map(|x| self.param_of(*x)).collect();
        let program = program(eqn.op, params, &args, statics, eqn.outs.len())?;
        let axis = self.axis;
        Some(Template { program, axis })
    }

    /// Returns the template with the lengths of the classes multiplied by `by`.
    fn times(&self, classes: &[Class], by: usize) -> Option<Template> {
        let mut shapes: Vec<Vec<usize>> = self.params().map(lens).collect();
        let mut statics: Vec<Static> = self.statics().cloned().collect();
        for class in classes {
            for &(param, axis) in &class.places {
                shapes[param][axis] = shapes[param][axis].checked_mul(by)?;
            }
            for &(arg, entry) in &class.entries {
                match &mut statics[arg] {
                    // An end of an axis, and a length to be inferred.
                    Static::Ints(all) if [i64::MAX, -1].contains(&all[entry]) => {}
                    Static::Ints(all) => {
                        all[entry] = all[entry].checked_mul(by as i64)?;
                    }
                    Static::Int(n) => *n = n.checked_mul(by as i64)?,
                    _ => {}
                }
            }
        }
        let avals = self.params().zip(&shapes).map(|(aval, shape)| {
            let dtype = aval.dtype.expect("samples have known dtypes");
            Aval::new(dtype, shape)
        });
        self.rebuilt(&avals.collect::<Vec<_>>(), statics)
    }

    /// Returns the classes of axes that can grow.
    fn classes(&self) -> Vec<Class> {
        let mut classes = self.shared_classes();
        let grows = |classes: &[Class]| {
            self.times(classes, 2)
                .is_some_and(|t| t.bytes() > self.bytes())
        };
        classes.retain(|class| grows(std::slice::from_ref(class)));
        let owners: Vec<usize> = self.eqn().args.iter().map(|x| self.param_of(*x)).collect();
        let free: Vec<(usize, usize)> = self.own_places(&classes);
        let alike = |(param, axis): (usize, usize)| {
            let len = lens(self.params().nth(param).expect("a parameter"))[axis];
            let same = |place: &&(usize, usize)| {
                lens(self.params().nth(place.0).expect("a parameter"))[place.1] == len
            };
            let places = free.iter().filter(same).copied().collect();
            Class {
                places,
                ..Class::default()
            }
        };
        let mut taken: BTreeSet<(usize, usize)> = BTreeSet::new();
        for &place in &free {
            let is_first = owners.first() == Some(&place.0);
            let together = alike(place);
            let is_shared = together.places.iter().any(|other| other.0 != place.0);
            if taken.contains(&place) || !is_first && !is_shared {
                continue;
            }
            let alone = Class {
                places: [place].into(),
                ..Class::default()
            };
            let scaled = |class: &Class| Class {
                entries: self.entries_of(place.1),
                ..class.clone()
            };
            let tries = match is_first {
                true => vec![scaled(&alone), alone, scaled(&together), together],
                false => vec![together],
            };
            let mut all = classes.clone();
            let fits = tries.into_iter().find(|class| {
                all.push(class.clone());
                let fits = class.places.is_disjoint(&taken) && grows(&all);
                all.pop();
                fits
            });
            if let Some(class) = fits {
                taken.extend(&class.places);
                classes.push(class);
            }
        }
        if classes.is_empty() {
            // All sizes at once: of operands and static arguments, or of these alone.
            let entries = self.size_entries();
            let tries = [free.into_iter().collect(), BTreeSet::new()];
            let all = tries.map(|places| Class {
                places,
                entries: entries.clone(),
            });
            classes.extend(
                all.into_iter()
                    .find(|class| grows(std::slice::from_ref(class))),
            );
        }
        classes
    }

    /// Returns the classes of axes with the same factor in the signature of the op.
    fn shared_classes(&self) -> Vec<Class> {
        let (eqn, statics) = (self.eqn(), self.statics().cloned().collect::<Vec<_>>());
        let args: Vec<&Aval> = eqn.args.iter().map(|x| self.program.aval(*x)).collect();
        let outs: Vec<_> = eqn
            .outs
            .iter()
            .map(|y| self.program.aval(*y).shape.clone())
            .collect();
        let Some(axes) = eqn.op.axes(&statics, &args, &outs) else {
            return Vec::new();
        };
        let mut classes: BTreeMap<usize, Class> = BTreeMap::new();
        for (x, axes) in eqn.args.iter().zip(axes.operands.iter().chain(&axes.likes)) {
            for (i, axis) in axes.iter().enumerate() {
                if let Some(factor) = axis.factor() {
                    let class = classes.entry(factor).or_default();
                    class.places.insert((self.param_of(*x), i));
                }
            }
        }
        for (i, axis) in axes.results.first().into_iter().flatten().enumerate() {
            if let Some(factor) = axis.factor() {
                let class = classes.entry(factor).or_default();
                class.entries.extend(self.lengths_at(i));
            }
        }
        let mut all: Vec<Class> = classes.into_values().collect();
        // A parameter that is two operands, or that is a like operand, may join classes.
        let mut i = 0;
        while i < all.len() {
            match (i + 1..all.len()).find(|j| !all[i].places.is_disjoint(&all[*j].places)) {
                Some(j) => {
                    let other = all.remove(j);
                    all[i].places.extend(other.places);
                    all[i].entries.extend(other.entries);
                }
                None => i += 1,
            }
        }
        all
    }

    /// Returns the axes with a length above 1 that are in no class, of operands whose values are read first.
    fn own_places(&self, classes: &[Class]) -> Vec<(usize, usize)> {
        let taken = |place: &(usize, usize)| classes.iter().any(|c| c.places.contains(place));
        let mut seen = BTreeSet::new();
        let params = self.eqn().args.iter().map(|x| self.param_of(*x));
        let params: Vec<usize> = params.filter(|param| seen.insert(*param)).collect();
        let places = params.into_iter().flat_map(|param| {
            let lens = lens(self.params().nth(param).expect("a parameter"));
            let long = (0..lens.len()).filter(move |axis| lens[*axis] > 1);
            long.map(move |axis| (param, axis))
        });
        places.filter(|place| !taken(place)).collect()
    }

    /// Returns the entries of lengths of the result at an axis.
    fn lengths_at(&self, axis: usize) -> Vec<(usize, usize)> {
        let is_length = |kind| matches!(kind, StaticKind::Shape | StaticKind::Reshape);
        self.entries(|kind, n| is_length(kind) && axis < n, axis)
    }

    /// Returns the entries that say which part of an axis of the first operand the result has.
    fn entries_of(&self, axis: usize) -> BTreeSet<(usize, usize)> {
        let by_axis = self.entries(
            |kind, n| {
                matches!(
                    kind,
                    StaticKind::Shape | StaticKind::Starts | StaticKind::Stops
                ) && axis < n
            },
            axis,
        );
        let sizes = self.size_entries_of(|kind| kind == StaticKind::Sizes);
        by_axis.into_iter().chain(sizes).collect()
    }

    /// Returns all entries that are sizes.
    fn size_entries(&self) -> BTreeSet<(usize, usize)> {
        self.size_entries_of(|kind| {
            matches!(
                kind,
                StaticKind::Shape
                    | StaticKind::Reshape
                    | StaticKind::Sizes
                    | StaticKind::Starts
                    | StaticKind::Stops
                    | StaticKind::Count
            )
        })
    }

    fn size_entries_of(&self, is_size: impl Fn(StaticKind) -> bool) -> BTreeSet<(usize, usize)> {
        let takes = self.op().def().statics().iter().enumerate();
        let takes = takes.filter(|(_, arg)| is_size(arg.kind));
        let values: Vec<&Static> = self.statics().collect();
        let entries = takes
            .flat_map(|(i, _)| (0..values[i].ints().map_or(0, <[_]>::len)).map(move |j| (i, j)));
        entries.collect()
    }

    /// Returns the entry at `axis` of each static argument that `takes` accepts, by kind and number of entries.
    fn entries(
        &self,
        takes: impl Fn(StaticKind, usize) -> bool,
        axis: usize,
    ) -> Vec<(usize, usize)> {
        let args = self
            .op()
            .def()
            .statics()
            .iter()
            .zip(self.statics())
            .enumerate();
        let fits =
            args.filter(|(_, (arg, value))| takes(arg.kind, value.ints().map_or(0, <[_]>::len)));
        fits.map(|(i, _)| (i, axis)).collect()
    }
}

/// Returns the program of one equation, or `None` if the op does not accept its operands.
fn program(
    op: Op,
    params: &[Aval],
    args: &[usize],
    statics: Vec<Static>,
    n_outs: usize,
) -> Option<Program> {
    let mut b = Builder::new();
    let vars: Vec<Var> = params.iter().map(|aval| b.param(aval.clone())).collect();
    let attrs: Vec<_> = statics.into_iter().map(|value| b.attr(value)).collect();
    let args: Vec<Var> = args.iter().map(|i| vars[*i]).collect();
    let avals: Vec<Aval> = args.iter().map(|x| b.aval(*x).clone()).collect();
    let values: Vec<Static> = attrs
        .iter()
        .map(|attr| b.static_of(*attr).clone())
        .collect();
    let outs = op
        .infer(&values, &avals.iter().collect::<Vec<_>>(), n_outs)
        .ok()?;
    if outs.len() != n_outs
        || outs
            .iter()
            .any(|y| y.dtype.is_none() || y.shape.known().is_none())
    {
        return None;
    }
    let outs = b.emit_many(op, &attrs, &args, n_outs);
    Some(b.finish(vars, outs))
}

/// Returns the known lengths of a value.
pub(super) fn lens(aval: &Aval) -> Vec<usize> {
    aval.shape.known().expect("samples have known shapes")
}

/// Returns the size of a value in bytes.
pub(super) fn bytes(aval: &Aval) -> usize {
    let size = aval.dtype.map_or(0, DType::size);
    lens(aval).iter().product::<usize>() * size
}

/// Templates of all ops.
pub struct Templates {
    /// For each op that only rules emit, the op and the derivative whose program has it.
    emitted: BTreeMap<Op, (Op, usize, Transform)>,
}

/// Derivative of a program as the rules of its ops make it.
#[derive(Clone, Copy, Debug)]
enum Transform {
    Jvp,
    Primal,
    Pullback,
}

impl Transform {
    const ALL: [Transform; 3] = [Transform::Pullback, Transform::Jvp, Transform::Primal];

    fn apply(self, program: &Program) -> Option<Program> {
        let is_float = |x: &&Var| program.aval(**x).dtype.is_some_and(DType::is_float);
        let wrt: Vec<Var> = program.params.iter().filter(is_float).copied().collect();
        let is_constant = matches!(program.eqns[0].op.def().diff(), Diff::Zero(_));
        if wrt.is_empty() || is_constant {
            return None;
        }
        Some(match self {
            Transform::Jvp => ad::jvp(program, &wrt, Calls::Joint).program,
            Transform::Primal => ad::vjp(program, &wrt).primal,
            Transform::Pullback => ad::vjp(program, &wrt).pullback,
        })
    }
}

impl Templates {
    /// Reads the op table.
    pub fn new() -> Templates {
        let mut emitted = BTreeMap::new();
        for &op in Op::ALL.iter().filter(|op| is_called(**op)) {
            for (i, template) in samples(op).iter().enumerate() {
                for transform in Transform::ALL {
                    let program = transform.apply(&template.program);
                    for eqn in program.iter().flat_map(|program| &program.eqns) {
                        emitted.entry(eqn.op).or_insert((op, i, transform));
                    }
                }
            }
        }
        Templates { emitted }
    }

    /// Returns the templates of an op with operands and results of about `bytes` in all, if it takes the dtype.
    ///
    /// An op that users do not call, and that is not elementwise, has the operands that the derivative of another op
    /// gives it.
    pub fn of(&self, op: Op, dtype: DType, bytes: usize) -> Vec<Template> {
        let is_own = is_called(op) || op.def().facts().elementwise;
        if let (false, Some((of, i, transform))) = (is_own, self.emitted.get(&op)) {
            let emitted = || {
                let from = samples(*of).swap_remove(*i);
                let grown = from.with_dtype(dtype)?.grown(bytes);
                isolated(&transform.apply(&grown.program)?, op)
            };
            return emitted().into_iter().collect();
        }
        let of_dtype = |template: &Template| match template.dtype() == dtype {
            true => Some(template.clone()),
            false => template.with_dtype(dtype),
        };
        let all = samples(op);
        let grown = all
            .iter()
            .filter_map(of_dtype)
            .map(|template| template.grown(bytes));
        // Samples may have differed in dtype alone.
        let mut seen = BTreeSet::new();
        grown
            .filter(|template| seen.insert(template.program.to_string()))
            .collect()
    }
}

impl Default for Templates {
    fn default() -> Templates {
        Templates::new()
    }
}

/// Returns whether users call the op.
fn is_called(op: Op) -> bool {
    !op.def().methods().is_empty()
}

/// Returns the program of the first equation of an op in a program, on parameters of its own.
fn isolated(program: &Program, op: Op) -> Option<Template> {
    let eqn = program.eqns.iter().find(|eqn| eqn.op == op)?;
    let mut params: Vec<Var> = Vec::new();
    for x in &eqn.args {
        if !params.contains(x) {
            params.push(*x);
        }
    }
    let avals: Vec<Aval> = params.iter().map(|x| program.aval(*x).clone()).collect();
    let args: Vec<usize> = eqn
        .args
        .iter()
        .filter_map(|x| params.iter().position(|y| y == x))
        .collect();
    let statics: Vec<Static> = eqn
        .attrs
        .iter()
        .map(|attr| program.attr(*attr).clone())
        .collect();
    let axis = axis_name(
        op,
        &statics,
        avals.first().map_or(0, |aval| lens(aval).len()),
    );
    let program = self::program(op, &avals, &args, statics, eqn.outs.len())?;
    Some(Template { program, axis })
}

/// Returns the samples of an op, without empty ones and those that only differ in what is not measured.
///
/// An op that works along axes has a sample for each place of its axes, if its operands have one shape.
fn samples(op: Op) -> Vec<Template> {
    let name = op.def().name();
    let own = op.def().laws().samples;
    let texts: Vec<String> = match (own.is_empty(), op.def().operands()) {
        (true, Operands::Fixed(1, 0)) => {
            vec![format!("(x: f64[2, 3]) {{ y = {name} x return y }}")]
        }
        (true, _) => vec![format!(
            "(x: f64[2, 3], y: f64[2, 3]) {{ z = {name} x, y return z }}"
        )],
        (false, _) => own.iter().map(|text| (*text).to_owned()).collect(),
    };
    let parsed = texts.iter().map(|text| {
        let program: Program = text.parse().expect("the laws of all ops parse");
        let first = program.eqns[0].args.first();
        let rank = first.map_or(0, |x| lens(program.aval(*x)).len());
        let statics: Vec<Static> = program.eqns[0]
            .attrs
            .iter()
            .map(|a| program.attr(*a).clone())
            .collect();
        let axis = axis_name(op, &statics, rank);
        Template { program, axis }
    });
    let fits = |template: &Template| !template.is_empty() && template.can_grow();
    let parsed: Vec<Template> = parsed.filter(fits).collect();
    let along: Vec<Template> = parsed.first().map_or(Vec::new(), along_each_axis);
    if !along.is_empty() {
        return along;
    }
    parsed.into_iter().take(MAX_SAMPLES).collect()
}

/// Returns a template for each place of the axes that an op works along, on operands of three axes.
///
/// There is none if the op takes no axes, or two, or operands of several shapes.
fn along_each_axis(template: &Template) -> Vec<Template> {
    const SHAPE: [usize; 3] = [2, 3, 4];
    let takes = template.op().def().statics();
    let is_axes = |kind: StaticKind| matches!(kind, StaticKind::Axis | StaticKind::Axes);
    let at: Vec<usize> = (0..takes.len())
        .filter(|i| is_axes(takes[*i].kind))
        .collect();
    let shapes: BTreeSet<Vec<usize>> = template.params().map(lens).collect();
    let ([at], 1) = (&at[..], shapes.len()) else {
        return Vec::new();
    };
    let avals: Vec<Aval> = template
        .params()
        .map(|aval| Aval::new(aval.dtype.expect("samples have known dtypes"), &SHAPE))
        .collect();
    let of_axes = |axes: Static| {
        let statics = template
            .statics()
            .enumerate()
            .map(|(i, value)| match takes[i].kind {
                _ if i == *at => axes.clone(),
                StaticKind::Sizes => Static::All,
                _ => value.clone(),
            });
        let statics: Vec<Static> = statics.collect();
        let axis = axis_name(template.op(), &statics, SHAPE.len());
        let grown = template.rebuilt(&avals, statics)?;
        Some(Template { axis, ..grown })
    };
    let one = |axis: i64| match takes[*at].kind {
        StaticKind::Axes => Static::Ints(vec![axis]),
        _ => Static::Int(axis),
    };
    let several = (takes[*at].kind == StaticKind::Axes).then(|| Static::Ints(vec![0, 2]));
    let all = (0..3).map(one).chain(several);
    all.filter_map(of_axes).filter(Template::can_grow).collect()
}

/// Returns the name of the place of the axes of an op, among `rank` axes of the first operand.
fn axis_name(op: Op, statics: &[Static], rank: usize) -> &'static str {
    let kinds = [StaticKind::Axes, StaticKind::Axis];
    let Some(at) = kinds.into_iter().find_map(|kind| op.static_at(kind)) else {
        return "-";
    };
    match statics[at].ints() {
        Some([axis]) => {
            // The result of `stack` has an axis more than the operand, so the axis may be before its first one.
            let axis = if *axis < 0 { axis + rank as i64 } else { *axis };
            match axis {
                _ if axis + 1 >= rank as i64 => "last",
                ..=0 => "first",
                _ => "middle",
            }
        }
        _ => "several",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool];

    #[test]
    fn every_op_has_a_template_and_all_but_those_of_one_number_grow() {
        let templates = Templates::new();
        let mut fixed = Vec::new();
        for &op in Op::ALL {
            let largest = |most: usize| {
                let all = DTYPES
                    .iter()
                    .flat_map(|dtype| templates.of(op, *dtype, most));
                all.map(|template| template.bytes()).max()
            };
            let few = largest(1 << 10);
            assert!(few.is_some(), "`{op}` has no template");
            if few >= largest(1 << 16) {
                fixed.push(op);
            }
        }
        assert_eq!(fixed, [Op::Scalar]);
    }

    #[test]
    fn templates_are_near_their_size() {
        let templates = Templates::new();
        for op in [
            Op::Add,
            Op::Sum,
            Op::Matmul,
            Op::Softmax,
            Op::Take,
            Op::Reshape,
        ] {
            for template in templates.of(op, DType::F32, 1 << 20) {
                let bytes = template.bytes();
                assert!(
                    (1 << 18..=1 << 20).contains(&bytes),
                    "{op}: {}",
                    template.program
                );
            }
        }
    }

    #[test]
    fn an_op_along_axes_has_a_template_for_each_place() {
        let names = |op: Op| {
            let all = Templates::new().of(op, DType::F32, 1 << 16);
            all.iter().map(|template| template.axis).collect::<Vec<_>>()
        };
        assert_eq!(names(Op::Sum), ["first", "middle", "last", "several"]);
        assert_eq!(names(Op::Softmax), ["first", "middle", "last"]);
    }

    #[test]
    fn an_op_that_rules_emit_has_operands_of_a_derivative() {
        let all = Templates::new().of(Op::SumT, DType::F32, 1 << 16);
        assert_eq!(all.iter().map(Template::op).collect::<Vec<_>>(), [Op::SumT]);
    }
}
