//! Times single ops and their gradients, in microseconds, and compares them with files of peers.
//!
//! ```sh
//! python examples/peers/ops.py --peer jax > jax.tsv
//! python examples/peers/ops.py --peer torch > torch.tsv
//! cargo run --release --bin ops -- --against jax.tsv,torch.tsv
//! cargo run --release --bin ops -- --only conv --threads 2
//! ```
//!
//! Each line has the name of a case, the time, that of each peer, and the ratio of the best peer to Gradloom. The cases
//! are those of `examples/peers/ops.py`, by name: the shapes are equal, and the numbers are random.

use gradloom::prelude::*;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Least time for which a case runs.
const MIN_TIME: Duration = Duration::from_millis(200);

/// The cases that were timed, and which ones to time.
struct Timer {
    only: String,
    found: Vec<(String, f64)>,
}

impl Timer {
    /// Times a case.
    fn run(&mut self, name: &str, case: impl Fn() -> Tensor) {
        if !name.contains(&self.only) {
            return;
        }
        let once = || {
            let start = Instant::now();
            gradloom::evaluate(black_box(&case())).expect("the case is computed");
            start.elapsed().as_secs_f64()
        };
        // The first runs plan, and fill caches.
        for _ in 0..3 {
            once();
        }
        let start = Instant::now();
        let mut best = f64::INFINITY;
        while start.elapsed() < MIN_TIME {
            best = best.min(once());
        }
        println!("{name}\t{:.1}", best * 1e6);
        self.found.push((name.to_owned(), best * 1e6));
    }

    /// Times the gradient of the sum of the elements of `f(x)`.
    fn slope(&mut self, name: &str, x: &Tensor, f: impl Fn(&Tensor) -> Tensor) {
        let slope = grad(|x: &Tensor| f(x).sum(..));
        self.run(name, || slope(x));
    }
}

/// Returns the tensor, evaluated.
fn ready(x: impl AsRef<Tensor>) -> Tensor {
    let x = x.as_ref().clone();
    gradloom::evaluate(&x).expect("the operand is computed");
    x
}

/// Returns standard normal numbers.
fn normal(shape: &[usize]) -> Tensor {
    ready(Key::new(shape.iter().sum::<usize>() as u64).normal(shape, DType::F32))
}

/// Returns uniform integers from `low` to `high - 1`.
fn integers(shape: &[usize], low: f64, high: f64, dtype: DType) -> Tensor {
    let unit = Key::new(shape.len() as u64).uniform(shape, DType::F64);
    ready((unit * (high - low) + low).cast(dtype))
}

/// Returns the first rows and columns of a matrix, stored as a whole.
fn corner(x: &Tensor, rows: i64, columns: i64) -> Tensor {
    ready(x.slice([0, 0], [rows, columns], [1, 1]) + 0.0)
}

/// Operands of several families.
struct Operands {
    /// `f32[1000, 1000]`
    x: Tensor,
    /// `f32[1000, 1000]`, from 0.1 on.
    pos: Tensor,
    /// The elements of `x` as `f64`.
    x64: Tensor,
    /// `f32[1000000]`
    long: Tensor,
    /// `i64[1000]`, a permutation.
    order: Tensor,
}

impl Operands {
    fn new() -> Operands {
        let x = normal(&[1000, 1000]);
        Operands {
            pos: ready(x.abs() + 0.1),
            x64: ready(x.cast(DType::F64)),
            x,
            long: normal(&[1_000_000]),
            order: ready(Key::new(1).permutation(1000)),
        }
    }
}

fn elementwise(t: &mut Timer, of: &Operands) {
    let Operands {
        x, pos, x64, long, ..
    } = of;
    let (other, small) = (normal(&[1_000_000]), ready(x * 0.1));
    let (row, column) = (normal(&[1, 1000]), normal(&[1000, 1]));
    let (is_up, is_low) = (ready(x.gt(0.0)), ready(x.lt(1.0)));
    let magnitudes = ready(x64.abs());
    let shapes = ready(pos.reshape([1_000_000]).slice([0], [250_000], [1]) + 0.5);
    t.run("add", || long + &other);
    t.run("axpy", || long * 2.0 + &other);
    t.run("div", || x / pos);
    t.run("row_scale", || x * &row);
    t.run("column_scale", || x * &column);
    t.run("outer_add", || &column + &row);
    t.run("lerp", || x + (pos - x) * 0.3);
    t.run("maximum", || x.maximum(pos));
    t.run("clamp", || x.clamp(-1.0, 1.0));
    t.run("relu", || x.relu());
    t.run("leaky_relu", || x.leaky_relu(0.01));
    t.run("abs", || x.abs());
    t.run("sign", || x.sign());
    t.run("round", || x.round());
    t.run("where", || x.gt(0.0).select(x, pos));
    t.slope("where_grad", x, |x| x.gt(0.0).select(x * 2.0, x * x));
    t.run("gt", || x.gt(pos));
    t.run("and", || &is_up & &is_low);
    t.run("not", || !&is_up);
    t.run("exp", || x.exp());
    t.run("exp_f64", || x64.exp());
    t.run("expm1", || x.expm1());
    t.run("log", || pos.log());
    t.run("log_f64", || magnitudes.log());
    t.run("log1p", || pos.log1p());
    t.run("logaddexp", || x.logaddexp(pos));
    t.run("sqrt", || pos.sqrt());
    t.run("rsqrt", || pos.rsqrt());
    t.run("cbrt", || x.cbrt());
    t.run("hypot", || x.hypot(pos));
    t.run("pow", || pos.pow(x));
    t.run("pow2", || x.pow(2.0));
    t.run("pow3", || x.pow(3.0));
    t.slope("pow3_grad", x, |x| x.pow(3.0));
    t.run("pow_1.7", || pos.pow(1.7));
    t.run("sin", || x.sin());
    t.run("sin_f64", || x64.sin());
    t.run("asin", || small.asin());
    t.run("atan", || x.atan());
    t.run("atan2", || x.atan2(pos));
    t.run("sinh", || x.sinh());
    t.run("acosh", || (pos + 1.0).acosh());
    t.run("tanh", || x.tanh());
    t.run("tanh_f64", || x64.tanh());
    t.run("sigmoid", || x.sigmoid());
    t.run("elu", || x.elu(1.0));
    t.run("mish", || x.mish());
    t.run("gelu", || x.gelu());
    t.slope("gelu_grad", x, |x| x.gelu());
    t.slope("silu_grad", x, |x| x.silu());
    t.slope("softplus_grad", x, |x| x.softplus());
    t.run("erf", || x.erf());
    t.run("erf_inv", || small.erf_inv());
    t.run("lgamma", || pos.lgamma());
    t.run("digamma", || pos.digamma());
    t.run("i0", || x.i0());
    t.run("gammainc", || shapes.gammainc(&shapes));
    t.run("zeta", || (&shapes + 1.0).zeta(&shapes));
}

fn conversions(t: &mut Timer, of: &Operands) {
    let Operands { x, pos, x64, .. } = of;
    let i32s = integers(&[1000, 1000], 1.0, 1000.0, DType::I32);
    let divisors = integers(&[1000, 1000], 1.0, 50.0, DType::I32);
    let i64s = ready(i32s.cast(DType::I64));
    let many = integers(&[1_000_000], 0.0, 1e6, DType::I64);
    let is_up = ready(x.gt(0.0));
    t.run("f32_to_i32", || x.cast(DType::I32));
    t.run("f32_to_f64", || x.cast(DType::F64));
    t.run("f32_to_bf16", || x.cast(DType::BF16));
    t.run("f64_to_f32", || x64.cast(DType::F32));
    t.run("i32_to_f32", || i32s.cast(DType::F32));
    t.run("i64_to_f32", || i64s.cast(DType::F32));
    t.run("bool_to_f32", || is_up.cast(DType::F32));
    t.run("bf16_add", || x.cast(DType::BF16) + pos.cast(DType::BF16));
    t.run("quotient_i32", || &i32s / &divisors);
    t.run("mod_i32", || i32s.mod_floor(&divisors));
    t.run("mod_i64", || many.mod_floor(1000));
    t.run("shift", || &i32s << 3);
}

fn reductions(t: &mut Timer, of: &Operands) {
    let Operands {
        x, pos, x64, long, ..
    } = of;
    let (cube, short, points) = (
        normal(&[64, 96, 128]),
        normal(&[20_000, 8]),
        normal(&[200_000, 3]),
    );
    let rows = normal(&[4096, 256]);
    let i32s = integers(&[1000, 1000], 1.0, 1000.0, DType::I32);
    let i64s = integers(&[1_000_000], 0.0, 1e6, DType::I64);
    t.run("sum_all", || long.sum(..));
    t.run("sum0", || x.sum(0));
    t.run("sum0_f64", || x64.sum(0));
    t.run("sum_middle", || cube.sum(1));
    t.run("sum_8", || short.sum(1));
    t.run("sum_3", || points.sum(1));
    t.run("sum_i32", || i32s.sum(1));
    t.run("sum_i64", || i64s.sum(..));
    t.run("mean_f64", || x64.mean(1));
    t.run("max_all", || long.max(..));
    t.run("max_middle", || cube.max(1));
    t.run("max_i32", || i32s.max(1));
    t.run("max_i64", || i64s.max(..));
    t.slope("max_grad", x, |x| x.max(1));
    t.run("min0", || x.min(0));
    t.run("prod1", || pos.prod(1));
    t.run("prod0", || pos.prod(0));
    t.slope("prod_grad", pos, |x| x.prod(1));
    t.run("argmax1", || x.argmax(1));
    t.run("argmax0", || x.argmax(0));
    t.run("argmax_all", || long.argmax(0));
    t.run("argmin0_f64", || x64.argmin(0));
    t.run("any1", || x.gt(3.0).any(1));
    t.run("all0", || x.gt(-3.0).all(0));
    t.run("is_nan_any", || x.is_nan().any(..));
    t.run("logsumexp1", || x.logsumexp(1));
    t.run("logsumexp0", || x.logsumexp(0));
    t.run("logsumexp_all", || long.logsumexp(..));
    t.run("var1", || rows.var(-1, 0));
    t.run("var0", || rows.var(0, 0));
    t.slope("var1_grad", &rows, |x| x.var(-1, 0));
    t.slope("std0_grad", &rows, |x| x.std(0, 0));
    t.run("std_all", || long.std(.., 0));
    t.run("norm_all", || long.square().sum(..).sqrt());
    t.run("norm_3", || points.square().sum(1).sqrt());
    t.slope("unit_3_grad", &points, |x| {
        (x / x.square().sum_keepdims(1).sqrt()).select_index(1, 0)
    });
    t.run("softmax", || x.softmax(1));
    t.run("softmax0", || x.softmax(0));
    t.run("softmax_8", || short.softmax(1));
    t.run("dot", || long.matmul(long));
    t.run("row_dots", || (x * pos).sum(1));
}

fn scans_and_orders(t: &mut Timer, of: &Operands) {
    let Operands {
        x, pos, x64, long, ..
    } = of;
    let i64s = integers(&[1_000_000], 0.0, 1e6, DType::I64);
    t.run("cumsum1", || x.cumsum(1));
    t.run("cumsum0", || x.cumsum(0));
    t.run("cumsum_all", || long.cumsum(0));
    t.slope("cumsum1_grad", x, |x| x.cumsum(1).square());
    t.slope("cumsum0_grad", x, |x| x.cumsum(0).square());
    t.run("cumprod1", || pos.cumprod(1));
    t.slope("cumprod1_grad", pos, |x| x.cumprod(1));
    t.run("cummax1", || x.cummax(1));
    t.run("cummax0", || x.cummax(0));
    t.slope("cummax1_grad", x, |x| x.cummax(1));
    t.run("cumlogsumexp1", || x.cumlogsumexp(1));
    t.run("sort_all", || long.sort(0));
    t.run("sort1", || x.sort(-1));
    t.run("sort1_f64", || x64.sort(1));
    t.run("sort_i64", || i64s.sort(0));
    t.run("argsort1", || x.argsort(-1));
    t.run("median1", || x.median(-1));
    t.run("top_10", || x.top_k(10, -1));
    t.run("top_100", || x.top_k(100, 1));
    t.run("top_10_all", || long.top_k(10, -1));
    t.slope("top_5_grad", x, |x| x.top_k(5, 1));
    t.slope("sort1_grad", x, |x| {
        x.sort(1).slice([0, 0], [1000, 10], [1, 1])
    });
}

fn movement(t: &mut Timer, of: &Operands) {
    let Operands { x, pos, .. } = of;
    t.run("concat1", || Tensor::concat(&[x, x], 1));
    t.run("stack1", || Tensor::stack(&[x, x], 1));
    t.run("tile", || x.tile([1, 2]));
    t.run("repeat1", || x.repeat(2, 1));
    t.run("pad", || x.pad([1, 1], [1, 1], 0, 0.0));
    t.run("roll1", || x.roll(7, 1));
    t.run("flip1", || x.flip(1));
    t.run("tril", || x.tril(0));
    t.run("transpose", || x.transpose() + 0.0);
    t.run("diagonal", || x.diagonal(0) + 0.5);
    t.run("add_eye", || x + Tensor::eye(1000, DType::F32));
    t.run("diff1", || {
        x.slice([0, 1], [1000, 1000], [1, 1]) - x.slice([0, 0], [1000, 999], [1, 1])
    });
    t.slope("concat_grad", x, |x| {
        Tensor::concat(&[x.clone(), x * 2.0], 1).square()
    });
    t.slope("slice_grad", x, |x| {
        x.slice([100, 100], [900, 900], [1, 1]).square()
    });
    t.slope("flip_grad", pos, |y| y.flip(1) * x);
}

fn indexing(t: &mut Timer, of: &Operands) {
    let Operands { x, long, order, .. } = of;
    let table = normal(&[1000, 256]);
    let (words, places) = (
        integers(&[5000], 0.0, 1000.0, DType::I64),
        integers(&[4000], 0.0, 1000.0, DType::I64),
    );
    let updates = normal(&[4000, 256]);
    let columns = integers(&[1000, 1000], 0.0, 999.0, DType::I64);
    let labels = integers(&[100_000], 0.0, 100.0, DType::I64);
    let segments = integers(&[1_000_000], 0.0, 1000.0, DType::I64);
    t.run("embed", || table.take(&words, 0));
    t.slope("embed_grad", &table, |x| x.take(&words, 0).square());
    t.run("take_rows", || x.take(order, 0));
    t.run("take_columns", || x.take(order, 1));
    t.slope("take_rows_grad", x, |x| x.take(order, 0).square());
    t.slope("take_columns_grad", x, |x| x.take(order, 1).square());
    t.run("along1", || x.take_along_axis(&columns, 1));
    t.slope("along1_grad", x, |x| x.take_along_axis(&columns, 1));
    t.run("scatter_set", || table.scatter_set(order, &table, 0));
    t.run("scatter_add", || table.scatter_add(&places, &updates, 0));
    t.run("segment_sum", || long.segment_sum(&segments, 1000));
    t.run("segment_max", || long.segment_max(&segments, 1000));
    t.run("one_hot", || labels.one_hot(100, DType::F32));
    t.run("bincount", || words.bincount(1000));
}

fn windows(t: &mut Timer) {
    let image = normal(&[4, 32, 56, 56]);
    let weights = |shape: &[usize]| ready(normal(shape) * 0.1);
    let (deep, one) = (weights(&[64, 32, 3, 3]), weights(&[64, 32, 1, 1]));
    let (each, grouped) = (weights(&[32, 1, 3, 3]), weights(&[64, 8, 3, 3]));
    let (signal, kernel) = (normal(&[8, 32, 1000]), weights(&[64, 32, 5]));
    let (wide, up) = (normal(&[4, 16, 64, 64]), weights(&[16, 8, 4, 4]));
    let (maps, last) = (normal(&[8, 16, 64, 64]), normal(&[8, 64, 7, 7]));
    t.run("conv3", || image.conv(&deep, 1, 1, 1, 1));
    t.slope("conv3_grad", &image, |x| x.conv(&deep, 1, 1, 1, 1).square());
    t.slope("conv3_weights_grad", &deep, |w| {
        image.conv(w, 1, 1, 1, 1).square()
    });
    t.run("conv3_stride2", || image.conv(&deep, 2, 1, 1, 1));
    t.slope("conv3_stride2_grad", &image, |x| {
        x.conv(&deep, 2, 1, 1, 1).square()
    });
    t.slope("conv3_stride2_weights_grad", &deep, |w| {
        image.conv(w, 2, 1, 1, 1).square()
    });
    t.run("conv3_dilated", || image.conv(&deep, 1, 2, 2, 1));
    t.run("conv1", || image.conv(&one, 1, 0, 1, 1));
    t.slope("conv1_weights_grad", &one, |w| {
        image.conv(w, 1, 0, 1, 1).square()
    });
    t.run("conv_depthwise", || image.conv(&each, 1, 1, 1, 32));
    t.slope("conv_depthwise_grad", &image, |x| {
        x.conv(&each, 1, 1, 1, 32).square()
    });
    t.slope("conv_depthwise_weights_grad", &each, |w| {
        image.conv(w, 1, 1, 1, 32).square()
    });
    t.run("conv_groups", || image.conv(&grouped, 1, 1, 1, 4));
    t.slope("conv_groups_weights_grad", &grouped, |w| {
        image.conv(w, 1, 1, 1, 4).square()
    });
    t.run("conv_1d", || signal.conv(&kernel, 1, 0, 1, 1));
    t.run("conv_transpose", || wide.conv_transpose(&up, 2, 1, 1, 1));
    t.slope("conv_transpose_grad", &wide, |x| {
        x.conv_transpose(&up, 2, 1, 1, 1).square()
    });
    t.run("max_pool2", || maps.max_pool(2, 2, 0));
    t.slope("max_pool2_grad", &maps, |x| x.max_pool(2, 2, 0).square());
    t.run("max_pool3", || image.max_pool([3, 3], 2, 1));
    t.slope("max_pool3_grad", &image, |x| {
        x.max_pool([3, 3], 2, 1).square()
    });
    t.run("avg_pool2", || maps.avg_pool([2, 2], 2, 0));
    t.slope("avg_pool2_grad", &image, |x| {
        x.avg_pool([2, 2], 2, 0).square()
    });
    t.run("global_mean", || last.mean([2, 3]));
    t.run("upsample2", || maps.upsample([2, 2]));
    t.slope("upsample2_grad", &wide, |x| x.upsample([2, 2]).square());
}

fn products(t: &mut Timer, of: &Operands) {
    let Operands { x, x64, long, .. } = of;
    let (tall, flat) = (normal(&[4096, 64]), normal(&[64, 4096]));
    let (square, large) = (normal(&[512, 512]), normal(&[2048, 2048]));
    let vector = ready(long.slice([0], [2048], [1]) + 0.0);
    let (batch, words) = (normal(&[256, 64, 64]), normal(&[32, 128, 64]));
    let weights = normal(&[64, 64]);
    let heads = normal(&[4, 8, 256, 32]);
    let small = corner(x, 32, 32);
    let (left, right) = (corner(x, 1000, 8), corner(x, 8, 1000));
    let (i32s, thin) = (
        integers(&[256, 256], 0.0, 1000.0, DType::I32),
        corner(x, 1000, 64),
    );
    let few = normal(&[2000, 8]);
    t.run("product_32", || small.matmul(&small));
    t.run("product_512", || square.matmul(&square));
    t.run("product_512_right_transposed", || {
        square.matmul(square.transpose())
    });
    t.run("product_512_transposed", || {
        square.transpose().matmul(square.transpose())
    });
    t.run("product_f64", || x64.matmul(x64));
    t.run("product_i32", || i32s.matmul(&i32s));
    t.run("product_bf16", || {
        square.cast(DType::BF16).matmul(square.cast(DType::BF16))
    });
    t.run("product_outer", || tall.matmul(&flat));
    t.run("product_inner", || flat.matmul(&tall));
    t.run("product_of_8", || left.matmul(&right));
    t.run("gram", || x.transpose().matmul(x));
    t.run("matrix_vector", || large.matmul(&vector));
    t.run("vector_matrix", || vector.matmul(&large));
    t.run("batch", || batch.matmul(&batch));
    t.run("batch_transposed", || batch.matmul(batch.swap_axes(-1, -2)));
    t.run("words_weights", || words.matmul(&weights));
    t.run("words_words", || words.matmul(words.swap_axes(1, 2)));
    t.run("scores", || heads.matmul(heads.swap_axes(-1, -2)));
    t.run("attention", || heads.attention(&heads, &heads));
    t.run("attention_causal", || {
        heads.causal_attention(&heads, &heads)
    });
    t.slope("attention_grad", &heads, |x| x.attention(x, x).square());
    t.run("triangle_times", || x.tril(0).matmul(&thin));
    t.run("batch_outer", || few.unsqueeze(2) * few.unsqueeze(1));
    t.run("outer", || {
        left.reshape([8000, 1]) * right.reshape([1, 8000]).slice([0, 0], [1, 2000], [1, 1])
    });
}

fn linear_algebra(t: &mut Timer, of: &Operands) {
    let batch = normal(&[64, 32, 32]);
    let one = Tensor::eye(32, DType::F32);
    let general = ready(&batch + &one * 6.0);
    let positive = ready(batch.matmul(batch.swap_axes(1, 2)) + &one * 5.0);
    let (of_64, of_128) = (corner(&of.x, 64, 64), corner(&of.x, 128, 128));
    let of_4 = ready(
        of.x.reshape([62_500, 4, 4])
            .slice([0, 0, 0], [10_000, 4, 4], [1, 1, 1])
            + 0.0,
    );
    let of_8 = ready(
        of.x.reshape([15_625, 8, 8])
            .slice([0, 0, 0], [1000, 8, 8], [1, 1, 1])
            + 0.0,
    );
    t.run("cholesky", || positive.cholesky());
    t.slope("cholesky_grad", &positive, |x| x.cholesky());
    t.run("solve_128", || of_128.solve(&of_128));
    t.slope("solve_grad", &general, |x| x.solve(&general));
    t.run("inv_128", || of_128.inv());
    t.run("inv_4", || of_4.inv());
    t.slope("inv_grad", &general, |x| x.inv());
    t.run("det_32", || general.det());
    t.run("slogdet_32", || general.slogdet().1);
    t.slope("slogdet_grad", &general, |x| x.slogdet().1);
    t.run("qr_128", || of_128.qr().0);
    t.slope("qr_grad", &general, |x| {
        let (q, r) = x.qr();
        q.pow(3.0).sum(..) + r.sum(..)
    });
    t.run("svd_64", || of_64.svd().0);
    t.run("svd_8", || of_8.svd().0);
    t.slope("svd_grad", &general, |x| {
        let (u, s, _vt) = x.svd();
        u.pow(3.0).sum(..) + s.sum(..)
    });
    t.run("eigh_64", || of_64.eigh().1);
    t.run("eigh_8", || of_8.eigh().1);
    t.slope("eigh_grad", &positive, |x| {
        let (w, v) = x.eigh();
        v.pow(3.0).sum(..) + w.sum(..)
    });
    t.run("pinv_64", || of_64.pinv(1e-6));
    t.run("expm_64", || (&of_64 * 0.01).expm());
    t.run("kron", || {
        corner(&of_64, 40, 40).kron(corner(&of_64, 40, 40))
    });
    t.run("trace", || of.x.trace());
    t.run("trace_32", || general.diagonal(0).sum(-1));
    let rows = corner(&of.x, 200, 1000);
    t.run("cov", || rows.cov());
}

fn norms_and_losses(t: &mut Timer, of: &Operands) {
    let Operands { x, order, .. } = of;
    let image = normal(&[4, 32, 56, 56]);
    t.run("layer_norm", || x.normalize(1, 1e-5));
    t.run("batch_norm", || image.normalize([0, 2, 3], 1e-5));
    t.slope("batch_norm_grad", &image, |x| {
        x.normalize([0, 2, 3], 1e-5).pow(3.0)
    });
    t.run("group_norm", || {
        image.reshape([4, 8, 4 * 56 * 56]).normalize(2, 1e-5)
    });
    t.run("cross_entropy", || x.cross_entropy(order));
    t.slope("cross_entropy_grad", x, |x| x.cross_entropy(order));
    t.slope("log_softmax_grad", x, |x| {
        x.log_softmax(1).select_index(1, 0)
    });
}

fn random(t: &mut Timer) {
    let key = || Key::new(5);
    t.run("random_normal", || key().normal([1_000_000], DType::F32));
    t.run("random_uniform", || key().uniform([1_000_000], DType::F32));
    t.run("random_bernoulli", || key().bernoulli(0.3, [1_000_000]));
    t.run("random_permutation", || key().permutation(1_000_000));
}

/// Returns the times in a file, by name.
fn times(file: &str) -> HashMap<String, f64> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let of_line = |line: &str| {
        let (name, time) = line.split_once('\t')?;
        Some((name.to_owned(), time.parse().ok()?))
    };
    text.lines().filter_map(of_line).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        Some(
            args.get(at + 1)
                .unwrap_or_else(|| panic!("`{name}` takes a value"))
                .as_str(),
        )
    };
    let threads = option("--threads").map_or(1, |n| n.parse().expect("`--threads` takes a number"));
    gradloom::set_threads(threads);
    let mut timer = Timer {
        only: option("--only").unwrap_or_default().to_owned(),
        found: Vec::new(),
    };
    let operands = Operands::new();
    elementwise(&mut timer, &operands);
    conversions(&mut timer, &operands);
    reductions(&mut timer, &operands);
    scans_and_orders(&mut timer, &operands);
    movement(&mut timer, &operands);
    indexing(&mut timer, &operands);
    windows(&mut timer);
    products(&mut timer, &operands);
    linear_algebra(&mut timer, &operands);
    norms_and_losses(&mut timer, &operands);
    random(&mut timer);
    let Some(files) = option("--against") else {
        return;
    };
    let peers: Vec<HashMap<String, f64>> = files.split(',').map(times).collect();
    let mut rows: Vec<(f64, String)> = Vec::new();
    for (name, time) in &timer.found {
        let found: Vec<Option<f64>> = peers.iter().map(|peer| peer.get(name).copied()).collect();
        let best = found
            .iter()
            .flatten()
            .copied()
            .fold(f64::INFINITY, f64::min);
        if best.is_finite() {
            let others = found
                .iter()
                .map(|time| time.map_or("-".to_owned(), |t| format!("{t:.1}")));
            let others: Vec<String> = others.collect();
            rows.push((
                best / time,
                format!("{name}\t{time:.1}\t{}", others.join("\t")),
            ));
        }
    }
    rows.sort_by(|x, y| x.0.total_cmp(&y.0));
    println!("\n# name, us, us of each peer, ratio of the best one");
    for (ratio, row) in &rows {
        println!("{row}\t{ratio:.2}");
    }
    let logs: f64 = rows.iter().map(|row| row.0.ln()).sum();
    let lead = rows.iter().filter(|row| row.0 >= 1.0).count();
    let mean = (logs / rows.len() as f64).exp();
    println!(
        "# geometric mean {mean:.2}, {lead} of {} at 1.00 or above",
        rows.len()
    );
}
