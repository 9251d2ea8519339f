//! Costs of programs, as polynomials in the named dims.
//!
//! The arithmetic of an op is its [`Count`]. Its memory traffic is that of the equation alone: each
//! distinct operand is read once and each result written once; views cost nothing. A plan that
//! fuses equations moves less memory. A reshape of a transposed value copies, and moves more.
//!
//! A cost is `None` if a shape, or for bytes a dtype, that it depends on is unknown.

use crate::op::{Count, Ops, shape};
use crate::{Aval, Eqn, Op, Poly, Program, Static, StaticKind, Var};

/// The cost of an equation or of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Additions, multiplications, comparisons and the like.
    pub flops: Option<Poly>,
    /// Evaluations of functions such as `exp`, `tanh` or `sqrt`.
    pub transcendentals: Option<Poly>,
    /// Bytes read and written.
    pub bytes: Option<Poly>,
}

impl Cost {
    /// The cost of an empty program.
    pub const ZERO: Cost = Cost {
        flops: Some(Poly::ZERO),
        transcendentals: Some(Poly::ZERO),
        bytes: Some(Poly::ZERO),
    };

    /// Returns the sum of two costs.
    pub fn plus(&self, other: &Cost) -> Cost {
        let plus = |a: &Option<Poly>, b: &Option<Poly>| a.as_ref()?.plus(b.as_ref()?);
        Cost {
            flops: plus(&self.flops, &other.flops),
            transcendentals: plus(&self.transcendentals, &other.transcendentals),
            bytes: plus(&self.bytes, &other.bytes),
        }
    }
}

/// Returns the cost of a program whose equations run once each.
pub fn of_program(program: &Program) -> Cost {
    let eqns = program.eqns.iter();
    eqns.fold(Cost::ZERO, |sum, eqn| sum.plus(&of_eqn(program, eqn)))
}

/// Returns the cost of an equation.
pub fn of_eqn(program: &Program, eqn: &Eqn) -> Cost {
    let count = eqn.op.def().count();
    let (flops, transcendentals) = match count {
        Count::View | Count::Copy => (Some(Poly::ZERO), Some(Poly::ZERO)),
        Count::Each(each) => {
            let n = || program.aval(eqn.out()).shape.elements();
            times(each, n)
        }
        Count::Rows { element, row } => {
            let (a, b) = times(element, || program.aval(eqn.args[0]).shape.elements());
            let (c, d) = times(row, || rows(program, eqn));
            let plus = |x: Option<Poly>, y: Option<Poly>| x?.plus(&y?);
            (plus(a, c), plus(b, d))
        }
        Count::Product => (product(program, eqn), Some(Poly::ZERO)),
        Count::Attention { products, pair } => {
            let pairs = || pairs(program, eqn);
            let (a, b) = times(pair, pairs);
            let c = multiplied(program, eqn, products);
            let flops = || a?.plus(&pairs()?.times(&c?)?);
            (flops(), b)
        }
        Count::Convolution { windows, weights } => {
            let [windows, weights] = [windows, weights].map(|at| value_at(program, eqn, at));
            let terms = || {
                let weights = weights.shape.dims()?.get(1..)?;
                let factors: Option<Vec<Poly>> = weights.iter().map(|d| d.poly()).collect();
                windows.shape.elements()?.times(&Poly::product(&factors?)?)
            };
            times(Ops::new(2, 0), terms)
        }
        Count::Pool { windows } => {
            let windows = value_at(program, eqn, windows);
            let at = eqn.op.static_at(StaticKind::Window);
            let window = at.and_then(|at| program.attr(eqn.attrs[at]).ints());
            let elements = || {
                let lens = window?.iter().map(|len| Poly::constant((*len).into()));
                windows
                    .shape
                    .elements()?
                    .times(&Poly::product(&lens.collect::<Vec<_>>())?)
            };
            times(Ops::new(1, 0), elements)
        }
        Count::Factors => times(Ops::new(2, 0), || {
            let shape = |x: &Var| &program.aval(*x).shape;
            let elements = eqn.data().iter().map(|x| shape(x).elements());
            let all = elements.reduce(|a, b| a?.plus(&b?))??;
            all.times(&shape(&eqn.args[0]).dims()?.last()?.poly()?)
        }),
        Count::Unknown => (None, None),
    };
    let bytes = match count {
        Count::View => Some(Poly::ZERO),
        Count::Unknown => None,
        _ => traffic(program, eqn),
    };
    Cost {
        flops,
        transcendentals,
        bytes,
    }
}

/// Returns the value at a position among the data operands and then the results.
fn value_at<'a>(program: &'a Program, eqn: &Eqn, at: usize) -> &'a Aval {
    let values = eqn.data().iter().chain(&eqn.outs);
    let var = values.copied().nth(at);
    program.aval(var.expect("the op has an operand or a result at this position"))
}

/// Returns the number of bytes that each device sends in an equation, 0 for one that needs no other device.
///
/// The devices of a group form a ring. A loop that goes on as long as a condition holds is `None` if its turns send
/// anything.
pub fn sent(program: &Program, eqn: &Eqn) -> Option<u128> {
    let statics = || eqn.attrs.iter().map(|attr| program.attr(*attr));
    if let Some(collective) = eqn.op.collective() {
        let n = statics().find_map(Static::mesh)?.n_devices() as u128;
        let operand = |x: &Var| u128::try_from(bytes(program.aval(*x))?.as_constant()?).ok();
        let bytes = eqn.data().first().map_or(Some(0), operand)?;
        return Some((collective.sent)(bytes, n));
    }
    let of_program = |inner: &Program| {
        let mut eqns = inner.eqns.iter();
        eqns.try_fold(0u128, |sum, eqn| Some(sum + sent(inner, eqn)?))
    };
    let programs = statics().filter_map(Static::programs).flatten();
    let all: Vec<u128> = programs.map(of_program).collect::<Option<_>>()?;
    let sum = all.iter().sum::<u128>();
    match eqn.op {
        Op::Scan => Some(sum * u128::try_from(program.attr(eqn.attrs[1]).int()?).ok()?),
        Op::While | Op::WhileBack => (sum == 0).then_some(0),
        Op::Switch => all.iter().max().copied(),
        _ => Some(sum),
    }
}

/// Returns the size of a value in bytes.
pub fn bytes(aval: &Aval) -> Option<Poly> {
    let size = Poly::constant(aval.dtype?.size() as i128);
    aval.shape.elements()?.times(&size)
}

/// Returns the total of `ops` over `n` elements. `n` is only needed for counts that are not 0.
fn times(ops: Ops, n: impl Fn() -> Option<Poly>) -> (Option<Poly>, Option<Poly>) {
    let total = |each: u32| match each {
        0 => Some(Poly::ZERO),
        _ => n()?.times(&Poly::constant(each.into())),
    };
    (total(ops.flops), total(ops.transcendentals))
}

/// Returns the number of rows that an op works on.
fn rows(program: &Program, eqn: &Eqn) -> Option<Poly> {
    let at = [StaticKind::Axes, StaticKind::Axis].map(|kind| eqn.op.static_at(kind));
    let axes = at.into_iter().flatten().next();
    let axes = axes.map_or(Static::Int(-1), |i| program.attr(eqn.attrs[i]).clone());
    let x = &program.aval(eqn.args[0]).shape;
    shape::reduce(x, &axes, &false.into()).ok()?.elements()
}

/// Returns the flops of a matrix product: two for each element of `x y` and each inner index.
fn product(program: &Program, eqn: &Eqn) -> Option<Poly> {
    let likes = eqn.likes();
    let [x, y] = [program.aval(likes[0]), program.aval(likes[1])];
    let xy = Op::Matmul.infer(&[], &[x, y, x, y], 1).ok()?;
    let (x, y) = (x.shape.dims()?, y.shape.dims()?);
    let inner = x.last()?.meet(y[y.len().saturating_sub(2)]);
    let factors = [xy[0].shape.elements()?, inner.poly()?, Poly::constant(2)];
    Poly::product(&factors)
}

/// Returns the number of pairs of a query and a key.
fn pairs(program: &Program, eqn: &Eqn) -> Option<Poly> {
    let [q, k] = [0, 1].map(|i| program.aval(eqn.args[i]).shape.dims());
    let (q, k) = (q?, k?);
    let queries = q[..q.len() - 1].iter().copied();
    let dims: Option<Vec<Poly>> = queries.chain([k[k.len() - 2]]).map(|d| d.poly()).collect();
    Poly::product(&dims?)
}

/// Returns the flops for each pair of a query and a key.
///
/// `products` has the number of products with the features of a query and of a value.
fn multiplied(program: &Program, eqn: &Eqn, products: [u32; 2]) -> Option<Poly> {
    let mut total = Poly::ZERO;
    for (operand, n) in [0, 2].into_iter().zip(products) {
        if n > 0 {
            let features = program
                .aval(eqn.args[operand])
                .shape
                .dims()?
                .last()?
                .poly()?;
            total = total.plus(&features.times(&Poly::constant(2 * i128::from(n)))?)?;
        }
    }
    Some(total)
}

fn traffic(program: &Program, eqn: &Eqn) -> Option<Poly> {
    let mut values: Vec<Var> = eqn.data().to_vec();
    values.sort_unstable();
    values.dedup();
    values.extend(&eqn.outs);
    let mut values = values.into_iter();
    values.try_fold(Poly::ZERO, |sum, v| sum.plus(&bytes(program.aval(v))?))
}

#[cfg(test)]
mod tests {
    use super::{of_eqn, of_program};
    use crate::{Op, Program, Symbol};

    /// Returns flops, transcendentals and bytes of the last equation.
    fn cost(params: &str, eqn: &str) -> String {
        let out = eqn.split([',', '=']).next().unwrap();
        let text = format!("({params}) {{ {eqn} return {out} }}");
        let program: Program = text.parse().expect(&text);
        let cost = of_eqn(&program, program.eqns.last().unwrap());
        let show = |p: &Option<crate::Poly>| p.as_ref().map_or("?".to_owned(), |p| p.to_string());
        [&cost.flops, &cost.transcendentals, &cost.bytes]
            .map(show)
            .join("; ")
    }

    #[test]
    fn each_class_of_ops_is_counted() {
        for (params, eqn, expected) in [
            ("x: f32[B, 3]", "y = neg x", "3*B; 0; 24*B"),
            ("x: f64[B]", "y = exp x", "0; B; 16*B"),
            (
                "x: f32[B, 1], y: f32[4]",
                "z = add x, y",
                "4*B; 0; 20*B + 16",
            ),
            ("x: f32[B]", "z = mul x, x", "B; 0; 8*B"),
            ("x: f32[B]", "z = lt x, x", "B; 0; 5*B"),
            ("x: f32[B, 3]", "y = transpose x", "0; 0; 0"),
            (
                "x: f32[B, 3]",
                "y = cast[dtype=f64] x, like x",
                "0; 0; 36*B",
            ),
            (
                "x: f32[B, 3]",
                "y = sum[axes=[1], keepdims=false] x, like x",
                "3*B; 0; 16*B",
            ),
            (
                "x: f32[B, 3]",
                "y = mean[axes=all, keepdims=false] x, like x",
                "3*B + 1; 0; 12*B + 4",
            ),
            (
                "x: f32[B, 10]",
                "y = log_softmax[axis=-1] x",
                "40*B; 11*B; 80*B",
            ),
            (
                "x: f32[B, 10], l: i64[B]",
                "y = cross_entropy x, l",
                "33*B; 11*B; 48*B + 4",
            ),
            (
                "x: f32[B, 8], w: f32[8], b: f32[8]",
                "y = layer_norm[eps=0.1] x, w, b",
                "59*B; B; 64*B + 64",
            ),
            (
                "x: f32[B, I], w: f32[I, O]",
                "y = matmul x, w, like x, like w",
                "2*B*I*O; 0; 4*B*I + 4*B*O + 4*I*O",
            ),
            (
                "x: f32[H, B, 3], w: f32[3]",
                "y = matmul x, w, like x, like w",
                "6*B*H; 0; 16*B*H + 12",
            ),
            (
                "ct: f32[B, O], w: f32[I, O], x: f32[B, I]",
                "y = matmul_lhs_t ct, w, like x, like w",
                "2*B*I*O; 0; 4*B*I + 4*B*O + 4*I*O",
            ),
            (
                "q: f32[B, T, 4], k: f32[B, S, 4], v: f32[B, S, 2]",
                "y = attention[causal=true] q, k, v",
                "16*B*S*T; B*S*T; 24*B*S + 24*B*T",
            ),
            (
                "x: f32[B, 4, 8], w: f32[6, 2, 3]",
                "y = conv[strides=1, padding=0, dilation=1, groups=2] x, w, like x, like w",
                "432*B; 0; 272*B + 144",
            ),
            (
                "x: f32[B, 8]",
                "y = max_pool[window=[2], strides=2, padding=0] x",
                "8*B; 0; 48*B",
            ),
            ("x: f32[B, 3]", "y = full_like[value=0.0] like x", "0; 0; 0"),
        ] {
            assert_eq!(cost(params, eqn), expected, "{eqn}");
        }
    }

    #[test]
    fn costs_that_depend_on_unknown_shapes_or_dtypes_are_none() {
        for (params, eqn, expected) in [
            ("x: ?[B]", "y = neg x", "B; 0; ?"),
            ("x: f32[?]", "y = neg x", "?; 0; ?"),
            ("x: f32[..]", "y = exp x", "0; ?; ?"),
            ("x: ?[..]", "y = transpose x", "0; 0; 0"),
            (
                "x: f32[B, 3]",
                "y = mean[axes=`a`, keepdims=false] x, like x",
                "?; 0; ?",
            ),
            (
                "x: f32[B, 3]",
                "y = sum[axes=`a`, keepdims=false] x, like x",
                "3*B; 0; ?",
            ),
            (
                "x: f32[?, 3], w: f32[3, 4]",
                "y = matmul x, w, like x, like w",
                "?; 0; ?",
            ),
            (
                "x: f32[B, ?], w: f32[3, 4]",
                "y = matmul x, w, like x, like w",
                "24*B; 0; ?",
            ),
            ("x: f32[2]", "y = call[callee=`f`] x", "?; ?; ?"),
        ] {
            assert_eq!(cost(params, eqn), expected, "{eqn}");
        }
    }

    /// Returns a sample with a name in place of each length: `D3` for 3.
    fn named(sample: &str) -> String {
        let (params, body) = sample.split_once('{').unwrap();
        let mut text = String::new();
        let mut inside = false;
        for c in params.chars() {
            inside = (inside || c == '[') && c != ']';
            if inside && c.is_ascii_digit() {
                text.push('D');
            }
            text.push(c);
        }
        format!("{text}{{{body}")
    }

    #[test]
    fn every_op_has_a_cost_and_formulas_agree_with_numbers() {
        let value = |s: Symbol| s.as_str().strip_prefix('D')?.parse().ok();
        for op in Op::ALL {
            for sample in op.def().laws().samples {
                let known: Program = sample.parse().expect(sample);
                let symbolic: Program = named(sample).parse().expect(sample);
                let (known, symbolic) = (of_program(&known), of_program(&symbolic));
                for (known, symbolic) in [
                    (known.flops, symbolic.flops),
                    (known.transcendentals, symbolic.transcendentals),
                    (known.bytes, symbolic.bytes),
                ] {
                    let number = known.and_then(|p| p.as_constant());
                    assert!(number.is_some(), "{sample}");
                    if let Some(symbolic) = symbolic {
                        assert_eq!(symbolic.eval(value), number, "{sample}: {symbolic}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_cost_of_a_program_is_the_sum_over_its_equations() {
        let program: Program = "(x: f32[B, 3], w: f32[3, 4]) {
            h = matmul x, w, like x, like w
            y = tanh h
            z = sum[axes=all, keepdims=false] y, like y
            return z
        }"
        .parse()
        .unwrap();
        let cost = of_program(&program);
        assert_eq!(cost.flops.unwrap().to_string(), "28*B");
        assert_eq!(cost.transcendentals.unwrap().to_string(), "4*B");
        // 12 B + 48 + 16 B, then 2 times 16 B, then 16 B + 4
        assert_eq!(cost.bytes.unwrap().to_string(), "76*B + 52");
    }
}
