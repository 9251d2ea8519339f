//! From an equation to tasks: what kernels ask of a plan while it is made.

use super::chains::Member;
use super::place::Place;
use crate::Aval;
use crate::DType;
use crate::buffer::Buffer;
use crate::kernel::{self, Batch, ByRow, Link, Prepared};
use crate::layout::{Layout, numel};
use gradloom_ir::hash::HashMap;
use gradloom_ir::{Op, Static};
use smallvec::SmallVec;
use std::sync::Arc;

/// A plan in the making. Where values lie in memory is decided when all tasks are known.
pub(crate) struct Build {
    pub(super) roots: Vec<Root>,
    pub(super) constants: Vec<Buffer>,
    pub(super) drafts: Vec<Draft>,
    /// The op that is being planned.
    pub(super) op: Op,
    /// The equations that are being planned, until a task computes them.
    pub(super) eqns: Eqns,
    /// The op of which the result on the operands of the op that is being planned is needed too.
    pub(super) wanted: Option<Op>,
    /// Results of ops that the kernels of others have made along with theirs, by the op and the root of its first operand.
    along: HashMap<(Op, u32), Vec<Along>>,
}

/// The result of an op that a kernel makes along with that of another.
struct Along {
    of: Vec<Static>,
    args: Vec<Place>,
    made: Place,
}

/// Positions of equations in a program.
pub(super) type Eqns = SmallVec<[u32; 4]>;

/// Elements that are made at once.
pub(super) struct Root {
    pub(super) kind: Kind,
    pub(super) dtype: DType,
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Leaf(u32),
    Constant(u32),
    /// By a task.
    Made,
}

/// A task before its regions are known.
pub(super) struct Draft {
    pub(super) work: Work,
    pub(super) args: Vec<Part>,
    pub(super) outs: Vec<u32>,
    /// What it computes.
    pub(super) what: What,
    /// Of a group: how many results it has an element at a time, and whether it reads each operand so.
    pub(super) in_order: (usize, Vec<bool>),
    /// The equations that it computes, or the first of several tasks.
    pub(super) eqns: Eqns,
    /// The product that it is, if a group can follow it.
    pub(super) product: Option<Arc<Batch>>,
    /// Of a product that a group follows, whether the first of `outs`, which is its result, may be left out if no other task
    /// reads it.
    pub(super) followed: Option<bool>,
}

/// How a task computes.
pub(super) enum Work {
    Whole(Prepared),
    /// All of it, or some rows at a time.
    Cut(Link),
    /// One after the other, some rows at a time.
    Chain(Vec<Member>),
}

/// What a task computes, for messages and explanations.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Op(Op),
    /// The operand or the result of an op, in row-major order.
    Copy(Op),
    /// The members of a group and the sums over them. It may follow a product, over elements that are in a cache.
    Group {
        after: Option<Op>,
        ops: Vec<Op>,
        /// The members that run in compiled loops of several.
        compiled: usize,
        /// The loops over a piece: those, and one for each other member.
        loops: usize,
    },
    /// Several tasks, some rows at a time.
    Chain(Vec<What>),
}

/// Elements of a root one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) root: u32,
    pub(super) start: usize,
    pub(super) len: usize,
}

const ADDED: &str = "the task was added";

impl Default for Build {
    fn default() -> Build {
        Build {
            roots: Vec::new(),
            constants: Vec::new(),
            drafts: Vec::new(),
            op: Op::Identity,
            eqns: Eqns::new(),
            wanted: None,
            along: HashMap::default(),
        }
    }
}

impl Build {
    /// All elements of a leaf.
    pub(super) fn leaf(&mut self, index: u32, dtype: DType, len: usize) -> Place {
        self.root(Kind::Leaf(index), dtype, &[len])
    }

    /// One number, repeated.
    pub(crate) fn constant(&mut self, value: &Static, dtype: DType, shape: &[usize]) -> Place {
        let index = self.constants.len() as u32;
        self.constants.push(Buffer::of_static(value, dtype));
        self.root(Kind::Constant(index), dtype, &[])
            .broadcast_to(shape)
    }

    /// The result of a kernel whose operands are in row-major order: it gets exactly their elements.
    pub(crate) fn kernel(&mut self, args: &[&Place], out: &Aval, kernel: Prepared) -> Place {
        self.kernels(args, std::slice::from_ref(out), kernel)
            .remove(0)
    }

    /// The results of a kernel whose operands are in row-major order: it gets exactly their elements.
    pub(crate) fn kernels(
        &mut self,
        args: &[&Place],
        outs: &[Aval],
        kernel: Prepared,
    ) -> Vec<Place> {
        self.ordered(args, outs, Work::Whole(kernel))
    }

    /// The results of a kernel that may run for some rows at a time. Its operands are in row-major order: it gets exactly their elements.
    pub(crate) fn by_row(&mut self, args: &[&Place], outs: &[Aval], kernel: ByRow) -> Vec<Place> {
        self.ordered(args, outs, Work::Cut(Link::Rows(kernel)))
    }

    fn ordered(&mut self, args: &[&Place], outs: &[Aval], work: Work) -> Vec<Place> {
        debug_assert!(args.iter().all(|x| x.layout.is_contiguous()));
        let args = args.iter().map(|x| self.part(x)).collect();
        self.task(What::Op(self.op), args, outs, work)
    }

    /// The result of a product, whose kernel gets all elements of the root of each operand. If it is `dense`, a group may follow.
    pub(crate) fn product(
        &mut self,
        args: &[&Place],
        out: &Aval,
        kernel: Prepared,
        dense: Option<Arc<Batch>>,
    ) -> Place {
        let place = self.strided_kernel(args, out, kernel);
        self.drafts.last_mut().expect(ADDED).product = dense;
        place
    }

    /// The result of a kernel that gets all elements of the root of each operand.
    pub(crate) fn strided_kernel(
        &mut self,
        args: &[&Place],
        out: &Aval,
        kernel: Prepared,
    ) -> Place {
        let outs = std::slice::from_ref(out);
        self.strided_kernels(args, outs, kernel).remove(0)
    }

    /// The results of a kernel that gets all elements of the root of each operand.
    pub(crate) fn strided_kernels(
        &mut self,
        args: &[&Place],
        outs: &[Aval],
        kernel: Prepared,
    ) -> Vec<Place> {
        let all = |x: &&Place| Part {
            root: x.root,
            start: 0,
            len: self.roots[x.root as usize].len,
        };
        let args = args.iter().map(all).collect();
        self.task(What::Op(self.op), args, outs, Work::Whole(kernel))
    }

    /// Whether the result of `op` on the operands of the op that is being planned is needed too.
    pub(crate) fn is_wanted(&self, op: Op) -> bool {
        self.wanted == Some(op)
    }

    /// Says that a kernel has made what `op` makes of `args`, with static arguments `of`.
    pub(crate) fn gives_along(&mut self, op: Op, of: &[Static], args: &[Place], made: &Place) {
        let made_of_it = self.along.entry((op, args[0].root)).or_default();
        made_of_it.push(Along {
            of: of.to_vec(),
            args: args.to_vec(),
            made: made.clone(),
        });
    }

    /// What a kernel has made along with its own result.
    pub(crate) fn given_along(&self, op: Op, of: &[Static], args: &[Place]) -> Option<Place> {
        let same = |a: &&Along| a.of == of && a.args == args;
        let made_of_it = self.along.get(&(op, args.first()?.root))?;
        made_of_it.iter().find(same).map(|a| a.made.clone())
    }

    /// The results of a kernel.
    pub(super) fn task(
        &mut self,
        what: What,
        args: Vec<Part>,
        outs: &[Aval],
        work: Work,
    ) -> Vec<Place> {
        let outs = outs.iter();
        let places: Vec<Place> = outs
            .map(|out| self.root(Kind::Made, out.dtype(), out.shape()))
            .collect();
        let eqns = match what {
            What::Copy(_) => Eqns::new(),
            _ => std::mem::take(&mut self.eqns),
        };
        self.drafts.push(Draft {
            work,
            eqns,
            args,
            outs: places.iter().map(|place| place.root).collect(),
            what,
            in_order: (0, Vec::new()),
            product: None,
            followed: None,
        });
        places
    }

    /// The result of a kernel that writes `totals` too, which nobody reads after that.
    pub(super) fn join(&mut self, totals: &Place, out: &Aval, kernel: Prepared) -> Place {
        let outs = std::slice::from_ref(out);
        let result = self
            .task(What::Op(self.op), Vec::new(), outs, Work::Whole(kernel))
            .remove(0);
        let draft = self.drafts.last_mut().expect(ADDED);
        draft.outs.insert(0, totals.root);
        result
    }

    /// The same elements in row-major order: the value itself if it is so.
    pub(crate) fn contiguous(&mut self, x: &Place) -> Place {
        match x.layout.is_contiguous() {
            true => x.clone(),
            false => self.copy(x),
        }
    }

    /// The same elements in another shape. Copies only if no strides can say it.
    pub(crate) fn reshape(&mut self, x: &Place, shape: &[usize]) -> Place {
        match x.layout.reshape(shape) {
            Some(layout) => x.with(layout),
            None => {
                let copy = self.copy(x);
                copy.with(Layout::contiguous(shape))
            }
        }
    }

    /// The same elements as the whole of a root that a task makes.
    pub(super) fn whole(&mut self, x: &Place) -> Place {
        let root = &self.roots[x.root as usize];
        let whole = x.layout.is_contiguous() && numel(x.shape()) == root.len;
        match whole && root.kind == Kind::Made {
            true => x.clone(),
            false => self.copy(x),
        }
    }

    fn copy(&mut self, x: &Place) -> Place {
        let out = Aval::new(x.dtype, x.shape());
        let kernel = kernel::copy(x);
        let part = self.part(x);
        self.task(What::Copy(self.op), vec![part], &[out], Work::Whole(kernel))
            .remove(0)
    }

    fn root(&mut self, kind: Kind, dtype: DType, shape: &[usize]) -> Place {
        self.roots.push(Root {
            kind,
            dtype,
            len: numel(shape),
        });
        Place {
            root: self.roots.len() as u32 - 1,
            dtype,
            layout: Layout::contiguous(shape),
        }
    }

    /// The elements themselves if they are in row-major order, and all of the root otherwise.
    pub(super) fn part(&self, x: &Place) -> Part {
        let whole = self.roots[x.root as usize].len;
        let (start, len) = match (x.layout.is_contiguous(), numel(x.shape())) {
            (true, 0) => (0, 0),
            (true, n) => (x.layout.offset, n),
            (false, _) => (0, whole),
        };
        Part {
            root: x.root,
            start,
            len,
        }
    }
}
