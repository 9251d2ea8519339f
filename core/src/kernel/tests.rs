//! Every kernel against its definition, and for views against contiguous copies.

mod attention;
mod levels;
mod naive;
mod random;
mod view;

use super::KernelFault;
use super::level::level;
use crate::Aval;
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::kernel::Leaf;
use crate::layout::numel;
use crate::plan::{Given, Plan};
use gradloom_ir::op::{BinaryFns, CompareFns, Eval, UnaryFns};
use gradloom_ir::{DType, Op, Program, Static, Var};
use naive::{Nd, indices};
use view::View;

/// Shapes that reach beyond one chunk, one block of rows or one tile, and patterns of axes, in the dtype `F`.
const MORE: &[&str] = &[
    "(x: F[3, 2500]) { y = sum[axes=[1], keepdims=false] x, like x return y }",
    "(x: F[2500, 3]) { y = sum[axes=[0], keepdims=true] x, like x return y }",
    "(x: F[70, 1030]) { y = sum[axes=[0], keepdims=false] x, like x return y }",
    "(x: F[5, 70, 3]) { y = sum[axes=[1], keepdims=false] x, like x return y }",
    "(x: F[4, 3, 5, 2, 6]) { y = sum[axes=[0, 2, 4], keepdims=false] x, like x return y }",
    "(x: F[4, 3, 5, 2, 6]) { y = mean[axes=[1, 3], keepdims=true] x, like x return y }",
    "(x: F[40, 3, 45]) { y = max[axes=[0, 2], keepdims=false] x return y }",
    "(x: F[40, 3, 45]) { y = min[axes=[0], keepdims=false] x return y }",
    "(x: F[3, 1100]) { y = argmax[axis=1, keepdims=false] x return y }",
    "(x: F[3, 1100]) { y = argmin[axis=0, keepdims=false] x return y }",
    "(x: F[3, 1500]) { y = softmax[axis=0] x return y }",
    "(x: F[1, 1100]) { y = softmax[axis=1] x return y }",
    "(x: F[3, 5, 2]) { y = log_softmax[axis=1] x return y }",
    "(x: F[3, 40, 40]) { y = logsumexp[axes=[0, 2], keepdims=true] x return y }",
    "(x: F[4, 3, 5]) { y = normalize[axes=[0, 2], eps=0.01] x return y }",
    "(x: F[2, 1100]) { y = inv_std[axes=[1], eps=0.01] x return y }",
    "(x: F[3, 1500], w: F[1500]) { y = rms_norm[eps=0.01] x, w return y }",
    "(x: F[5, 17], w: F[17], b: F[17]) { y = layer_norm[eps=0.01] x, w, b return y }",
    "(x: F[3, 3000]) { y = softmax[axis=1] x return y }",
    "(v: F[3, 1500], y: F[3, 1500]) { z = softmax_t[axis=1] v, y return z }",
    "(v: F[3, 5, 2], y: F[3, 5, 2]) { z = softmax_t[axis=1] v, y return z }",
    "(v: F[3, 1500], y: F[3, 1500]) { z = log_softmax_jvp[axis=1] v, y return z }",
    "(v: F[3, 1500], y: F[3, 1500]) { z = log_softmax_vjp[axis=1] v, y return z }",
    "(x: F[3, 1500], w: F[1500], dx: F[3, 1500], db: F[1500]) { y = norm_jvp[centred=true, eps=0.01, active=[0, 2]] x, w, dx, db return y }",
    "(x: F[70, 17], w: F[17], dx: F[70, 17], dw: F[17]) { y = norm_jvp[centred=false, eps=0.01, active=[0, 1]] x, w, dx, dw return y }",
    "(x: F[70, 17], w: F[17], dx: F[70, 17]) { y = norm_jvp[centred=true, eps=0.01, active=[0]] x, w, dx return y }",
    "(x: F[70, 17], w: F[17], dw: F[17]) { y = norm_jvp[centred=true, eps=0.01, active=[1]] x, w, dw return y }",
    "(x: F[70, 17], w: F[17], db: F[17]) { y = norm_jvp[centred=true, eps=0.01, active=[2]] x, w, db return y }",
    "(x: F[100, 500], w: F[500], ct: F[100, 500]) { a, b, c = norm_vjp[centred=true, eps=0.01, active=[0, 1, 2]] x, w, ct return a, b, c }",
    "(x: F[5, 70, 17], w: F[17], ct: F[5, 70, 17]) { a, b = norm_vjp[centred=false, eps=0.01, active=[0, 1]] x, w, ct return a, b }",
    "(x: F[3000, 3], w: F[3], ct: F[3000, 3]) { b, c = norm_vjp[centred=true, eps=0.01, active=[1, 2]] x, w, ct return b, c }",
    "(x: F[3, 1500], w: F[1500], ct: F[3, 1500]) { a = norm_vjp[centred=true, eps=0.01, active=[0]] x, w, ct return a }",
    "(v: F[2, 1100], y: F[2, 1100], r: F[2, 1]) { z = normalize_t[axes=[1]] v, y, r return z }",
    "(v: F[4, 3, 5], y: F[4, 3, 5], r: F[1, 3, 1]) { z = normalize_t[axes=[0, 2]] v, y, r return z }",
    "(x: F[30, 17], y: F[17, 33]) { z = matmul x, y, like x, like y return z }",
    "(x: F[3, 1, 5], y: F[5, 4]) { z = matmul x, y, like x, like y return z }",
    "(x: F[3, 2, 5], y: F[3, 5, 1]) { z = matmul x, y, like x, like y return z }",
    "(x: F[2, 3, 2, 5], c: F[2, 3, 2, 4], y: F[5, 4]) { z = matmul_rhs_t x, c, like x, like y return z }",
    "(x: F[2, 3, 2, 5], c: F[2, 3, 2, 4], y: F[3, 5, 4]) { z = matmul_rhs_t x, c, like x, like y return z }",
    "(c: F[2, 3, 2, 4], y: F[2, 3, 5, 4], x: F[2, 5]) { z = matmul_lhs_t c, y, like x, like y return z }",
    "(c: F[2, 3, 2, 4], y: F[2, 1, 5, 4], x: F[3, 2, 5]) { z = matmul_lhs_t c, y, like x, like y return z }",
    "(x: F[0, 3, 5], c: F[0, 3, 4], y: F[5, 4]) { z = matmul_rhs_t x, c, like x, like y return z }",
    "(q: F[2, 150, 5], k: F[2, 90, 5], v: F[2, 90, 3]) { o = attention[causal=false] q, k, v return o }",
    "(q: F[150, 5], k: F[150, 5], v: F[150, 20]) { o = attention[causal=true] q, k, v return o }",
    "(q: F[70, 5], k: F[150, 5], v: F[150, 4]) { o = attention[causal=true] q, k, v return o }",
    "(q: F[2, 140, 5], k: F[2, 90, 5]) { l = attention_lse[causal=true] q, k return l }",
    "(q: F[150, 5], k: F[150, 5], v: F[150, 3], o: F[150, 3], l: F[150], dq: F[150, 5], dk: F[150, 5], dv: F[150, 3]) { y = attention_jvp[causal=true, active=[0, 1, 2]] q, k, v, o, l, dq, dk, dv return y }",
    "(q: F[2, 150, 5], k: F[2, 90, 5], v: F[2, 90, 3], o: F[2, 150, 3], l: F[2, 150], ct: F[2, 150, 3]) { a, b, c = attention_vjp[causal=false, active=[0, 1, 2]] q, k, v, o, l, ct return a, b, c }",
    "(q: F[300, 5], k: F[90, 5], v: F[90, 3], o: F[300, 3], l: F[300], ct: F[300, 3]) { a, b, c = attention_vjp[causal=true, active=[0, 1, 2]] q, k, v, o, l, ct return a, b, c }",
    "(q: F[300, 5], k: F[90, 5], v: F[90, 3], o: F[300, 3], l: F[300], ct: F[300, 3]) { a, c = attention_vjp[causal=false, active=[0, 2]] q, k, v, o, l, ct return a, c }",
    "(c: bool[40, 60], x: F[60], y: F[40, 1]) { z = select c, x, y return z }",
    "(x: F[40, 60], y: F[30, 60]) { z = concat[axis=0] x, y, like x, like y return z }",
    "(x: F[2, 1500], y: F[2, 3]) { z = concat[axis=1] x, y, like x, like y return z }",
    "(x: F[3, 5, 90]) { y = permute[axes=[2, 0, 1]] x return y }",
    "(x: F[40, 90], y: F[40, 90]) { z = sub x, y return z }",
    "(x: F[30, 40]) { y = reshape[shape=[8, 5, 30]] x, like x return y }",
    "(y: F[3, 1300], x: F[6, 2600]) { z = slice_t[starts=[1, 0], stops=[6, 2600], steps=[2, 2]] y, like x return z }",
    "(x: F[30, 40]) { y = cast[dtype=i64] x, like x return y }",
    "(x: F[30, 40]) { y = cast[dtype=bool] x, like x return y }",
    "(y: F[4, 2, 40, 3], x: F[2, 1, 3]) { z = unbroadcast y, like x, like y return z }",
];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn view_of(dtype: DType, nd: &Nd) -> View {
    let data = || nd.data.iter();
    match dtype {
        DType::F32 => View::new(data().map(|x| *x as f32).collect(), &nd.shape),
        DType::F64 => View::new(nd.data.clone(), &nd.shape),
        DType::I32 => View::new(data().map(|x| *x as i32).collect(), &nd.shape),
        DType::I64 => View::new(data().map(|x| *x as i64).collect(), &nd.shape),
        DType::Bool => View::new(data().map(|x| *x != 0.0).collect(), &nd.shape),
    }
}

fn nd_of(view: &View) -> Nd {
    let data = match &*view.to_copy().buffer {
        Buffer::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Buffer::F64(v) => v.to_vec(),
        Buffer::I32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Buffer::I64(v) => v.iter().map(|x| *x as f64).collect(),
        Buffer::Bool(v) => v.iter().map(|x| f64::from(u8::from(*x))).collect(),
    };
    Nd {
        shape: view.shape().to_vec(),
        data,
    }
}

/// Elements for a parameter, from the domain of the op; a multiple of 1/8, so that ties come up.
fn draw(numbers: &mut Numbers, aval: &Aval, (lo, hi): (f64, f64)) -> Nd {
    let one = |_| match aval.dtype() {
        DType::F32 | DType::F64 => lo + (hi - lo) * (1 + numbers.below(31)) as f64 / 32.0,
        DType::Bool => numbers.below(2) as f64,
        _ => numbers.below(3) as f64,
    };
    Nd {
        shape: aval.shape().to_vec(),
        data: (0..aval.numel()).map(one).collect(),
    }
}

/// Views of the same elements that lie in other ways: with the axes reversed, with gaps, and after an offset.
fn elsewhere(dtype: DType, nd: &Nd) -> Vec<View> {
    let rank = nd.shape.len();
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let shape: Vec<usize> = nd.shape.iter().rev().copied().collect();
    let data = indices(&shape)
        .into_iter()
        .map(|i| i.iter().rev().copied().collect::<Vec<_>>());
    let data = data.map(|i| nd.spread(&i)).collect();
    let transposed = view_of(dtype, &Nd { shape, data }).permute(&reversed);

    let wide: Vec<usize> = nd.shape.iter().map(|len| 2 * len + 1).collect();
    let inside = |i: &[usize]| i.iter().all(|i| i % 2 == 1);
    let data = indices(&wide).into_iter().map(|i| match inside(&i) {
        true => nd.spread(&i.iter().map(|i| i / 2).collect::<Vec<_>>()),
        false => 7.0,
    });
    let mut gaps = view_of(
        dtype,
        &Nd {
            data: data.collect(),
            shape: wide,
        },
    );
    for (axis, &len) in nd.shape.iter().enumerate() {
        gaps = gaps.with(gaps.layout.narrow(axis, 1, len, 2));
    }

    let data = [&[7.0, 7.0][..], &nd.data, &[7.0]].concat();
    let offset = view_of(
        dtype,
        &Nd {
            shape: vec![data.len()],
            data,
        },
    );
    let offset = offset.with(offset.layout.narrow(0, 2, nd.data.len(), 1));
    vec![transposed, gaps, offset.reshape(&nd.shape)]
}

struct Case {
    text: String,
    program: Program,
    op: Op,
    statics: Vec<Static>,
    args: Vec<Aval>,
    likes: Vec<Aval>,
    outs: Vec<Aval>,
}

fn case(text: &str) -> Case {
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let eqn = &program.eqns[0];
    let avals = |vars: &[Var]| -> Vec<Aval> {
        vars.iter()
            .map(|v| Aval::from_ir(program.avals.get(*v).unwrap()))
            .collect()
    };
    Case {
        text: text.to_owned(),
        op: eqn.op,
        statics: eqn
            .attrs
            .iter()
            .map(|a| program.attrs[gradloom_ir::Entity::index(*a)].clone())
            .collect(),
        args: avals(eqn.data()),
        likes: avals(eqn.likes()),
        outs: avals(&eqn.outs),
        program: apart(&program),
    }
}

/// The program with a parameter of its own for each operand, and all results.
fn apart(program: &Program) -> Program {
    let mut program = program.clone();
    program.params.clear();
    let (first, eqn) = (program.n_vars(), &mut program.eqns[0]);
    for (i, arg) in eqn.args.iter_mut().enumerate() {
        let own = Var(first + i as u32);
        let aval = program.avals.get(*arg).unwrap().clone();
        program.avals.insert(own, aval);
        program.params.push(own);
        *arg = own;
    }
    program.outs = eqn.outs.clone();
    program
}

/// At least one program for each op.
fn cases() -> Vec<Case> {
    let mut texts = Vec::new();
    for op in Op::ALL {
        let name = op.def().name();
        let float = ["f64", "f32"];
        match op.def().eval() {
            Eval::Unary(_) => texts.extend(float.iter().flat_map(|f| {
                ["[]", "[0, 2]", "[3, 1, 700]"]
                    .map(|s| format!("(x: {f}{s}) {{ y = {name} x return y }}"))
            })),
            Eval::Binary(_) | Eval::Compare(_) => texts.extend(float.iter().flat_map(|f| {
                [
                    ("[3, 1, 700]", "[2, 1]"),
                    ("[]", "[1030]"),
                    ("[2, 0]", "[1]"),
                ]
                .map(|(s, t)| format!("(x: {f}{s}, y: {f}{t}) {{ z = {name} x, y return z }}"))
            })),
            _ => texts.extend(op.def().laws().samples.iter().map(|s| s.to_string())),
        }
    }
    for text in MORE {
        texts.extend(["f64", "f32"].map(|dtype| text.replace('F', dtype)));
    }
    texts.iter().map(|text| case(text)).collect()
}

fn bits(view: &View) -> Vec<u64> {
    nd_of(view)
        .data
        .iter()
        .map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() })
        .collect()
}

impl Case {
    fn draw(&self, seed: u64) -> Vec<Nd> {
        let mut numbers = Numbers(seed);
        let domain = self.op.def().laws().domain;
        self.args
            .iter()
            .map(|aval| draw(&mut numbers, aval, domain))
            .collect()
    }

    fn views(&self, values: &[Nd]) -> Vec<View> {
        self.args
            .iter()
            .zip(values)
            .map(|(aval, nd)| view_of(aval.dtype(), nd))
            .collect()
    }

    fn run(&self, args: &[View]) -> Vec<View> {
        let outs = run(&self.program, args).unwrap_or_else(|e| panic!("{}: {e:?}", self.text));
        let found: Vec<Aval> = outs
            .iter()
            .map(|o| Aval::new(o.dtype(), o.shape()))
            .collect();
        assert_eq!(found, self.outs, "{}", self.text);
        outs
    }

    /// What the definition says.
    fn definition(&self, values: &[Nd]) -> Vec<Nd> {
        // An elementwise op is its loop on single elements.
        fn each<T: Element, U: Element>(xs: &[&[T]], f: impl Fn(&[T], &[T], &mut [U])) -> Vec<U> {
            let mut out = vec![U::default(); xs[0].len()];
            for (i, y) in out.iter_mut().enumerate() {
                let y = std::slice::from_mut(y);
                f(&xs[0][i..=i], &xs[xs.len() - 1][i..=i], y);
            }
            out
        }
        let out = &self.outs[0];
        let full = || -> Vec<View> {
            let views = self.views(values);
            views
                .iter()
                .map(|v| v.broadcast_to(out.shape()).to_copy())
                .collect()
        };
        macro_rules! apply {
            ($fns:expr, $f:ident => $call:expr) => {
                match self.args[0].dtype() {
                    DType::F32 => apply!(@ f32, $fns.f32, $f => $call),
                    DType::F64 => apply!(@ f64, $fns.f64, $f => $call),
                    other => unreachable!("no case has {other}"),
                }
            };
            (@ $t:ty, $fn:expr, $f:ident => $call:expr) => {{
                let full = full();
                let xs: Vec<&[$t]> = full.iter().map(|v| v.data()).collect();
                let $f = $fn;
                View::new(each(&xs, $call), out.shape())
            }};
        }
        match self.op.def().eval() {
            Eval::Unary(fns) => {
                let fns: UnaryFns = fns;
                vec![nd_of(&apply!(fns, f => |x, _, y| {
 // SAFETY: the CPU has the level.
 unsafe { f.get(level())(x, y) } }))]
            }
            Eval::Binary(fns) => {
                let fns: BinaryFns = fns;
                vec![nd_of(&apply!(fns, f => |x, y, z| {
 // SAFETY: the CPU has the level.
 unsafe { f.get(level())(x, y, z) } }))]
            }
            Eval::Compare(fns) => {
                let fns: CompareFns = fns;
                vec![nd_of(&apply!(fns, f => |x, y, z| {
 // SAFETY: the CPU has the level.
 unsafe { f.get(level())(x, y, z) } }))]
            }
            _ => {
                let shapes =
                    |avals: &[Aval]| avals.iter().map(|a| a.shape().to_vec()).collect::<Vec<_>>();
                naive::eval(
                    self.op,
                    &self.statics,
                    values,
                    &shapes(&self.likes),
                    &shapes(&self.outs),
                )
            }
        }
    }
}

#[test]
fn every_kernel_computes_its_definition() {
    let cases = cases();
    for op in Op::ALL {
        assert!(cases.iter().any(|c| c.op == *op), "no case for `{op}`");
    }
    for case in &cases {
        let values = case.draw(1);
        let got = case.run(&case.views(&values));
        let want = case.definition(&values);
        for (got, want) in got.iter().zip(&want) {
            let tolerance = if got.dtype() == DType::F32 {
                3e-5
            } else {
                1e-12
            };
            let got = nd_of(got);
            assert_eq!(got.shape, want.shape, "{}", case.text);
            for (i, (g, w)) in got.data.iter().zip(&want.data).enumerate() {
                let close =
                    (g - w).abs() <= tolerance * w.abs().max(1.0) || (g.is_nan() && w.is_nan());
                assert!(
                    close || g == w,
                    "{}: element {i} is {g}, not {w}",
                    case.text
                );
            }
        }
    }
}

#[test]
fn a_view_gives_the_same_bits_as_its_contiguous_copy() {
    for case in cases() {
        let values = case.draw(2);
        let views = case.views(&values);
        let want: Vec<_> = case.run(&views).iter().map(bits).collect();
        for i in 0..views.len() {
            for other in elsewhere(case.args[i].dtype(), &values[i]) {
                let mut views = views.clone();
                views[i] = other;
                let got: Vec<_> = case.run(&views).iter().map(bits).collect();
                assert_eq!(
                    got, want,
                    "{}: operand {i} as {:?}",
                    case.text, views[i].layout
                );
            }
        }
    }
}

#[test]
fn a_repeated_operand_gives_the_same_bits_as_its_contiguous_copy() {
    for case in cases() {
        let values = case.draw(3);
        let views = case.views(&values);
        for i in 0..views.len() {
            for axis in 0..views[i].rank() {
                if views[i].shape()[axis] == 0 {
                    continue;
                }
                let mut views = views.clone();
                let first = views[i].with(views[i].layout.narrow(axis, 0, 1, 1));
                views[i] = first.broadcast_to(views[i].shape());
                let got: Vec<_> = case.run(&views).iter().map(bits).collect();
                views[i] = views[i].to_copy();
                let want: Vec<_> = case.run(&views).iter().map(bits).collect();
                assert_eq!(
                    got, want,
                    "{}: operand {i} repeated along axis {axis}",
                    case.text
                );
            }
        }
    }
}

fn plan(program: &Program, args: &[View]) -> Plan {
    let leaves = args.iter().map(|x| (x.buffer.len(), x.layout.clone()));
    Plan::of(program, &leaves.collect::<Vec<_>>())
}

fn run(program: &Program, args: &[View]) -> Result<Vec<View>, KernelFault> {
    let leaves: Vec<_> = args.iter().map(|x| Leaf::Held(&x.buffer)).collect();
    let mut outs = Vec::new();
    plan(program, args)
        .try_run(&leaves, &mut Given::new(), &mut outs)
        .map_err(|(_, fault)| fault)?;
    let views = outs.into_iter().flatten().zip(&program.outs);
    Ok(views
        .map(|(buffer, out)| View::of(buffer, Aval::from_ir(program.aval(*out)).shape()))
        .collect())
}

fn run_one(text: &str, args: &[View]) -> Result<View, KernelFault> {
    run(&case(text).program, args).map(|mut outs| outs.remove(0))
}

#[test]
fn what_only_moves_elements_computes_nothing() {
    let x = View::new((0..12).map(f64::from).collect(), &[3, 4]);
    for text in [
        "(x: f64[3, 4]) { y = transpose x return y }",
        "(x: f64[3, 4]) { y = identity x return y }",
        "(x: f64[3, 4]) { y = reshape[shape=[2, 6]] x, like x return y }",
        "(x: f64[3, 4]) { y = slice[starts=[1], stops=[3], steps=[1]] x, like x return y }",
        "(x: f64[3, 4]) { y = unsqueeze[axes=[1]] x return y }",
        "(x: f64[3, 4]) { y = broadcast_to[shape=[2, 3, 4]] x return y }",
        "(x: f64[3, 4], z: f64[3, 4, 5]) { y = sum_t[axes=[2], keepdims=false] x, like z return y }",
    ] {
        let plan = plan(&case(text).program, std::slice::from_ref(&x));
        assert!(plan.only_moves(), "{text}");
    }
}

#[test]
fn nan_wins_every_extremum_and_the_first_of_equals_its_index() {
    let x = View::new(
        vec![1.0, f64::NAN, 3.0, f64::NAN, 3.0, 2.0, 3.0, 2.0],
        &[2, 4],
    );
    let of = |name: &str| {
        let text = format!("(x: f64[2, 4]) {{ y = {name}, keepdims=false] x return y }}");
        format!(
            "{:?}",
            nd_of(&run_one(&text, std::slice::from_ref(&x)).unwrap()).data
        )
    };
    assert_eq!(of("max[axes=[1]"), "[NaN, 3.0]");
    assert_eq!(of("min[axes=[1]"), "[NaN, 2.0]");
    assert_eq!(of("max[axes=[0]"), "[3.0, NaN, 3.0, NaN]");
    assert_eq!(of("argmax[axis=1"), "[1.0, 0.0]");
    assert_eq!(of("argmin[axis=1"), "[1.0, 1.0]");
    assert_eq!(of("argmax[axis=0"), "[1.0, 0.0, 0.0, 0.0]");
}

#[test]
fn integers_wrap_and_casts_saturate() {
    let x = View::new(vec![i32::MAX, 1], &[2]);
    let sum = run_one(
        "(x: i32[2]) { y = sum[axes=all, keepdims=false] x, like x return y }",
        &[x],
    );
    assert_eq!(sum.unwrap().data::<i32>(), [i32::MIN]);
    let x = View::new(vec![f64::NAN, 1e300, -2.9, f64::NEG_INFINITY], &[4]);
    let cast = run_one(
        "(x: f64[4]) { y = cast[dtype=i32] x, like x return y }",
        &[x],
    );
    assert_eq!(cast.unwrap().data::<i32>(), [0, i32::MAX, -2, i32::MIN]);
}

#[test]
fn log_sum_exp_survives_large_and_infinite_elements() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = View::new(vec![1e3, 1e3, -inf, -inf, inf, 0.0, nan, 0.0], &[4, 2]);
    let y = run_one(
        "(x: f64[4, 2]) { y = logsumexp[axes=[1], keepdims=false] x return y }",
        &[x],
    );
    let y = nd_of(&y.unwrap()).data;
    assert_eq!(y[0], 1e3 + 2f64.ln());
    assert_eq!(y[1..3], [-inf, inf]);
    assert!(y[3].is_nan());
}

#[test]
fn the_greatest_of_zeros_is_positive_and_the_least_negative() {
    for n in [2, 3, 70] {
        for odd in 0..n {
            for rest in [0.0f64, -0.0] {
                let mut zeros = vec![rest; n];
                zeros[odd] = -rest;
                for (op, negative) in [("max", false), ("min", true)] {
                    let along = |shape: [usize; 2], axis: usize| {
                        let [a, b] = shape;
                        let text = format!(
                            "(x: f64[{a}, {b}]) {{ y = {op}[axes=[{axis}], keepdims=false] x return y }}"
                        );
                        let y = run_one(&text, &[View::new(zeros.clone(), &shape)]);
                        y.unwrap().data::<f64>()[0].is_sign_negative()
                    };
                    assert_eq!(along([1, n], 1), negative, "{op} of {zeros:?}");
                    assert_eq!(along([n, 1], 0), negative, "{op} of {zeros:?}");
                }
                let mut wide = vec![rest; 2 * n];
                wide[2 * odd] = -rest;
                for (op, negative) in [("max", false), ("min", true)] {
                    let text = format!(
                        "(x: f64[{n}, 2]) {{ y = {op}[axes=[0], keepdims=false] x return y }}"
                    );
                    let y = run_one(&text, &[View::new(wide.clone(), &[n, 2])]);
                    assert_eq!(y.unwrap().data::<f64>()[0].is_sign_negative(), negative);
                }
            }
        }
    }
}

#[test]
fn a_label_out_of_range_is_named() {
    let logits = View::new(vec![0.0; 6], &[2, 3]);
    let text = "(x: f64[2, 3], labels: i64[2]) { y = cross_entropy x, labels return y }";
    for label in [3, -1, i64::MIN] {
        let fault = run_one(text, &[logits.clone(), View::new(vec![2, label], &[2])]).unwrap_err();
        assert_eq!(
            fault,
            KernelFault::Label {
                label,
                classes: 3,
                row: 1
            }
        );
    }
    let hot = run_one(
        "(labels: i64[2]) { y = one_hot[classes=3, dtype=f64] labels return y }",
        &[View::new(vec![-1i64, 1], &[2])],
    );
    assert_eq!(hot.unwrap().data::<f64>(), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn a_result_that_fits_no_memory_is_a_fault() {
    let x = View::splat(1.0f32, &[1 << 30, 1 << 28]);
    let y = run_one(
        "(x: f32[1073741824, 268435456]) { y = neg x return y }",
        std::slice::from_ref(&x),
    );
    assert_eq!(y.unwrap_err(), KernelFault::OutOfMemory { bytes: 1 << 60 });
    assert_eq!(numel(x.shape()), 1 << 58);
}
