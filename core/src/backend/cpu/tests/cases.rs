//! Programs of one op each, with operands.

use crate::Aval;
use crate::backend::cpu::tests::run::run;
use crate::backend::cpu::tests::view::{View, view_of};
use gradloom_ir::op::{Application, Eval, NdArray, indices};
use gradloom_ir::{DType, Op, Program, Static, Var};

/// A program of one op, parsed from its text.
pub(super) struct Case {
    pub(super) text: String,
    pub(super) program: Program,
    pub(super) op: Op,
    pub(super) statics: Vec<Static>,
    pub(super) args: Vec<Aval>,
    pub(super) likes: Vec<Aval>,
    pub(super) outs: Vec<Aval>,
}

impl Case {
    pub(super) fn draw(&self, seed: u64) -> Vec<NdArray> {
        let mut numbers = Numbers(seed);
        let laws = self.op.def().laws();
        self.args
            .iter()
            .map(|aval| {
                let mut x = draw(&mut numbers, aval, laws.domain);
                if aval.dtype().is_float() {
                    let places = indices(&x.shape);
                    for (x, at) in x.data.iter_mut().zip(places) {
                        *x += laws.added(&at);
                    }
                }
                x
            })
            .collect()
    }

    pub(super) fn views(&self, values: &[NdArray]) -> Vec<View> {
        self.args
            .iter()
            .zip(values)
            .map(|(aval, nd)| view_of(aval.dtype(), nd))
            .collect()
    }

    /// Returns the results for these operands by the definition of the op.
    pub(super) fn definition(&self, values: &[NdArray]) -> Vec<NdArray> {
        let shapes = |avals: &[Aval]| avals.iter().map(|aval| aval.shape().to_vec()).collect();
        let (likes, outs): (Vec<_>, Vec<_>) = (shapes(&self.likes), shapes(&self.outs));
        let of = Application {
            op: self.op,
            statics: &self.statics,
            args: values,
            likes: &likes,
            outs: &outs,
            bools: self.args.first().is_some_and(|x| x.dtype() == DType::Bool),
        };
        of.evaluate()
    }

    pub(super) fn run(&self, args: &[View]) -> Vec<View> {
        let outs = run(&self.program, args).unwrap_or_else(|e| panic!("{}: {e:?}", self.text));
        let found: Vec<Aval> = outs
            .iter()
            .map(|o| Aval::new(o.dtype(), o.shape()))
            .collect();
        assert_eq!(found, self.outs, "{}", self.text);
        outs
    }
}

/// Returns at least one program for each op.
pub(super) fn cases() -> Vec<Case> {
    let mut texts = Vec::new();
    for op in Op::ALL.iter().chain(Op::evaluated_control()) {
        let name = op.def().name();
        let float = ["f64", "f32"];
        match op.def().eval() {
            Eval::Unary(_) | Eval::Test(_) => texts.extend(float.iter().flat_map(|f| {
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

pub(super) fn case(text: &str) -> Case {
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

/// Gives each operand a parameter of its own and returns all results.
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
    program.outs = eqn.outs.to_vec();
    program
}

/// Deterministic random numbers.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    /// Returns a number below `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Draws elements for an operand from the domain of the op. The values are coarse, so that ties
/// occur.
pub(super) fn draw(numbers: &mut Numbers, aval: &Aval, (lo, hi): (f64, f64)) -> NdArray {
    let one = |_| match aval.dtype() {
        DType::F32 | DType::F64 => lo + (hi - lo) * (1 + numbers.below(31)) as f64 / 32.0,
        DType::Bool => numbers.below(2) as f64,
        _ => numbers.below(3) as f64,
    };
    NdArray {
        shape: aval.shape().to_vec(),
        data: (0..aval.numel()).map(one).collect(),
    }
}

/// Cases beyond one chunk, one block of rows or one tile, and patterns of axes. `F` stands for a
/// float dtype.
const MORE: &[&str] = &[
    "(x: F[2, 3, 13, 11], w: F[4, 3, 3, 3]) { z = conv[strides=[2, 1], padding=1, dilation=1, groups=1] x, w, like x, like w return z }",
    "(x: F[2, 6, 30], w: F[6, 3, 5]) { z = conv[strides=1, padding=all, dilation=2, groups=2] x, w, like x, like w return z }",
    "(x: F[2, 3, 50], w: F[3, 1, 5]) { z = conv[strides=1, padding=2, dilation=1, groups=3] x, w, like x, like w return z }",
    "(z: F[2, 4, 7, 11], w: F[4, 3, 3, 3], x: F[2, 3, 13, 11]) { y = conv_input_t[strides=[2, 1], padding=1, dilation=1, groups=1] z, w, like x, like w return y }",
    "(z: F[2, 3, 50], w: F[3, 1, 5], x: F[2, 3, 50]) { y = conv_input_t[strides=1, padding=2, dilation=1, groups=3] z, w, like x, like w return y }",
    "(x: F[9, 3, 13, 11], z: F[9, 4, 7, 11], w: F[4, 3, 3, 3]) { y = conv_weight_t[strides=[2, 1], padding=1, dilation=1, groups=1] x, z, like x, like w return y }",
    "(x: F[9, 3, 50], z: F[9, 3, 25], w: F[3, 1, 5]) { y = conv_weight_t[strides=2, padding=2, dilation=1, groups=3] x, z, like x, like w return y }",
    "(x: F[9, 2, 14, 14], w: F[9, 2, 3, 3]) { z = conv[strides=1, padding=1, dilation=1, groups=1] x, w, like x, like w return z }",
    "(z: F[9, 9, 14, 14], w: F[9, 2, 3, 3], x: F[9, 2, 14, 14]) { y = conv_input_t[strides=1, padding=1, dilation=1, groups=1] z, w, like x, like w return y }",
    "(x: F[9, 2, 14, 13]) { y = max_pool[window=[2, 2], strides=2, padding=0] x return y }",
    "(x: F[9, 2, 14, 13]) { y = sum_pool[window=[2, 2], strides=2, padding=0, mean=true] x, like x return y }",
    "(v: F[9, 2, 7, 6], x: F[9, 2, 14, 13]) { y = max_pool_vjp[window=[2, 2], strides=2, padding=0] v, x return y }",
    "(y: F[9, 14, 13], x: F[9, 14, 13]) { z = sum_pool_t[window=[3, 3], strides=1, padding=1, mean=false] y, like x return z }",
    "(x: F[3, 20, 33]) { y = max_pool[window=[3, 3], strides=2, padding=1] x return y }",
    "(x: F[3, 20, 33]) { y = sum_pool[window=[2, 4], strides=1, padding=all, mean=true] x, like x return y }",
    "(x: F[3, 2500]) { y = sum[axes=[1], keepdims=false] x, like x return y }",
    "(x: F[2500, 3]) { y = sum[axes=[0], keepdims=true] x, like x return y }",
    "(x: F[70, 1030]) { y = sum[axes=[0], keepdims=false] x, like x return y }",
    "(x: F[5, 70, 3]) { y = sum[axes=[1], keepdims=false] x, like x return y }",
    "(x: F[4, 3, 5, 2, 6]) { y = sum[axes=[0, 2, 4], keepdims=false] x, like x return y }",
    "(x: F[4, 3, 5, 2, 6]) { y = mean[axes=[1, 3], keepdims=true] x, like x return y }",
    "(x: F[40, 3, 45]) { y = max[axes=[0, 2], keepdims=false] x return y }",
    "(x: F[40, 3, 45]) { y = min[axes=[0], keepdims=false] x return y }",
    "(x: F[3, 1100]) { y = argmax[axes=[1], keepdims=false] x return y }",
    "(x: F[3, 1100]) { y = argmin[axes=[0], keepdims=false] x return y }",
    "(x: F[3, 11, 100]) { y = argmin[axes=[0, 2], keepdims=true] x return y }",
    "(x: F[3, 40, 45]) { y = var[axes=[0, 2], keepdims=true, correction=1] x return y }",
    "(x: F[3, 1500]) { y = stddev[axes=[1], keepdims=false, correction=0] x return y }",
    "(x: F[3, 300]) { y = sort[axis=1, descending=true] x return y }",
    "(x: F[300, 3]) { y = argsort[axis=0, descending=false] x return y }",
    "(x: F[7, 300]) { y = top_k[count=5, axis=1] x return y }",
    "(x: F[3, 50, 9]) { y = flip[axes=[0, 2]] x return y }",
    "(x: F[3, 11, 45]) { y = flip[axes=[1, 2]] x return y }",
    "(x: F[3, 11, 45]) { y = flip[axes=[1]] x return y }",
    "(x: F[30, 50]) { y = roll[shift=7, axis=0, back=false] x return y }",
    "(x: F[30, 50]) { y = triu[diagonal=3] x return y }",
    "(x: F[30, 50]) { y = pad[low=[-3, 2], high=[5, -4], interior=[2, 1], value=0.5] x return y }",
    "(x: F[3, 1100]) { y = prod[axes=[1], keepdims=false] x return y }",
    "(x: F[40, 3, 45]) { y = prod[axes=[0, 2], keepdims=false] x return y }",
    "(x: bool[3, 1100]) { y = any[axes=[1], keepdims=false] x return y }",
    "(x: bool[3, 1100]) { y = all[axes=[0], keepdims=false] x return y }",
    "(x: F[3, 40, 70]) { y = cumsum[axes=[1], reverse=true] x return y }",
    "(x: F[3, 40, 7]) { y = cumsum[axes=[0, 2], reverse=true] x return y }",
    "(x: F[3, 400]) { y = cummax[axes=[1], reverse=false] x return y }",
    "(x: F[300, 4]) { y = cummin[axes=[0], reverse=false] x return y }",
    "(x: F[30, 4, 5]) { y = cumlogsumexp[axes=[0], reverse=true] x return y }",
    "(x: F[30, 4], a: F[30, 4]) { y = recurrence[axes=[0], reverse=true, late=true] x, a return y }",
    "(x: F[4, 12], a: F[4, 12]) { y = recurrence[axes=[1], reverse=true, late=true] x, a return y }",
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
    "(q: F[2, 150, 5], k: F[2, 110, 5], v: F[2, 110, 3], mask: bool[2, 150, 110]) { o = attention[causal=false] q, k, v, mask return o }",
    "(q: F[2, 2, 150, 5], k: F[2, 2, 120, 5], v: F[2, 2, 120, 3], mask: bool[2, 1, 1, 120]) { o = attention[causal=true] q, k, v, mask return o }",
    "(q: F[2, 150, 5], k: F[2, 110, 5], mask: bool[150, 1]) { l = attention_lse[causal=false] q, k, mask return l }",
    "(q: F[150, 5], k: F[150, 5], v: F[150, 3], o: F[150, 3], l: F[150], mask: bool[150, 150], dq: F[150, 5], dk: F[150, 5], dv: F[150, 3]) { y = attention_jvp[causal=true, active=[0, 1, 2]] q, k, v, o, l, mask, dq, dk, dv return y }",
    "(q: F[2, 150, 5], k: F[2, 90, 5], v: F[2, 90, 3], o: F[2, 150, 3], l: F[2, 150], mask: bool[2, 1, 90], ct: F[2, 150, 3]) { a, b, c = attention_vjp[causal=false, active=[0, 1, 2]] q, k, v, o, l, mask, ct return a, b, c }",
    "(q: F[300, 5], k: F[90, 5], v: F[90, 3], o: F[300, 3], l: F[300], mask: bool[300, 90], ct: F[300, 3]) { a, b, c = attention_vjp[causal=true, active=[0, 1, 2]] q, k, v, o, l, mask, ct return a, b, c }",
    "(c: bool[40, 60], x: F[60], y: F[40, 1]) { z = select c, x, y return z }",
    "(x: F[40, 60], y: F[30, 60]) { z = concat[axis=0] x, y, like x, like y return z }",
    "(x: F[2, 1500], y: F[2, 3]) { z = concat[axis=1] x, y, like x, like y return z }",
    "(x: F[9, 0, 41], y: F[9, 2, 41]) { z = concat[axis=1] x, y, like x, like y return z }",
    "(x: F[9, 5, 41], y: F[9, 2, 41]) { z = concat[axis=1] x, y, like x, like y return z }",
    "(x: F[700, 3], y: F[700, 3], z: F[700, 3]) { w = stack[axis=2] x, y, z return w }",
    "(x: F[700, 3], y: F[700, 2], z: F[700, 1]) { w = concat[axis=1] x, y, z, like x, like y, like z return w }",
    "(x: F[7, 60, 3], y: F[7, 60, 3]) { z = stack[axis=1] x, y return z }",
    "(x: F[3, 5, 90]) { y = permute[axes=[2, 0, 1]] x return y }",
    "(x: F[40, 90], y: F[40, 90]) { z = sub x, y return z }",
    "(x: F[30, 40]) { y = reshape[shape=[8, 5, 30]] x, like x return y }",
    "(y: F[3, 1300], x: F[6, 2600]) { z = slice_t[starts=[1, 0], stops=[6, 2600], steps=[2, 2]] y, like x return z }",
    "(x: F[3, 700], i: i64[40]) { y = take[axis=0, along=false, last=false] x, i, like x return y }",
    "(x: F[5, 3, 7], i: i64[2000]) { y = take[axis=1, along=false, last=false] x, i, like x return y }",
    "(x: F[70, 3], i: i32[70, 200]) { y = take[axis=1, along=true, last=false] x, i, like x return y }",
    "(x: F[3, 700], i: i32[20, 700]) { y = take[axis=0, along=true, last=true] x, i, like x return y }",
    "(x: F[5, 3, 1], i: i32[1, 20, 70]) { y = take[axis=1, along=true, last=false] x, i, like x return y }",
    "(y: F[40, 700], i: i64[40], x: F[30, 700]) { z = take_t[axis=0, along=false, last=false] y, i, like x return z }",
    "(y: F[2, 40, 300], i: i64[40], x: F[2, 30, 300]) { z = take_t[axis=1, along=false, last=true] y, i, like x return z }",
    "(y: F[5, 20, 70], i: i32[1, 20, 70], x: F[5, 3, 1]) { z = take_t[axis=1, along=true, last=false] y, i, like x return z }",
    "(x: F[30, 700], i: i64[40], u: F[40, 700]) { y = scatter[axis=0, along=false, set=false] x, i, u, like x, like u return y }",
    "(x: F[700, 3], i: i64[700, 5], u: F[700, 5]) { y = scatter[axis=1, along=true, set=true] x, i, u, like x, like u return y }",
    "(x: F[30, 200], i: i64[40], u: F[40, 200]) { y = scatter_extreme[axis=0, along=false, max=true] x, i, u, like x, like u return y }",
    "(x: F[2000], i: i64[2000]) { y = segment_sum[segments=3] x, i return y }",
    "(x: F[30, 40], s: i64[2]) { y = dynamic_slice[sizes=[29, 38]] x, s return y }",
    "(x: F[30, 40], s: i64[2], u: F[28, 39]) { y = dynamic_update_slice[set=true] x, s, u, like x, like u return y }",
    "(x: F[30, 40], s: i64[2], u: F[28, 39]) { y = dynamic_update_slice[set=false] x, s, u, like x, like u return y }",
    "(x: F[30, 40]) { y = cast[dtype=i64] x, like x return y }",
    "(x: F[30, 40]) { y = cast[dtype=bool] x, like x return y }",
    "(y: F[4, 2, 40, 3], x: F[2, 1, 3]) { z = unbroadcast y, like x, like y return z }",
];
