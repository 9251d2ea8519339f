//! Tests that ops refuse the right static arguments for operands of unknown shape.
//!
//! They refuse a static argument exactly if it is wrong for every shape of the operands, and with
//! the message that they give for one of these shapes.

use gradloom_ir::sharding::{Mesh, ShardingSpec};
use gradloom_ir::{Aval, DType, Dim, Fault, Op, Shape, Static, StaticKind};
use std::sync::Arc;

/// Returns values for a static argument of a kind, both valid and invalid.
fn values(kind: StaticKind) -> Vec<Static> {
    let list = |ns: &[i64]| Static::Ints(ns.to_vec());
    let lists: Vec<Static> = [
        &[][..],
        &[0],
        &[-1],
        &[0, 0],
        &[0, -1],
        &[1, -1],
        &[-1, -1],
        &[1, 0],
        &[0, 1, 2],
        &[2, 1, 1],
        &[2, 0, -2],
        &[3],
        &[-4],
        &[31, -1],
        &[31, -32],
        &[32],
        &[-33],
        &[40, 40],
        &[i64::MIN, i64::MAX],
    ]
    .map(list)
    .to_vec();
    let numbers = [0, 1, -1, 2, -3, 31, 32, -32, -33, i64::MAX, i64::MIN].map(Static::Int);
    let mut all = vec![
        Static::Float(0.5),
        Static::Float(1e300),
        Static::Float(u64::MAX as f64),
    ];
    all.extend([Static::Bool(true), Static::DType(DType::F32), Static::All]);
    match kind {
        StaticKind::Axes | StaticKind::UnitAxes | StaticKind::Permutation => {
            all.extend(lists);
            all.extend(numbers);
        }
        StaticKind::Margins => {
            all.extend(lists);
            all.extend(numbers);
        }
        StaticKind::Axis | StaticKind::Offset => {
            all.extend(numbers);
            all.push(list(&[0, 1]));
        }
        StaticKind::Flag | StaticKind::KnownFlag => {
            all.extend([Static::Bool(false), Static::Int(0)])
        }
        StaticKind::Shape | StaticKind::Reshape => {
            let shapes = [
                &[][..],
                &[2, 3],
                &[-1],
                &[2, -1],
                &[-1, -1],
                &[-2],
                &[0],
                &[0, -1],
                &[1; 33],
            ];
            all.extend(shapes.map(list));
            all.push(list(&[i64::MAX, 2]));
        }
        StaticKind::Starts | StaticKind::Stops | StaticKind::Steps => {
            let ends = [
                &[][..],
                &[0],
                &[1],
                &[2],
                &[-1],
                &[i64::MAX],
                &[i64::MIN],
                &[0, 0],
                &[1, 2],
                &[1; 33],
            ];
            all.extend(ends.map(list));
        }
        StaticKind::Sizes => {
            let sizes = [
                &[][..],
                &[1],
                &[1, 1],
                &[1, 2],
                &[-1, 3],
                &[0, 0],
                &[i64::MAX, i64::MAX],
            ];
            all.extend(sizes.map(list));
        }
        StaticKind::Window => {
            let windows = [
                &[][..],
                &[1],
                &[2],
                &[3],
                &[0],
                &[-1],
                &[1, 2],
                &[2, 1, 1],
                &[1; 4],
            ];
            all.extend(windows.map(list));
            all.extend([1, 2, 0].map(Static::Int));
        }
        StaticKind::Strides => {
            all.extend([&[][..], &[1], &[2], &[0], &[1, 2], &[1; 3]].map(list));
            all.extend([1, 3, -1].map(Static::Int));
        }
        StaticKind::Padding => {
            let padding = [
                &[][..],
                &[0],
                &[1],
                &[-1],
                &[0, 1],
                &[0, 1, 1, 0],
                &[i64::MAX],
            ];
            all.extend(padding.map(list));
            all.extend([0, 1].map(Static::Int));
        }
        StaticKind::Active => all.extend([&[][..], &[0], &[0, 1], &[1, 0], &[3], &[-1]].map(list)),
        StaticKind::DType => all.extend(DType::ALL.map(Static::DType)),
        // Some shape has an axis of length 3.
        StaticKind::Index => all.extend([-3, -1, 0, 2].map(Static::Int)),
        StaticKind::Count | StaticKind::KnownCount => {
            all.extend(numbers);
            all.push(list(&[0, 1]));
        }
        StaticKind::Epsilon | StaticKind::Number | StaticKind::Fill | StaticKind::Probability => {
            all.extend([0.0, -1.0, 2.0, f64::NAN].map(Static::Float))
        }
        StaticKind::Sharding => all.extend((0..4).map(spec)),
        StaticKind::Positions
        | StaticKind::Callee
        | StaticKind::Programs
        | StaticKind::Code
        | StaticKind::Mesh
        | StaticKind::Tilings
        | StaticKind::Reduce
        | StaticKind::Pairs
        | StaticKind::Specs => {
            unreachable!("only calls, collectives and ops that run programs have them")
        }
    }
    all
}

fn spec(rank: usize) -> Static {
    let mesh = Arc::new(Mesh::new("m", &[("x", 2)]).expect("a mesh"));
    ShardingSpec::replicated(&mesh, rank).into()
}

/// Returns all combinations of values of the static arguments, or a sample of up to 1500.
fn choices(op: Op) -> Vec<Vec<Static>> {
    let mut choices = vec![Vec::new()];
    for arg in op.def().statics() {
        let values = values(arg.kind);
        choices = choices
            .iter()
            .flat_map(|choice: &Vec<Static>| {
                values.iter().map(|value| {
                    let mut longer = choice.clone();
                    longer.push(value.clone());
                    longer
                })
            })
            .collect();
    }
    let every = choices.len().div_ceil(1500);
    choices.into_iter().step_by(every).collect()
}

/// Returns all shapes of rank up to 3 with lengths up to 3, and some longer or of high rank.
fn shapes() -> Vec<Vec<usize>> {
    let mut shapes: Vec<Vec<usize>> = vec![Vec::new()];
    let mut last = shapes.clone();
    for _ in 0..3 {
        last = last
            .iter()
            .flat_map(|shape| [0, 1, 2, 3].map(|len| [&shape[..], &[len]].concat()))
            .collect();
        shapes.extend(last.clone());
    }
    shapes.push(vec![6]);
    for (rank, len) in [30, 31, 32]
        .iter()
        .flat_map(|rank| [0, 1, 2, 3].map(|len| (*rank, len)))
    {
        let mut high = vec![1; rank];
        (high[0], high[rank - 1]) = (len, len);
        shapes.push(high);
    }
    shapes
}

/// The known part of the operand's shape.
#[derive(Clone, Copy, Debug)]
enum KnownPart {
    Nothing,
    Rank,
}

impl KnownPart {
    fn of(self, shape: &[usize]) -> Shape {
        match self {
            KnownPart::Nothing => Shape::UNKNOWN,
            KnownPart::Rank => vec![Dim::Unknown; shape.len()].into(),
        }
    }
}

/// Returns the number of operands to pass to an op that can be tested with one shape.
///
/// These are ops with one data operand, whose like operand is the same value, and ops that take
/// lists.
fn operands(op: Op) -> Option<usize> {
    use gradloom_ir::op::Operands;
    match op.def().operands() {
        Operands::Fixed(1, likes @ 0..=1) => Some(1 + likes),
        Operands::Many => Some(1),
        Operands::ManyLike => Some(2),
        _ => None,
    }
}

#[test]
fn static_arguments_are_refused_exactly_if_they_are_wrong_for_every_shape() {
    let shapes = shapes();
    let (mut n_refused, mut wrong) = (0, Vec::new());
    let transposes = [
        Op::CastT,
        Op::SumT,
        Op::MeanT,
        Op::ReshapeT,
        Op::SliceT,
        Op::SumPoolT,
        Op::UpsampleT,
        Op::DiagonalT,
        Op::PadZerosT,
        Op::SelectIndexT,
    ];
    for &op in Op::ALL.iter().filter(|op| !transposes.contains(op)) {
        let Some(n_args) = operands(op).filter(|_| !op.def().statics().is_empty()) else {
            continue;
        };
        let dtype = [DType::F64, DType::I64, DType::Bool];
        let dtype = dtype.into_iter().find(|d| {
            let x = Aval::new(*d, &[2]);
            let error = op.infer(&choices(op)[0], &vec![&x; n_args], 2).err();
            !error.is_some_and(|e| matches!(e.fault, Fault::DType { expected, .. } if !expected.contains("`dtype`")))
        });
        let dtype = dtype.expect("it takes a dtype");
        for statics in choices(op) {
            // No shape here has an axis of so many elements.
            let is_long = |s: &Static| {
                s.ints()
                    .is_some_and(|ns| ns.iter().any(|n| n.unsigned_abs() >= 31))
            };
            if matches!(op, Op::TopK | Op::TopKIndices | Op::Pad | Op::PadZeros)
                && statics.iter().any(is_long)
            {
                continue;
            }
            let n_outs = match (op, &statics[0]) {
                (Op::Split, Static::Ints(sizes)) => sizes.len(),
                (Op::Split | Op::Unbind, _) => 2,
                _ => 1,
            };
            let infer = |shape: Shape| {
                let x = Aval {
                    dtype: Some(dtype),
                    shape,
                };
                op.infer(&statics, &vec![&x; n_args], n_outs)
                    .map_err(|e| e.fault)
            };
            let real: Vec<(usize, Option<Fault>)> = shapes
                .iter()
                .map(|shape| (shape.len(), infer(shape[..].into()).err()))
                .collect();
            let mut check =
                |known: KnownPart, shape: &[usize], relevant: &dyn Fn(usize) -> bool| {
                    let of_rank = real.iter().filter(|(rank, _)| relevant(*rank));
                    let faults: Vec<&Option<Fault>> = of_rank.map(|(_, fault)| fault).collect();
                    let right = faults.iter().any(|fault| fault.is_none());
                    let case =
                        || format!("{op} with {statics:?}, of which {known:?} is known: {shape:?}");
                    match infer(known.of(shape)).err() {
                        None if right => {}
                        None => wrong.push(format!(
                            "{}: taken, and no shape is right: {:?}",
                            case(),
                            faults.last()
                        )),
                        Some(fault) => {
                            n_refused += 1;
                            if right {
                                wrong.push(format!(
                                    "{}: refused, and a shape is right: {fault}",
                                    case()
                                ));
                            }
                            let words = fault.to_string();
                            let said = faults
                                .iter()
                                .any(|f| f.as_ref().is_some_and(|f| f.to_string() == words));
                            // Messages show unknown lengths as `?`, so they may differ from those for
                            // known shapes.
                            let partly = words.contains('?') || words.contains("these elements");
                            if !said && !partly && !matches!(fault, Fault::Overflow { .. }) {
                                wrong.push(format!(
                                    "{}: no shape is refused in these words: {words}",
                                    case()
                                ));
                            }
                        }
                    }
                };
            check(KnownPart::Nothing, &[], &|_| true);
            for rank in [0, 1, 2, 3] {
                check(KnownPart::Rank, &vec![1; rank], &|r| r == rank);
            }
        }
    }
    let n = wrong.len();
    wrong.truncate(20);
    assert!(n == 0, "{n} wrong:\n{}", wrong.join("\n"));
    assert!(n_refused > 1000, "{n_refused}");
}
