//! Computations that are measured: an op or a composition, on views of its arguments, or a derivative of it.

use super::layout::Layout;
use super::template::{Template, lens};
use crate::bench::inputs::fill;
use gradloom::trace::{Program, run, trace};
use gradloom::{DType, Result, Tensor, evaluate, jvp, vjp};
use gradloom_ir::op::Laws;
use gradloom_ir::{Aval, Var};
use std::collections::HashMap;
use std::rc::Rc;

/// Function of tensors.
type Function = Rc<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

/// Dtype and shape of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Dtype of the elements.
    pub dtype: DType,
    /// Lengths of the axes.
    pub shape: Vec<usize>,
    /// What is read of it.
    pub reads: Reads,
}

/// What is read of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The elements.
    Elements,
    /// Only dtype and shape.
    Shape,
}

impl Argument {
    /// Returns an argument whose elements are read.
    pub fn new(dtype: DType, shape: Vec<usize>) -> Argument {
        let reads = Reads::Elements;
        Argument {
            dtype,
            shape,
            reads,
        }
    }

    /// Returns the argument with a known dtype and shape.
    fn of(aval: &Aval, reads: Reads) -> Argument {
        let dtype = aval
            .dtype
            .expect("programs that are measured have known dtypes");
        Argument {
            reads,
            ..Argument::new(dtype, lens(aval))
        }
    }

    /// Returns whether the elements are read.
    pub fn is_read(&self) -> bool {
        self.reads == Reads::Elements
    }
}

/// Computation of tensors.
#[derive(Clone)]
pub struct Formula {
    /// Name of the op or the composition.
    pub name: String,
    /// Name of the axis along which it works, or `-`.
    pub axis: &'static str,
    /// Position among the samples of the op.
    pub sample: usize,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
    /// Interval of the elements of float arguments.
    pub domain: (f64, f64),
    /// Whether float arguments are matrices that dominate by their diagonals.
    pub dominant: bool,
    function: Function,
}

/// What is computed of a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transform {
    /// The results.
    Forward,
    /// The tangents of the results, from those of the arguments.
    Jvp,
    /// The cotangents of the arguments, from those of the results.
    Vjp,
}

impl Transform {
    /// All transforms.
    pub const ALL: [Transform; 3] = [Transform::Forward, Transform::Jvp, Transform::Vjp];

    /// Returns the name on the command line and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Transform::Forward => "forward",
            Transform::Jvp => "jvp",
            Transform::Vjp => "vjp",
        }
    }
}

/// Program of a formula, with what it is run on.
pub struct Recorded {
    /// The program.
    pub program: Program,
    /// Arguments of the program. The first ones are the bases of those of the formula.
    pub arguments: Vec<Argument>,
}

impl Formula {
    /// Returns the formula of a composition.
    pub fn new(
        name: &str,
        axis: &'static str,
        arguments: Vec<Argument>,
        function: fn(&[Tensor]) -> Vec<Tensor>,
    ) -> Formula {
        Formula {
            name: name.to_owned(),
            axis,
            sample: 0,
            arguments,
            domain: (-0.9, 0.9),
            dominant: false,
            function: Rc::new(move |args| Ok(function(args))),
        }
    }

    /// Returns the formula of an op.
    pub fn of_template(template: Template, sample: usize) -> Formula {
        let Template { program, axis } = template;
        let eqn = &program.eqns[0];
        let argument = |x: &Var| {
            let reads = match eqn.data().contains(x) {
                true => Reads::Elements,
                false => Reads::Shape,
            };
            Argument::of(program.aval(*x), reads)
        };
        let Laws {
            domain, dominant, ..
        } = eqn.op.def().laws();
        Formula {
            name: eqn.op.to_string(),
            axis,
            sample,
            arguments: program.params.iter().map(argument).collect(),
            domain,
            dominant,
            function: Rc::new(move |args| run(&program, args)),
        }
    }

    /// Returns the dtype of the first argument whose elements are read, or of the first one.
    pub fn dtype(&self) -> Option<DType> {
        let read = self.arguments.iter().find(|x| x.is_read());
        read.or(self.arguments.first()).map(|x| x.dtype)
    }

    /// Returns the shapes of the arguments, such as `64x32,32`.
    pub fn shapes(&self) -> String {
        let shape = |x: &Argument| {
            let lens: Vec<String> = x.shape.iter().map(usize::to_string).collect();
            lens.join("x")
        };
        let read = self.arguments.iter().filter(|x| x.is_read());
        read.map(shape).collect::<Vec<_>>().join(",")
    }

    /// Returns the program of a transform, with a layout for each argument.
    ///
    /// Returns `None` if an argument has too few axes for its layout, or if there is no derivative: no float argument
    /// is read, or a result is not a float.
    ///
    /// # Errors
    ///
    /// If an op does not accept its operands.
    pub fn recorded(&self, layouts: &[Layout], transform: Transform) -> Result<Option<Recorded>> {
        let bases = self.arguments.iter().zip(layouts).map(|(x, layout)| {
            Some(Argument {
                shape: layout.base(&x.shape)?,
                ..x.clone()
            })
        });
        let Some(mut arguments) = bases.collect::<Option<Vec<Argument>>>() else {
            return Ok(None);
        };
        let is_active = |x: &Argument| x.is_read() && x.dtype.is_float();
        let active: Vec<usize> = (0..self.arguments.len())
            .filter(|i| is_active(&self.arguments[*i]))
            .collect();
        let views = |bases: &[Tensor]| -> Vec<Tensor> {
            let each = bases.iter().zip(layouts).zip(&self.arguments);
            each.map(|((base, layout), x)| layout.view(base, &x.shape))
                .collect()
        };
        if transform != Transform::Forward {
            let forward = |args: &Vec<Tensor>| (self.function)(&views(args));
            let outs = trace(forward, &stand_ins(&arguments))?.outputs();
            if active.is_empty() || !outs.iter().all(|y| y.dtype().is_float()) {
                return Ok(None);
            }
            let like = |y: &gradloom::Aval| Argument::new(y.dtype(), y.shape().to_vec());
            match transform {
                Transform::Vjp => arguments.extend(outs.iter().map(like)),
                _ => arguments.extend(active.iter().map(|i| self.arguments[*i].clone())),
            }
        }
        let n = self.arguments.len();
        let whole = |args: &Vec<Tensor>| -> Result<Vec<Tensor>> {
            let (bases, changes) = args.split_at(n);
            let (all, changes) = (views(bases), changes.to_vec());
            let varied = |xs: &Vec<Tensor>| {
                let mut all = all.clone();
                active.iter().zip(xs).for_each(|(i, x)| all[*i] = x.clone());
                (self.function)(&all)
            };
            let xs: Vec<Tensor> = active.iter().map(|i| all[*i].clone()).collect();
            match transform {
                Transform::Forward => (self.function)(&all),
                Transform::Jvp => Ok(jvp(varied, &xs, &changes)?.1),
                Transform::Vjp => Ok(vjp(varied, &xs)?.1.call(&changes)),
            }
        };
        let traced = trace(whole, &stand_ins(&arguments))?;
        let program = traced.program().clone();
        // A value of which a view changed the shape, and of which only the shape is read.
        let of_shapes = program.params[arguments.len()..].iter();
        arguments.extend(of_shapes.map(|x| Argument::of(program.aval(*x), Reads::Shape)));
        Ok(Some(Recorded { program, arguments }))
    }

    /// Returns values for the arguments of a program. Cells with equal arguments share them.
    ///
    /// # Errors
    ///
    /// If memory runs out.
    pub fn values(&self, recorded: &Recorded, shared: &mut Values) -> Result<Vec<Tensor>> {
        let seeds = recorded.arguments.iter().zip(1..);
        let value = |(x, seed): (&Argument, u32)| {
            let bounds = [self.domain.0, self.domain.1].map(f64::to_bits);
            let key = (x.dtype, x.shape.clone(), bounds, self.dominant, seed);
            shared.get(key, || self.value(x, seed))
        };
        seeds.map(value).collect()
    }

    fn value(&self, x: &Argument, seed: u32) -> Tensor {
        let n: usize = x.shape.iter().product();
        match x.dtype {
            dtype if dtype.is_float() => {
                let (low, high) = self.domain;
                let half = (high - low) / 2.0;
                let spread = fill(seed, x.shape.clone(), 1.0);
                let moved = spread * half + (low + half);
                match (self.dominant, &x.shape[..]) {
                    (true, [.., rows, columns]) if rows == columns => {
                        let rising: Vec<f32> = (0..*rows).map(|i| 4.0 + i as f32 / 2.0).collect();
                        moved / *rows as f64 + Tensor::from(rising).diag(0)
                    }
                    _ => moved,
                }
                .cast(dtype)
            }
            DType::Bool => {
                let bits = (0..n).map(|i| (i + seed as usize).is_multiple_of(2));
                Tensor::from_vec(bits.collect::<Vec<bool>>(), &x.shape[..])
            }
            // Small enough for an index, and not 0, by which an integer is not divided.
            dtype => {
                let integers = (0..n).map(|i| 1 + (i * 7 + seed as usize) as i64 % 2);
                Tensor::from_vec(integers.collect::<Vec<i64>>(), &x.shape[..]).cast(dtype)
            }
        }
    }
}

/// Dtype, shape, interval, dominance and seed of a value.
type ValueKey = (DType, Vec<usize>, [u64; 2], bool, u32);

/// Values of arguments, kept for other cells.
#[derive(Default)]
pub struct Values {
    kept: HashMap<ValueKey, Tensor>,
    bytes: usize,
}

impl Values {
    /// Bytes of values that are kept.
    const MOST_BYTES: usize = 768 << 20;

    fn get(&mut self, key: ValueKey, make: impl FnOnce() -> Tensor) -> Result<Tensor> {
        if let Some(value) = self.kept.get(&key) {
            return Ok(value.clone());
        }
        let value = make();
        evaluate(&value)?;
        self.bytes += value.numel() * value.dtype().size();
        if self.bytes > Values::MOST_BYTES {
            self.kept.clear();
            self.bytes = 0;
        }
        self.kept.insert(key, value.clone());
        Ok(value)
    }
}

/// Returns promises with the dtypes and shapes of arguments. Nothing computes them.
fn stand_ins(arguments: &[Argument]) -> Vec<Tensor> {
    let zeros = |x: &Argument| Tensor::zeros(x.shape.clone(), x.dtype);
    arguments.iter().map(zeros).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product() -> Formula {
        let argument = |shape: &[usize]| Argument::new(DType::F64, shape.to_vec());
        let arguments = vec![argument(&[2, 3]), argument(&[3, 4])];
        Formula::new("product", "-", arguments, |x| vec![x[0].matmul(&x[1])])
    }

    #[test]
    fn a_program_has_the_changes_of_its_transform_as_arguments() {
        let shapes = |transform: Transform| {
            let layouts = [Layout::Transposed, Layout::Contiguous];
            let recorded = product().recorded(&layouts, transform).unwrap().unwrap();
            let read = recorded.arguments.into_iter().filter(Argument::is_read);
            read.map(|x| x.shape).collect::<Vec<_>>()
        };
        assert_eq!(shapes(Transform::Forward), [vec![3, 2], vec![3, 4]]);
        assert_eq!(
            shapes(Transform::Jvp),
            [vec![3, 2], vec![3, 4], vec![2, 3], vec![3, 4]]
        );
        assert_eq!(shapes(Transform::Vjp), [vec![3, 2], vec![3, 4], vec![2, 4]]);
    }

    #[test]
    fn a_layout_changes_no_result() {
        let results = |layout: Layout| {
            let recorded = product().recorded(&[layout, Layout::Contiguous], Transform::Forward);
            let recorded = recorded.unwrap().unwrap();
            let values = product().values(&recorded, &mut Values::default()).unwrap();
            run(&recorded.program, &values).unwrap()[0].shape().to_vec()
        };
        for layout in [Layout::Contiguous, Layout::Transposed, Layout::Strided] {
            assert_eq!(results(layout), [2, 4]);
        }
    }
}
