//! The op table. Each op has a file, whose `OP` holds its rules.
//!
//! To add an op, write its file and add its line to the list in `ops.rs`.
//!
//! An op first takes *data* operands, whose values it reads, and then *like* operands, of which it
//! reads only dtype and shape. A like operand has no tangent and keeps no buffer alive.
//!
//! A *linear* op is one that a `jvp` rule may apply to tangents, so it has a `transpose`. One law
//! makes every linear program transposable even if shapes are unknown: **no op broadcasts a linear
//! operand implicitly**. The operand has the shape of the result, or the op carries the shapes it
//! needs as like operands. These are *primal* values, because tangents do not exist in the
//! transposed program. `Builder::broadcast` broadcasts a tangent to the shape of a result.
//!
//! The rules are the methods of [`OpDef`]. Most ops are values of a class that implements it:
//! [`Unary`], [`Binary`], [`Many`], [`Compare`], [`Linear`], [`Bilinear`], [`Nonlinear`], [`Jacobian`] or
//! [`Factorization`].

mod axes;
pub mod call;
mod class;
pub mod collective;
pub mod control;
mod count;
mod def;
mod facts;
mod lanes;
mod linalg;
#[macro_use]
mod loops;
#[macro_use]
mod method;
mod nd_array;
mod pairs;
pub mod range;
mod rule;
mod threefry;
pub mod windows;

pub use axes::{Axes, AxesOf, AxesRule, Axis};
pub use class::{
    Bilinear, Binary, BinaryRule, BinaryTranspose, Bits, Compare, Factorization, InferRule,
    Jacobian, Linear, Many, ManyRule, Nonlinear, NonlinearRule, Test, Unary, UnaryRule, Update,
};
pub use collective::{CollectiveOp, Variance};
pub use control::Control;
pub use count::{Count, Ops};
pub(crate) use def::not_linear;
pub use def::{Diff, Eval, Laws, OpDef};
pub use facts::{AvalOf, Decompose, Equal, Fails, Linearity, OpFacts, Steep, SumOver, TermSign};
pub use lanes::{BatchRule, Batching, Lane, Lanes, apply};
pub use linalg::Form;
pub use loops::{
    BinaryFns, BinaryLoop, BitFns, CompareFns, CompareLoop, ManyFns, QuaternaryLoop, TernaryLoop,
    TestFns, TestLoop, UnaryFns, UnaryLoop,
};
pub use method::{Method, Param};
pub use nd_array::{Application, NdArray, evaluate, evaluate_with, indices};
pub use range::{OperandRanges, Range, RangeRule};
pub use rule::shape;
use rule::{active, special};

pub use crate::ops::{Kernel, Op, Operands};

use crate::{Aval, DType, Dim, Fault, MAX_RANK, OpError, Static, StaticKind};
use gradloom_maths::Plain;
use nd_array::truth;
use std::fmt;
use std::sync::OnceLock;

macro_rules! define_modules {
    (
        $d:tt
        unary { $($(#[$u_doc:meta])* $u_var:ident = $u_mod:ident,)* }
        binary { $($(#[$b_doc:meta])* $b_var:ident = $b_mod:ident,)* }
        compare { $($(#[$c_doc:meta])* $c_var:ident = $c_mod:ident,)* }
        kernel { $($(#[$k_doc:meta])* $k_var:ident = $k_mod:ident $(($k_methods:ident))?,)* }
        control { $($(#[$p_doc:meta])* $p_var:ident = $p_static:ident,)* }
        collective { $($(#[$s_doc:meta])* $s_var:ident = $s_mod:ident,)* }
        calls { $($(#[$f_doc:meta])* $f_var:ident = $f_static:ident,)* }
    ) => {
        $(mod $u_mod;)* $(mod $b_mod;)* $(mod $c_mod;)* $(mod $k_mod;)*

        /// The scalar functions of the elementwise ops: a module for each op.
        ///
        /// Each module has a function for each dtype.
        pub mod element {
            $($(#[$u_doc])* pub mod $u_mod { pub use super::super::$u_mod::element::*; })*
            $($(#[$b_doc])* pub mod $b_mod { pub use super::super::$b_mod::element::*; })*
            $($(#[$c_doc])* pub mod $c_mod { pub use super::super::$c_mod::element::*; })*
        }

        impl Op {
            /// Returns the rules of this op.
            pub fn def(self) -> &'static dyn OpDef {
                match self {
                    $(Op::$u_var => &$u_mod::OP,)*
                    $(Op::$b_var => &$b_mod::OP,)*
                    $(Op::$c_var => &$c_mod::OP,)*
                    $(Op::$k_var => &$k_mod::OP,)*
                    $(Op::$p_var => &control::$p_static,)*
                    $(Op::$s_var => &collective::$s_mod::OP,)*
                    $(Op::$f_var => &call::$f_static,)*
                }
            }

            /// Returns the rules that an op on the values of several devices has beside those of all ops.
            pub fn collective(self) -> Option<&'static CollectiveOp> {
                match self {
                    $(Op::$s_var => Some(&collective::$s_mod::OP),)*
                    _ => None,
                }
            }
        }

        impl Application<'_> {
            /// Returns the results by the definition of the op.
            ///
            /// Tests compare kernels with it. It is not a method of [`OpDef`], because the linker
            /// drops a function that nothing calls, but no entry of a table of functions.
            ///
            /// # Panics
            ///
            /// If the rules of the op refuse the operands, if it is a call, or if it needs the values of
            /// several devices.
            pub fn evaluate(&self) -> Vec<NdArray> {
                match self.op {
                    $(Op::$u_var => self.map($u_mod::element::f64::<Plain>),)*
                    $(Op::$b_var => self.zip($b_mod::element::f64::<Plain>),)*
                    $(Op::$c_var => self.zip(|x, y| truth($c_mod::element::f64::<Plain>(x, y))),)*
                    $(Op::$k_var => $k_mod::reference(self).into(),)*
                    $(Op::$p_var => control::$p_static.reference(self),)*
                    $(Op::$s_var => unreachable!("`shard_map` evaluates it on all devices"),)*
                    $(Op::$f_var => unreachable!("a call is evaluated by its callee"),)*
                }
            }
        }
    };
}

crate::ops::op_list!(define_modules);

impl Op {
    /// Returns the op with this name in the text form.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL
            .iter()
            .chain(Op::CONTROL)
            .chain(Op::COLLECTIVES)
            .chain(Op::CALLS)
            .copied()
            .find(|op| op.def().name() == name)
    }

    /// Returns the dtype of an elementwise op on `n` operands of one dtype and known shape.
    ///
    /// The shape of the result is then that of the operands. Returns `None` if the op is not
    /// elementwise or does not take such operands; [`Op::infer`] then returns the error.
    pub fn elementwise(self, n: usize, dtype: DType) -> Option<DType> {
        /// The number of operands and the result dtypes of each op, filled in on first use.
        static TABLE: [OnceLock<Row>; Op::ALL.len()] = [const { OnceLock::new() }; Op::ALL.len()];
        type Row = (usize, [Option<DType>; DType::ALL.len()]);
        let row = || {
            let n = match self.def().eval() {
                Eval::Unary(_) | Eval::Test(_) => 1,
                Eval::Bits(fns) => fns.n_operands(),
                Eval::Binary(_) | Eval::Compare(_) => 2,
                Eval::Many(_)
                | Eval::Kernel(_)
                | Eval::Control(_)
                | Eval::Collective
                | Eval::Call => {
                    return (0, Default::default());
                }
            };
            let dtypes = DType::ALL.map(|dtype| {
                let aval = Aval::new(dtype, &[1]);
                let outs = self.infer(&[], &[&aval; 2][..n], 1).ok()?;
                outs[0].dtype
            });
            (n, dtypes)
        };
        let (takes, dtypes) = TABLE.get(self as usize)?.get_or_init(row);
        (*takes == n && n > 0).then(|| dtypes[dtype as usize])?
    }

    /// Returns the dtype to which some operands of these dtypes are cast before the op, if they do not
    /// have it. The run time and the macro emit the casts.
    ///
    /// Operands of several dtypes are promoted by [`DType::promoted`]. As in NumPy, the sums and products
    /// of a `bool` or an integer of 8 bits are those of an `i64`, and the means of integers those of an
    /// `f64`.
    pub fn cast_to(self, dtypes: impl IntoIterator<Item = DType>) -> Option<DType> {
        let mut dtypes = dtypes.into_iter();
        let first = dtypes.next()?;
        match self {
            Op::Sum | Op::Prod | Op::Cumsum | Op::Cumprod => {
                let is_small = matches!(first, DType::Bool | DType::I8 | DType::U8);
                is_small.then_some(DType::I64)
            }
            Op::Mean | Op::Var | Op::Stddev => (!first.is_float()).then_some(DType::F64),
            _ => {
                let mut is_same = true;
                let dtype = dtypes.try_fold(first, |all, dtype| {
                    is_same &= dtype == first;
                    all.promoted(dtype)
                });
                dtype.filter(|_| !is_same)
            }
        }
    }

    /// Returns the positions of the data operands that [`cast_to`](Op::cast_to) is about.
    ///
    /// `n_data` is the number of data operands.
    pub fn promotes(self, n_data: usize) -> std::ops::Range<usize> {
        match (self, self.def().eval()) {
            (
                Op::Sum | Op::Prod | Op::Cumsum | Op::Cumprod | Op::Mean | Op::Var | Op::Stddev,
                _,
            ) => 0..1,
            (Op::Select, _) => 1..3,
            (Op::Matmul | Op::MatmulLhsT | Op::MatmulRhsT | Op::Recurrence, _) => 0..2,
            (Op::Concat | Op::Stack, _) => 0..n_data,
            (_, Eval::Binary(_) | Eval::Compare(_)) => 0..2,
            (_, Eval::Bits(fns)) if fns.n_operands() == 2 => 0..2,
            (_, Eval::Many(fns)) => 0..fns.n_operands(),
            _ => 0..0,
        }
    }

    /// Returns whether the results are elements of the operand, or one number, rearranged.
    pub fn is_view(self) -> bool {
        self.def().count() == Count::View
    }

    /// Returns whether the op is a call of another traced function.
    pub fn is_call(self) -> bool {
        matches!(self.def().eval(), Eval::Call)
    }

    /// Returns the ops that run programs, but for those that are only transposed, and those on host code.
    pub fn evaluated_control() -> impl Iterator<Item = &'static Op> + Clone {
        let others = |op: &&Op| **op != Op::CustomLin && !op.is_host_code();
        Op::CONTROL.iter().filter(others)
    }

    /// Returns whether the op refers to host code: a custom function, or a kernel of the user.
    pub fn is_host_code(self) -> bool {
        self.static_at(StaticKind::Code).is_some()
    }

    /// Returns the rules that an op that runs programs has beside those of all ops.
    pub fn control(self) -> Option<&'static dyn Control> {
        match self.def().eval() {
            Eval::Control(control) => Some(control),
            _ => None,
        }
    }

    /// Returns the position of the first static argument of a kind, if the op takes one.
    pub fn static_at(self, kind: StaticKind) -> Option<usize> {
        let args = self.def().statics();
        args.iter().position(|arg| arg.kind == kind)
    }

    /// Returns the name that users call the op by: its first method, or the method of a key.
    pub fn called(self) -> &'static str {
        let method = self.def().methods().first().map(|method| method.name);
        let name = self.def().name();
        method.unwrap_or(name.strip_prefix("random_").unwrap_or(name))
    }

    /// Returns the name of the method with these static arguments and `n_data` data operands.
    fn called_with(self, statics: &[Static], n_data: usize) -> &'static str {
        let calls = |method: &Method| {
            let mut statics = statics.iter();
            let mut data = 0;
            let mut fits = |param: &Param| match param {
                Param::Static => statics.next().is_some(),
                Param::Switch(on) => statics.next() == Some(&Static::Bool(*on)),
                Param::Number(n) => statics.next() == Some(&Static::Int(*n)),
                Param::All => statics.next() == Some(&Static::All),
                Param::Data | Param::DataLike => {
                    data += 1;
                    true
                }
                Param::Like | Param::List | Param::Count => true,
            };
            let lists = method.params.contains(&Param::List);
            method.params.iter().all(&mut fits) && (lists || data == n_data)
        };
        let methods = self.def().methods();
        let method = methods.into_iter().find(calls);
        method.map_or_else(|| self.called(), |method| method.name)
    }

    /// Returns the avals of the results, by the shape rule and the dtype rule.
    ///
    /// The macro and the runtime both infer avals through this function only.
    ///
    /// # Errors
    ///
    /// If the number of operands or static arguments is wrong, or a rule refuses them.
    pub fn infer(
        self,
        statics: &[Static],
        args: &[&Aval],
        n_outs: usize,
    ) -> Result<Vec<Aval>, OpError> {
        let def = self.def();
        let n_data = def.operands().n_data(args.len());
        let check = || {
            if !def.operands().fits(args.len()) {
                let lists = [Operands::Many, Operands::ManyLike].contains(&def.operands());
                return Err(Fault::Arity {
                    found: args.len(),
                    // A method that takes a list has no like operands, so do not mention them.
                    expected: match lists && args.is_empty() {
                        true => Operands::Many.to_string(),
                        false => def.operands().to_string(),
                    },
                });
            }
            if statics.len() != def.statics().len() {
                return Err(Fault::Arity {
                    found: statics.len(),
                    expected: format!("{} static arguments", def.statics().len()),
                });
            }
            let dtype = def.dtype(statics, args)?;
            for (arg, value) in def.statics().iter().zip(statics) {
                arg.check(value)?;
            }
            if let Eval::Control(control) = def.eval() {
                return control.infer(statics, args);
            }
            let shapes = def.shape(statics, args, n_outs)?;
            for shape in &shapes {
                shape::check_size(shape)?;
            }
            fits_some_rank(def, statics, args, n_outs)?;
            Ok(shapes
                .into_iter()
                .map(|shape| Aval { dtype, shape })
                .collect())
        };
        check().map_err(|fault| OpError {
            op: self,
            called: self.called_with(statics, n_data),
            args: args[..n_data.min(args.len())]
                .iter()
                .map(|a| (*a).clone())
                .collect(),
            fault,
        })
    }
}

/// Returns an error if static arguments are wrong for every rank of an operand of unknown rank.
///
/// Only the first such operand is considered. The error is one that the shape rule returns for some
/// rank.
fn fits_some_rank(
    def: &dyn OpDef,
    statics: &[Static],
    args: &[&Aval],
    n_outs: usize,
) -> Result<(), Fault> {
    let unknown = args.iter().position(|arg| arg.shape.dims().is_none());
    let Some(unknown) = unknown.filter(|_| statics.iter().any(|s| !s.is_host())) else {
        return Ok(());
    };
    let mut fault = None;
    for rank in 0..=MAX_RANK {
        let mut known = args[unknown].clone();
        known.shape = vec![Dim::Unknown; rank].into();
        let mut args = args.to_vec();
        args[unknown] = &known;
        let shapes = def.shape(statics, &args, n_outs);
        match shapes.and_then(|shapes| shapes.iter().try_for_each(shape::check_size)) {
            Ok(()) => return Ok(()),
            // Prefer errors that say more than that the rank is wrong.
            Err(Fault::Rank { .. } | Fault::TooManyAxes { .. }) if fault.is_some() => {}
            Err(found) => fault = Some(found),
        }
    }
    fault.map_or(Ok(()), Err)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.def().name())
    }
}
