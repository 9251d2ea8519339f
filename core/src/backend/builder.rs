//! Builder of plans: kernels use it to turn an equation into tasks.

use super::View;
use crate::Aval;
use gradloom_ir::hash::HashMap;
use gradloom_ir::op::Fails;
use gradloom_ir::{DType, Op, Static};
use gradloom_kernels::gemm::Batch;
use gradloom_kernels::memory::{Buffer, Layout, numel};
use gradloom_kernels::movement;
use gradloom_kernels::rows::row_kernel::{Fusable, RowKernel};
use gradloom_kernels::task::Prepared;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A plan under construction. Memory is assigned after all tasks are known.
pub(crate) struct TaskBuilder {
    pub(crate) storages: Vec<Storage>,
    pub(crate) constants: Vec<Buffer>,
    pub(crate) drafts: Vec<TaskDraft>,
    /// Op that is being planned.
    pub(crate) op: Op,
    /// Equations that are being planned, until a task takes them.
    pub(crate) eqns: Eqns,
    /// Op whose result on the same operands is also needed, so that the kernel may compute both.
    pub(crate) requested: Option<Op>,
    /// By-products that are ready, by op and root of the first operand.
    byproducts: HashMap<(Op, u32), Vec<Byproduct>>,
}

/// By-product: the result of one op, computed by the kernel of another.
struct Byproduct {
    of: Vec<Static>,
    args: Vec<View>,
    made: View,
}

/// Indices of equations in a program.
pub(crate) type Eqns = SmallVec<[u32; 4]>;

/// Operands of a task.
pub(crate) type Slices = SmallVec<[Slice; 4]>;

/// Roots of the results of a task.
pub(crate) type Roots = SmallVec<[u32; 2]>;

/// Unit of storage: elements that are computed together.
pub(crate) struct Storage {
    pub(crate) kind: StorageKind,
    pub(crate) dtype: DType,
    pub(crate) len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    Leaf(u32),
    Constant(u32),
    /// Result of a task.
    Made,
}

/// A task before its memory is assigned.
pub(crate) struct TaskDraft {
    pub(crate) work: TaskWork,
    pub(crate) args: Slices,
    pub(crate) outs: Roots,
    /// Description of the work.
    pub(crate) what: TaskKind,
    /// Operands in whose memory the task can compute.
    pub(crate) in_place: InPlace,
    /// True if the task may fail. It fails before it changes an operand in place.
    pub(crate) may_fail: bool,
    /// Equations that the task computes. The first of several tasks for one equation has it.
    pub(crate) eqns: Eqns,
    /// The product that the task computes, if a group can become its epilogue.
    pub(crate) product: Option<Arc<Batch>>,
    /// True if the result of a product may be left out when only its epilogue reads it.
    ///
    /// That result is the first of `outs`. `None` if the task is not a product with an epilogue.
    pub(crate) followed: Option<bool>,
}

/// Operands in whose memory a task can compute.
pub(crate) enum InPlace {
    None,
    /// A group: any of the first `results` results in the memory of any operand that is read in order.
    Group {
        results: usize,
        in_order: SmallVec<[bool; 8]>,
    },
    /// The result is the first operand, of which a part is changed.
    Update,
}

impl InPlace {
    /// Returns the number of the first results that can be in the memory of an operand.
    pub(crate) fn n_results(&self) -> usize {
        match self {
            InPlace::None => 0,
            InPlace::Group { results, .. } => *results,
            InPlace::Update => 1,
        }
    }

    /// Returns whether a result can be in the memory of an operand.
    pub(crate) fn takes(&self, arg: usize) -> bool {
        match self {
            InPlace::None => false,
            InPlace::Group { in_order, .. } => in_order[arg],
            InPlace::Update => arg == 0,
        }
    }
}

/// Computation of a task.
pub(crate) enum TaskWork {
    Whole(Prepared),
    /// Computes all rows at once, or a block of rows at a time.
    Fusable(Fusable),
    /// Several tasks that run in order on each block of rows.
    Chain(Vec<Member>),
}

/// Task of a chain.
pub(crate) struct Member {
    pub(crate) work: Fusable,
    pub(crate) args: Slices,
    pub(crate) outs: Roots,
}

/// Description of a task, for messages and explanations.
#[derive(Clone, Debug)]
pub(crate) enum TaskKind {
    Op(Op),
    /// Kernel of the user with this name.
    Host(String),
    /// Copy of an operand or a result of an op to row-major order.
    Copy(Op),
    /// Elementwise group with the sums over its members, possibly as the epilogue of a product.
    Group {
        after: Option<Op>,
        ops: Vec<Op>,
        /// Number of members that run in compiled loops of several ops.
        compiled: usize,
        /// Number of loops over a tile: the compiled ones, and one for each other member.
        loops: usize,
    },
    /// Several tasks that run on blocks of rows.
    Chain(Vec<TaskKind>),
    /// An op that runs programs, with the tasks of each.
    Control(Op, Vec<BodyKinds>),
}

/// Tasks of a program that an op runs.
#[derive(Clone, Debug)]
pub(crate) struct BodyKinds {
    /// What the op does with the program, such as `turn`.
    pub(crate) role: &'static str,
    pub(crate) tasks: Vec<TaskKind>,
}

/// Contiguous elements of a root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) root: u32,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

const ADDED: &str = "the task was added";

impl Default for TaskBuilder {
    fn default() -> TaskBuilder {
        TaskBuilder {
            storages: Vec::new(),
            constants: Vec::new(),
            drafts: Vec::new(),
            op: Op::Identity,
            eqns: Eqns::new(),
            requested: None,
            byproducts: HashMap::default(),
        }
    }
}

impl TaskBuilder {
    /// Returns all elements of a leaf as a vector.
    pub(crate) fn leaf(&mut self, index: u32, dtype: DType, len: usize) -> View {
        self.root(StorageKind::Leaf(index), dtype, &[len])
    }

    /// Returns a constant: one number, broadcast to `shape`.
    pub(crate) fn constant(&mut self, value: &Static, dtype: DType, shape: &[usize]) -> View {
        let index = self.constants.len() as u32;
        self.constants.push(Buffer::of_static(value, dtype));
        self.root(StorageKind::Constant(index), dtype, &[])
            .broadcast_to(shape)
    }

    /// Adds a kernel with one result.
    ///
    /// Operands must be contiguous; the kernel gets exactly their elements.
    pub(crate) fn kernel(&mut self, args: &[&View], out: &Aval, kernel: Prepared) -> View {
        self.kernels(args, std::slice::from_ref(out), kernel)
            .remove(0)
    }

    /// Adds a kernel whose result is the first operand with a part of it changed.
    ///
    /// Operands must be contiguous; the kernel gets exactly their elements. It gets [`Data::Same`] if
    /// nothing else needs the operand.
    ///
    /// [`Data::Same`]: gradloom_kernels::memory::Data::Same
    pub(crate) fn update(&mut self, args: &[&View], out: &Aval, kernel: Prepared) -> View {
        let place = self.kernel(args, out, kernel);
        let may_fail = !matches!(self.op.def().facts().fails, Fails::Never);
        let draft = self.drafts.last_mut().expect(ADDED);
        (draft.in_place, draft.may_fail) = (InPlace::Update, may_fail);
        place
    }

    /// Adds a kernel with several results.
    ///
    /// Operands must be contiguous; the kernel gets exactly their elements.
    pub(crate) fn kernels(&mut self, args: &[&View], outs: &[Aval], kernel: Prepared) -> Vec<View> {
        self.ordered(args, outs, TaskWork::Whole(kernel))
    }

    /// Adds a kernel that can run on blocks of rows.
    ///
    /// Operands must be contiguous; the kernel gets exactly their elements.
    pub(crate) fn by_row(&mut self, args: &[&View], outs: &[Aval], kernel: RowKernel) -> Vec<View> {
        self.ordered(args, outs, TaskWork::Fusable(Fusable::Rows(kernel)))
    }

    fn ordered(&mut self, args: &[&View], outs: &[Aval], work: TaskWork) -> Vec<View> {
        debug_assert!(args.iter().all(|x| x.layout.is_contiguous()));
        let args = args.iter().map(|x| self.part(x)).collect();
        self.task(TaskKind::Op(self.op), args, outs, work)
    }

    /// Adds the kernel of a product, which gets all elements of the root of each operand.
    ///
    /// A product that is `dense` may get a group as its epilogue.
    pub(crate) fn product(
        &mut self,
        args: &[&View],
        out: &Aval,
        kernel: Prepared,
        dense: Option<Arc<Batch>>,
    ) -> View {
        let place = self.strided_kernel(args, out, kernel);
        self.drafts.last_mut().expect(ADDED).product = dense;
        place
    }

    /// Adds a kernel with one result, which gets all elements of the root of each operand.
    pub(crate) fn strided_kernel(&mut self, args: &[&View], out: &Aval, kernel: Prepared) -> View {
        let outs = std::slice::from_ref(out);
        self.strided_kernels(args, outs, kernel).remove(0)
    }

    /// Adds a kernel with several results, which gets all elements of the root of each operand.
    pub(crate) fn strided_kernels(
        &mut self,
        args: &[&View],
        outs: &[Aval],
        kernel: Prepared,
    ) -> Vec<View> {
        let all = |x: &&View| Slice {
            root: x.root,
            start: 0,
            len: self.storages[x.root as usize].len,
        };
        let args = args.iter().map(all).collect();
        self.task(TaskKind::Op(self.op), args, outs, TaskWork::Whole(kernel))
    }

    /// Returns whether the result of `op` on the current operands is needed as well.
    pub(crate) fn wants_byproduct(&self, op: Op) -> bool {
        self.requested == Some(op)
    }

    /// Offers a by-product: `made`, the result of `op` with statics `of` on `args`.
    pub(crate) fn offer_byproduct(&mut self, op: Op, of: &[Static], args: &[View], made: &View) {
        let made_of_it = self.byproducts.entry((op, args[0].root)).or_default();
        made_of_it.push(Byproduct {
            of: of.to_vec(),
            args: args.to_vec(),
            made: made.clone(),
        });
    }

    /// Returns the by-product that equals `op` with statics `of` on `args`, if there is one.
    pub(crate) fn byproduct(&self, op: Op, of: &[Static], args: &[View]) -> Option<View> {
        let same = |a: &&Byproduct| a.of == of && a.args == args;
        let made_of_it = self.byproducts.get(&(op, args.first()?.root))?;
        made_of_it.iter().find(same).map(|a| a.made.clone())
    }

    /// Adds a task and returns its results.
    pub(crate) fn task(
        &mut self,
        what: TaskKind,
        args: Slices,
        outs: &[Aval],
        work: TaskWork,
    ) -> Vec<View> {
        let outs = outs.iter();
        let places: Vec<View> = outs
            .map(|out| self.root(StorageKind::Made, out.dtype(), out.shape()))
            .collect();
        let eqns = match what {
            TaskKind::Copy(_) => Eqns::new(),
            _ => std::mem::take(&mut self.eqns),
        };
        self.drafts.push(TaskDraft {
            work,
            eqns,
            args,
            outs: places.iter().map(|place| place.root).collect(),
            what,
            in_place: InPlace::None,
            may_fail: true,
            product: None,
            followed: None,
        });
        places
    }

    /// Adds a kernel that sums `totals` and overwrites them. No later task reads them.
    pub(crate) fn join(&mut self, totals: &View, out: &Aval, kernel: Prepared) -> View {
        let outs = std::slice::from_ref(out);
        let result = self
            .task(
                TaskKind::Op(self.op),
                Slices::new(),
                outs,
                TaskWork::Whole(kernel),
            )
            .remove(0);
        let draft = self.drafts.last_mut().expect(ADDED);
        draft.outs.insert(0, totals.root);
        result
    }

    /// Returns the same elements in row-major order, copied if necessary.
    pub(crate) fn contiguous(&mut self, x: &View) -> View {
        match x.layout.is_contiguous() {
            true => x.clone(),
            false => self.copy(x),
        }
    }

    /// Returns the same elements in another shape, copied if no strides can express it.
    pub(crate) fn reshape(&mut self, x: &View, shape: &[usize]) -> View {
        match x.layout.reshape(shape) {
            Some(layout) => x.with(layout),
            None => {
                let copy = self.copy(x);
                copy.with(Layout::contiguous(shape))
            }
        }
    }

    /// Returns the elements in the order in which a kernel reads them, copied by another kernel.
    pub(crate) fn packed(&mut self, x: &View, kernel: Prepared) -> View {
        let out = Aval::new(x.dtype, x.shape());
        let args = smallvec![self.part(x)];
        self.task(
            TaskKind::Copy(self.op),
            args,
            &[out],
            TaskWork::Whole(kernel),
        )
        .remove(0)
    }

    /// Returns the same elements as all of a root that a task makes, copied if necessary.
    pub(crate) fn whole(&mut self, x: &View) -> View {
        let root = &self.storages[x.root as usize];
        let whole = x.layout.is_contiguous() && numel(x.shape()) == root.len;
        match whole && root.kind == StorageKind::Made {
            true => x.clone(),
            false => self.copy(x),
        }
    }

    pub(crate) fn copy(&mut self, x: &View) -> View {
        let out = Aval::new(x.dtype, x.shape());
        let kernel = movement::copy(x.dtype, &x.layout);
        let part = self.part(x);
        self.task(
            TaskKind::Copy(self.op),
            smallvec![part],
            &[out],
            TaskWork::Whole(kernel),
        )
        .remove(0)
    }

    fn root(&mut self, kind: StorageKind, dtype: DType, shape: &[usize]) -> View {
        self.storages.push(Storage {
            kind,
            dtype,
            len: numel(shape),
        });
        View {
            root: self.storages.len() as u32 - 1,
            dtype,
            layout: Layout::contiguous(shape),
        }
    }

    /// Returns whether a view has less than half of the elements that a task makes together.
    pub(crate) fn is_small_part(&self, x: &View) -> bool {
        let root = &self.storages[x.root as usize];
        root.kind == StorageKind::Made && numel(x.shape()) < root.len / 2
    }

    /// Returns the elements of `x` if they are contiguous, and all elements of its root otherwise.
    pub(crate) fn part(&self, x: &View) -> Slice {
        let whole = self.storages[x.root as usize].len;
        let (start, len) = match (x.layout.is_contiguous(), numel(x.shape())) {
            (true, 0) => (0, 0),
            (true, n) => (x.layout.offset, n),
            (false, _) => (0, whole),
        };
        Slice {
            root: x.root,
            start,
            len,
        }
    }
}
