"""Times the cases of the program `ops` in JAX or PyTorch.

    ops.py --peer jax|torch [--only conv] [--threads 1] [--min-time 0.2] [--cpu N]

Prints one line `name<tab>microseconds` per case: the least time of a call, as `ops` does. The shapes are those of `ops`
and the numbers are random. JAX runs compiled functions. A gradient is that of the sum of the elements.
"""

import argparse
import os
import sys
import time


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=["jax", "torch"], required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-time", type=float, default=0.2)
    parser.add_argument("--cpu", type=int, help="CPU for one thread; the last one by default")
    return parser.parse_args()


OPTIONS = options()
# Before the imports: both libraries read these when they start.
CPUS = sorted(os.sched_getaffinity(0))
if OPTIONS.threads == 1:
    os.sched_setaffinity(0, {CPUS[-1] if OPTIONS.cpu is None else OPTIONS.cpu})
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(OPTIONS.threads)
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np

RANDOM = np.random.RandomState(0)


def normal(*shape):
    return RANDOM.randn(*shape).astype("f4")


def integers(low, high, shape, dtype="i8"):
    return RANDOM.randint(low, high, shape).astype(dtype)


class Operands:
    """The operands, by name: arrays of numpy, and then of the library."""

    def __init__(self):
        self.x = normal(1000, 1000)
        self.pos = np.abs(self.x) + np.float32(0.1)
        self.small = self.x * np.float32(0.1)
        self.x64 = self.x.astype("f8")
        self.long, self.other = normal(1000000), normal(1000000)
        self.row, self.column = normal(1, 1000), normal(1000, 1)
        self.is_up, self.is_low = self.x > 0, self.x < 1
        self.shapes = self.pos.reshape(-1)[:250000] + np.float32(0.5)
        self.i32, self.divisors = integers(1, 1000, (1000, 1000), "i4"), integers(1, 50, (1000, 1000), "i4")
        self.i64, self.many = self.i32.astype("i8"), integers(0, 1000000, 1000000)
        self.cube, self.short, self.points = normal(64, 96, 128), normal(20000, 8), normal(200000, 3)
        self.rows, self.table = normal(4096, 256), normal(1000, 256)
        self.order = RANDOM.permutation(1000)
        self.words, self.places = integers(0, 1000, 5000), integers(0, 1000, 4000)
        self.updates, self.columns = normal(4000, 256), integers(0, 999, (1000, 1000))
        self.labels, self.segments = integers(0, 100, 100000), integers(0, 1000, 1000000)
        self.image, self.signal = normal(4, 32, 56, 56), normal(8, 32, 1000)
        self.deep, self.one = normal(64, 32, 3, 3) * 0.1, normal(64, 32, 1, 1) * 0.1
        self.each, self.grouped = normal(32, 1, 3, 3) * 0.1, normal(64, 8, 3, 3) * 0.1
        self.kernel, self.up = normal(64, 32, 5) * 0.1, normal(16, 8, 4, 4) * 0.1
        self.wide, self.maps, self.last = normal(4, 16, 64, 64), normal(8, 16, 64, 64), normal(8, 64, 7, 7)
        self.tall, self.flat, self.square, self.large = normal(4096, 64), normal(64, 4096), normal(512, 512), normal(2048, 2048)
        self.vector, self.batch, self.sentences = normal(2048), normal(256, 64, 64), normal(32, 128, 64)
        self.weights, self.heads, self.few = normal(64, 64), normal(4, 8, 256, 32), normal(2000, 8)
        self.left, self.right, self.thin = normal(1000, 8), normal(8, 1000), normal(1000, 64)
        self.of_32, self.of_64, self.of_128, self.of_200 = (normal(n, n) for n in (32, 64, 128, 200))
        self.i256 = integers(0, 1000, (256, 256), "i4")
        matrices = normal(64, 32, 32)
        self.general = matrices + 6 * np.eye(32, dtype="f4")
        self.positive = matrices @ matrices.transpose(0, 2, 1) + 5 * np.eye(32, dtype="f4")
        self.of_4, self.of_8, self.of_40 = normal(10000, 4, 4), normal(1000, 8, 8), normal(40, 40)
        self.rows_200 = normal(200, 1000)

    def each_as(self, of):
        for name, value in vars(self).items():
            setattr(self, name, of(value))
        return self


def torch_cases():
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(OPTIONS.threads)
    o = Operands().each_as(torch.from_numpy)
    linalg, special = torch.linalg, torch.special

    def grad(f, x):
        x = x.clone().requires_grad_()

        def run():
            x.grad = None
            f(x).sum().backward()
            return x.grad

        return run

    def up(x):
        return F.interpolate(x, scale_factor=2)

    def attend(q, **kw):
        return F.scaled_dot_product_attention(q, q, q, **kw)

    def batch_norm(x):
        return F.batch_norm(x, None, None, training=True)

    def factors(f, cubed):
        def of(x):
            found = f(x)
            return (found[cubed] ** 3).sum() + found[1 - cubed].sum()

        return of

    return {
        "add": lambda: o.long + o.other,
        "axpy": lambda: o.long * 2 + o.other,
        "div": lambda: o.x / o.pos,
        "row_scale": lambda: o.x * o.row,
        "column_scale": lambda: o.x * o.column,
        "outer_add": lambda: o.column + o.row,
        "lerp": lambda: torch.lerp(o.x, o.pos, 0.3),
        "maximum": lambda: torch.maximum(o.x, o.pos),
        "clamp": lambda: o.x.clamp(-1, 1),
        "relu": lambda: o.x.relu(),
        "leaky_relu": lambda: F.leaky_relu(o.x),
        "abs": lambda: o.x.abs(),
        "sign": lambda: o.x.sign(),
        "round": lambda: o.x.round(),
        "where": lambda: torch.where(o.x > 0, o.x, o.pos),
        "where_grad": grad(lambda x: torch.where(x > 0, x * 2, x * x), o.x),
        "gt": lambda: o.x > o.pos,
        "and": lambda: o.is_up & o.is_low,
        "not": lambda: ~o.is_up,
        "exp": lambda: o.x.exp(),
        "exp_f64": lambda: o.x64.exp(),
        "expm1": lambda: o.x.expm1(),
        "log": lambda: o.pos.log(),
        "log_f64": (lambda x: lambda: x.log())(o.x64.abs()),
        "log1p": lambda: o.pos.log1p(),
        "logaddexp": lambda: torch.logaddexp(o.x, o.pos),
        "sqrt": lambda: o.pos.sqrt(),
        "rsqrt": lambda: o.pos.rsqrt(),
        "hypot": lambda: torch.hypot(o.x, o.pos),
        "pow": lambda: o.pos.pow(o.x),
        "pow2": lambda: o.x.pow(2),
        "pow3": lambda: o.x.pow(3),
        "pow3_grad": grad(lambda x: x.pow(3), o.x),
        "pow_1.7": lambda: o.pos.pow(1.7),
        "sin": lambda: o.x.sin(),
        "sin_f64": lambda: o.x64.sin(),
        "asin": lambda: o.small.asin(),
        "atan": lambda: o.x.atan(),
        "atan2": lambda: torch.atan2(o.x, o.pos),
        "sinh": lambda: o.x.sinh(),
        "acosh": lambda: (o.pos + 1).acosh(),
        "tanh": lambda: o.x.tanh(),
        "tanh_f64": lambda: o.x64.tanh(),
        "sigmoid": lambda: o.x.sigmoid(),
        "elu": lambda: F.elu(o.x),
        "mish": lambda: F.mish(o.x),
        "gelu": lambda: F.gelu(o.x),
        "gelu_grad": grad(F.gelu, o.x),
        "silu_grad": grad(F.silu, o.x),
        "softplus_grad": grad(F.softplus, o.x),
        "erf": lambda: o.x.erf(),
        "erf_inv": lambda: o.small.erfinv(),
        "lgamma": lambda: o.pos.lgamma(),
        "digamma": lambda: o.pos.digamma(),
        "i0": lambda: special.i0(o.x),
        "gammainc": lambda: special.gammainc(o.shapes, o.shapes),
        "zeta": lambda: special.zeta(o.shapes + 1, o.shapes),
        "f32_to_i32": lambda: o.x.int(),
        "f32_to_f64": lambda: o.x.double(),
        "f32_to_bf16": lambda: o.x.bfloat16(),
        "f64_to_f32": lambda: o.x64.float(),
        "i32_to_f32": lambda: o.i32.float(),
        "i64_to_f32": lambda: o.i64.float(),
        "bool_to_f32": lambda: o.is_up.float(),
        "bf16_add": lambda: o.x.bfloat16() + o.pos.bfloat16(),
        "quotient_i32": lambda: torch.div(o.i32, o.divisors, rounding_mode="trunc"),
        "mod_i32": lambda: o.i32 % o.divisors,
        "mod_i64": lambda: o.many % 1000,
        "shift": lambda: o.i32 << 3,
        "sum_all": lambda: o.long.sum(),
        "sum0": lambda: o.x.sum(0),
        "sum0_f64": lambda: o.x64.sum(0),
        "sum_middle": lambda: o.cube.sum(1),
        "sum_8": lambda: o.short.sum(1),
        "sum_3": lambda: o.points.sum(1),
        "sum_i32": lambda: o.i32.sum(1),
        "sum_i64": lambda: o.many.sum(),
        "mean_f64": lambda: o.x64.mean(1),
        "max_all": lambda: o.long.max(),
        "max_middle": lambda: o.cube.amax(1),
        "max_i32": lambda: o.i32.amax(1),
        "max_i64": lambda: o.many.max(),
        "max_grad": grad(lambda x: x.amax(1), o.x),
        "min0": lambda: o.x.amin(0),
        "prod1": lambda: o.pos.prod(1),
        "prod0": lambda: o.pos.prod(0),
        "prod_grad": grad(lambda x: x.prod(1), o.pos),
        "argmax1": lambda: o.x.argmax(1),
        "argmax0": lambda: o.x.argmax(0),
        "argmax_all": lambda: o.long.argmax(),
        "argmin0_f64": lambda: o.x64.argmin(0),
        "any1": lambda: (o.x > 3).any(1),
        "all0": lambda: (o.x > -3).all(0),
        "is_nan_any": lambda: o.x.isnan().any(),
        "logsumexp1": lambda: o.x.logsumexp(1),
        "logsumexp0": lambda: o.x.logsumexp(0),
        "logsumexp_all": lambda: o.long.logsumexp(0),
        "var1": lambda: o.rows.var(-1),
        "var0": lambda: o.rows.var(0),
        "var1_grad": grad(lambda x: x.var(-1), o.rows),
        "std0_grad": grad(lambda x: x.std(0), o.rows),
        "std_all": lambda: o.long.std(),
        "norm_all": lambda: o.long.norm(),
        "norm_3": lambda: o.points.norm(dim=1),
        "unit_3_grad": grad(lambda x: F.normalize(x, dim=1)[:, 0], o.points),
        "softmax": lambda: o.x.softmax(1),
        "softmax0": lambda: o.x.softmax(0),
        "softmax_8": lambda: o.short.softmax(1),
        "dot": lambda: o.long @ o.long,
        "row_dots": lambda: torch.einsum("ij,ij->i", o.x, o.pos),
        "cumsum1": lambda: o.x.cumsum(1),
        "cumsum0": lambda: o.x.cumsum(0),
        "cumsum_all": lambda: o.long.cumsum(0),
        "cumsum1_grad": grad(lambda x: x.cumsum(1) ** 2, o.x),
        "cumsum0_grad": grad(lambda x: x.cumsum(0) ** 2, o.x),
        "cumprod1": lambda: o.pos.cumprod(1),
        "cumprod1_grad": grad(lambda x: x.cumprod(1), o.pos),
        "cummax1": lambda: o.x.cummax(1),
        "cummax0": lambda: o.x.cummax(0),
        "cummax1_grad": grad(lambda x: x.cummax(1)[0], o.x),
        "cumlogsumexp1": lambda: o.x.logcumsumexp(1),
        "sort_all": lambda: o.long.sort(),
        "sort1": lambda: o.x.sort(-1),
        "sort1_f64": lambda: o.x64.sort(1),
        "sort_i64": lambda: o.many.sort(),
        "argsort1": lambda: o.x.argsort(-1),
        "median1": lambda: o.x.median(-1),
        "top_10": lambda: o.x.topk(10, -1),
        "top_100": lambda: o.x.topk(100, 1),
        "top_10_all": lambda: o.long.topk(10),
        "top_5_grad": grad(lambda x: x.topk(5, 1)[0], o.x),
        "sort1_grad": grad(lambda x: x.sort(1)[0][:, :10], o.x),
        "concat1": lambda: torch.cat([o.x, o.x], 1),
        "stack1": lambda: torch.stack([o.x, o.x], 1),
        "tile": lambda: o.x.repeat(1, 2),
        "repeat1": lambda: o.x.repeat_interleave(2, 1),
        "pad": lambda: F.pad(o.x, (1, 1, 1, 1)),
        "roll1": lambda: o.x.roll(7, 1),
        "flip1": lambda: o.x.flip(1),
        "tril": lambda: o.x.tril(),
        "transpose": lambda: o.x.T.contiguous(),
        "diagonal": lambda: o.x.diagonal() + 0.5,
        "add_eye": lambda: o.x + torch.eye(1000),
        "diff1": lambda: o.x.diff(dim=1),
        "concat_grad": grad(lambda x: torch.cat([x, x * 2], 1) ** 2, o.x),
        "slice_grad": grad(lambda x: x[100:900, 100:900] ** 2, o.x),
        "flip_grad": grad(lambda y: y.flip(1) * o.x, o.pos),
        "embed": lambda: o.table[o.words],
        "embed_grad": grad(lambda x: x[o.words] ** 2, o.table),
        "take_rows": lambda: o.x[o.order],
        "take_columns": lambda: o.x[:, o.order],
        "take_rows_grad": grad(lambda x: x[o.order] ** 2, o.x),
        "take_columns_grad": grad(lambda x: x[:, o.order] ** 2, o.x),
        "along1": lambda: o.x.gather(1, o.columns),
        "along1_grad": grad(lambda x: x.gather(1, o.columns), o.x),
        "scatter_set": lambda: o.table.index_copy(0, o.order, o.table),
        "scatter_add": lambda: o.table.index_add(0, o.places, o.updates),
        "segment_sum": lambda: torch.zeros(1000).index_add(0, o.segments, o.long),
        "segment_max": lambda: torch.full((1000,), -torch.inf).scatter_reduce(0, o.segments, o.long, "amax"),
        "one_hot": lambda: F.one_hot(o.labels, 100),
        "bincount": lambda: torch.bincount(o.words, minlength=1000),
        "conv3": lambda: F.conv2d(o.image, o.deep, padding=1),
        "conv3_grad": grad(lambda x: F.conv2d(x, o.deep, padding=1) ** 2, o.image),
        "conv3_weights_grad": grad(lambda w: F.conv2d(o.image, w, padding=1) ** 2, o.deep),
        "conv3_stride2": lambda: F.conv2d(o.image, o.deep, padding=1, stride=2),
        "conv3_stride2_grad": grad(lambda x: F.conv2d(x, o.deep, padding=1, stride=2) ** 2, o.image),
        "conv3_stride2_weights_grad": grad(lambda w: F.conv2d(o.image, w, padding=1, stride=2) ** 2, o.deep),
        "conv3_dilated": lambda: F.conv2d(o.image, o.deep, padding=2, dilation=2),
        "conv1": lambda: F.conv2d(o.image, o.one),
        "conv1_weights_grad": grad(lambda w: F.conv2d(o.image, w) ** 2, o.one),
        "conv_depthwise": lambda: F.conv2d(o.image, o.each, padding=1, groups=32),
        "conv_depthwise_grad": grad(lambda x: F.conv2d(x, o.each, padding=1, groups=32) ** 2, o.image),
        "conv_depthwise_weights_grad": grad(lambda w: F.conv2d(o.image, w, padding=1, groups=32) ** 2, o.each),
        "conv_groups": lambda: F.conv2d(o.image, o.grouped, padding=1, groups=4),
        "conv_groups_weights_grad": grad(lambda w: F.conv2d(o.image, w, padding=1, groups=4) ** 2, o.grouped),
        "conv_1d": lambda: F.conv1d(o.signal, o.kernel),
        "conv_transpose": lambda: F.conv_transpose2d(o.wide, o.up, stride=2, padding=1),
        "conv_transpose_grad": grad(lambda x: F.conv_transpose2d(x, o.up, stride=2, padding=1) ** 2, o.wide),
        "max_pool2": lambda: F.max_pool2d(o.maps, 2),
        "max_pool2_grad": grad(lambda x: F.max_pool2d(x, 2) ** 2, o.maps),
        "max_pool3": lambda: F.max_pool2d(o.image, 3, 2, 1),
        "max_pool3_grad": grad(lambda x: F.max_pool2d(x, 3, 2, 1) ** 2, o.image),
        "avg_pool2": lambda: F.avg_pool2d(o.maps, 2),
        "avg_pool2_grad": grad(lambda x: F.avg_pool2d(x, 2) ** 2, o.image),
        "global_mean": lambda: o.last.mean((2, 3)),
        "upsample2": lambda: up(o.maps),
        "upsample2_grad": grad(lambda x: up(x) ** 2, o.wide),
        "product_32": lambda: o.of_32 @ o.of_32,
        "product_512": lambda: o.square @ o.square,
        "product_512_right_transposed": lambda: o.square @ o.square.T,
        "product_512_transposed": lambda: o.square.T @ o.square.T,
        "product_f64": lambda: o.x64 @ o.x64,
        "product_i32": lambda: o.i256 @ o.i256,
        "product_bf16": lambda: o.square.bfloat16() @ o.square.bfloat16(),
        "product_outer": lambda: o.tall @ o.flat,
        "product_inner": lambda: o.flat @ o.tall,
        "product_of_8": lambda: o.left @ o.right,
        "gram": lambda: o.x.T @ o.x,
        "matrix_vector": lambda: o.large @ o.vector,
        "vector_matrix": lambda: o.vector @ o.large,
        "batch": lambda: o.batch @ o.batch,
        "batch_transposed": lambda: o.batch @ o.batch.transpose(1, 2),
        "words_weights": lambda: o.sentences @ o.weights,
        "words_words": lambda: o.sentences @ o.sentences.transpose(1, 2),
        "scores": lambda: o.heads @ o.heads.transpose(-1, -2),
        "attention": lambda: attend(o.heads),
        "attention_causal": lambda: attend(o.heads, is_causal=True),
        "attention_grad": grad(lambda x: attend(x) ** 2, o.heads),
        "triangle_times": lambda: o.x.tril() @ o.thin,
        "batch_outer": lambda: o.few[:, :, None] * o.few[:, None, :],
        "outer": lambda: o.left.reshape(8000, 1) * o.right.reshape(1, 8000)[:, :2000],
        "cholesky": lambda: linalg.cholesky(o.positive),
        "cholesky_grad": grad(linalg.cholesky, o.positive),
        "solve_128": lambda: linalg.solve(o.of_128, o.of_128),
        "solve_grad": grad(lambda x: linalg.solve(x, o.general), o.general),
        "inv_128": lambda: linalg.inv(o.of_128),
        "inv_4": lambda: linalg.inv(o.of_4),
        "inv_grad": grad(linalg.inv, o.general),
        "det_32": lambda: linalg.det(o.general),
        "slogdet_32": lambda: linalg.slogdet(o.general)[1],
        "slogdet_grad": grad(lambda x: linalg.slogdet(x)[1], o.general),
        "qr_128": lambda: linalg.qr(o.of_128),
        "qr_grad": grad(factors(linalg.qr, 0), o.general),
        "svd_64": lambda: linalg.svd(o.of_64, full_matrices=False),
        "svd_8": lambda: linalg.svd(o.of_8, full_matrices=False),
        "svd_grad": grad(factors(linalg.svd, 0), o.general),
        "eigh_64": lambda: linalg.eigh(o.of_64),
        "eigh_8": lambda: linalg.eigh(o.of_8),
        "eigh_grad": grad(factors(linalg.eigh, 1), o.positive),
        "pinv_64": lambda: linalg.pinv(o.of_64),
        "expm_64": lambda: torch.matrix_exp(o.of_64 * 0.01),
        "kron": lambda: torch.kron(o.of_40, o.of_40),
        "trace": lambda: o.x.trace(),
        "trace_32": lambda: torch.einsum("bii->b", o.general),
        "cov": lambda: torch.cov(o.rows_200),
        "layer_norm": lambda: F.layer_norm(o.x, (1000,)),
        "batch_norm": lambda: batch_norm(o.image),
        "batch_norm_grad": grad(lambda x: batch_norm(x) ** 3, o.image),
        "group_norm": lambda: F.group_norm(o.image, 8),
        "cross_entropy": lambda: F.cross_entropy(o.x, o.order),
        "cross_entropy_grad": grad(lambda x: F.cross_entropy(x, o.order), o.x),
        "log_softmax_grad": grad(lambda x: x.log_softmax(1)[:, 0], o.x),
        "random_normal": lambda: torch.randn(1000000),
        "random_uniform": lambda: torch.rand(1000000),
        "random_bernoulli": lambda: torch.rand(1000000) < 0.3,
        "random_permutation": lambda: torch.randperm(1000000),
    }


def jax_cases():
    import jax
    import jax.numpy as jnp
    import jax.scipy.special as special
    from jax import lax, nn

    jax.config.update("jax_enable_x64", True)
    o = Operands().each_as(jnp.asarray)
    linalg = jnp.linalg
    key = jax.random.key(5)

    def jit(f, *args):
        f = jax.jit(f)
        return lambda: jax.block_until_ready(f(*args))

    def grad(f, x, *args):
        return jit(jax.grad(lambda x, *args: f(x, *args).sum()), x, *args)

    def conv(x, w, stride=1, pad=1, dilation=1, groups=1):
        n = x.ndim - 2
        return lax.conv_general_dilated(
            x, w, (stride,) * n, [(pad, pad)] * n, rhs_dilation=(dilation,) * n, feature_group_count=groups
        )

    def conv_sum(**kw):
        return lambda x, w: conv(x, w, **kw) ** 2

    def weights_sum(**kw):
        return lambda w, x: conv(x, w, **kw) ** 2

    def conv_up(x, w):
        return lax.conv_transpose(x, w, (2, 2), ((2, 2), (2, 2)), dimension_numbers=("NCHW", "IOHW", "NCHW"))

    def pool(x, window, stride, pad, by, first):
        pads = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        return lax.reduce_window(x, first, by, (1, 1, window, window), (1, 1, stride, stride), pads)

    def max_pool(x, window, pad):
        return pool(x, window, 2, pad, lax.max, -jnp.inf)

    def avg_pool(x):
        return pool(x, 2, 2, 0, lax.add, 0.0) / 4

    def up(x):
        return jnp.repeat(jnp.repeat(x, 2, 2), 2, 3)

    def attend(q, causal=False):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, q) * q.shape[-1] ** -0.5
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
        return nn.softmax(scores) @ q

    def norm(x, axes):
        return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)

    def cross_entropy(x, labels):
        return -jnp.take_along_axis(nn.log_softmax(x), labels[:, None], 1).mean()

    def factors(f, cubed):
        def of(x):
            found = f(x)
            return (found[cubed] ** 3).sum() + found[1 - cubed].sum()

        return of

    def svd(x):
        return linalg.svd(x, full_matrices=False)

    def gelu(x):
        return nn.gelu(x, approximate=False)

    bf16 = jnp.bfloat16
    x, pos, x64, long, image = o.x, o.pos, o.x64, o.long, o.image
    return {
        "add": jit(jnp.add, long, o.other),
        "axpy": jit(lambda x, y: x * 2 + y, long, o.other),
        "div": jit(jnp.divide, x, pos),
        "row_scale": jit(jnp.multiply, x, o.row),
        "column_scale": jit(jnp.multiply, x, o.column),
        "outer_add": jit(jnp.add, o.column, o.row),
        "lerp": jit(lambda x, y: x + (y - x) * 0.3, x, pos),
        "maximum": jit(jnp.maximum, x, pos),
        "clamp": jit(lambda x: jnp.clip(x, -1, 1), x),
        "relu": jit(nn.relu, x),
        "leaky_relu": jit(nn.leaky_relu, x),
        "abs": jit(jnp.abs, x),
        "sign": jit(jnp.sign, x),
        "round": jit(jnp.round, x),
        "where": jit(lambda x, y: jnp.where(x > 0, x, y), x, pos),
        "where_grad": grad(lambda x: jnp.where(x > 0, x * 2, x * x), x),
        "gt": jit(jnp.greater, x, pos),
        "and": jit(jnp.logical_and, o.is_up, o.is_low),
        "not": jit(jnp.logical_not, o.is_up),
        "exp": jit(jnp.exp, x),
        "exp_f64": jit(jnp.exp, x64),
        "expm1": jit(jnp.expm1, x),
        "log": jit(jnp.log, pos),
        "log_f64": jit(jnp.log, abs(x64)),
        "log1p": jit(jnp.log1p, pos),
        "logaddexp": jit(jnp.logaddexp, x, pos),
        "sqrt": jit(jnp.sqrt, pos),
        "rsqrt": jit(lax.rsqrt, pos),
        "cbrt": jit(jnp.cbrt, x),
        "hypot": jit(jnp.hypot, x, pos),
        "pow": jit(jnp.power, pos, x),
        "pow2": jit(lambda x: x**2, x),
        "pow3": jit(lambda x: x**3, x),
        "pow3_grad": grad(lambda x: x**3, x),
        "pow_1.7": jit(lambda x: x**1.7, pos),
        "sin": jit(jnp.sin, x),
        "sin_f64": jit(jnp.sin, x64),
        "asin": jit(jnp.arcsin, o.small),
        "atan": jit(jnp.arctan, x),
        "atan2": jit(jnp.arctan2, x, pos),
        "sinh": jit(jnp.sinh, x),
        "acosh": jit(lambda x: jnp.arccosh(x + 1), pos),
        "tanh": jit(jnp.tanh, x),
        "tanh_f64": jit(jnp.tanh, x64),
        "sigmoid": jit(nn.sigmoid, x),
        "elu": jit(nn.elu, x),
        "mish": jit(nn.mish, x),
        "gelu": jit(gelu, x),
        "gelu_grad": grad(gelu, x),
        "silu_grad": grad(nn.silu, x),
        "softplus_grad": grad(nn.softplus, x),
        "erf": jit(special.erf, x),
        "erf_inv": jit(special.erfinv, o.small),
        "lgamma": jit(special.gammaln, pos),
        "digamma": jit(special.digamma, pos),
        "i0": jit(special.i0, x),
        "gammainc": jit(special.gammainc, o.shapes, o.shapes),
        "zeta": jit(lambda x: special.zeta(x + 1, x), o.shapes),
        "f32_to_i32": jit(lambda x: x.astype("i4"), x),
        "f32_to_f64": jit(lambda x: x.astype("f8"), x),
        "f32_to_bf16": jit(lambda x: x.astype(bf16), x),
        "f64_to_f32": jit(lambda x: x.astype("f4"), x64),
        "i32_to_f32": jit(lambda x: x.astype("f4"), o.i32),
        "i64_to_f32": jit(lambda x: x.astype("f4"), o.i64),
        "bool_to_f32": jit(lambda x: x.astype("f4"), o.is_up),
        "bf16_add": jit(lambda x, y: x.astype(bf16) + y.astype(bf16), x, pos),
        "quotient_i32": jit(lax.div, o.i32, o.divisors),
        "mod_i32": jit(lambda x, y: x % y, o.i32, o.divisors),
        "mod_i64": jit(lambda x: x % 1000, o.many),
        "shift": jit(lambda x: x << 3, o.i32),
        "sum_all": jit(jnp.sum, long),
        "sum0": jit(lambda x: x.sum(0), x),
        "sum0_f64": jit(lambda x: x.sum(0), x64),
        "sum_middle": jit(lambda x: x.sum(1), o.cube),
        "sum_8": jit(lambda x: x.sum(1), o.short),
        "sum_3": jit(lambda x: x.sum(1), o.points),
        "sum_i32": jit(lambda x: x.sum(1), o.i32),
        "sum_i64": jit(jnp.sum, o.many),
        "mean_f64": jit(lambda x: x.mean(1), x64),
        "max_all": jit(jnp.max, long),
        "max_middle": jit(lambda x: x.max(1), o.cube),
        "max_i32": jit(lambda x: x.max(1), o.i32),
        "max_i64": jit(jnp.max, o.many),
        "max_grad": grad(lambda x: x.max(1), x),
        "min0": jit(lambda x: x.min(0), x),
        "prod1": jit(lambda x: x.prod(1), pos),
        "prod0": jit(lambda x: x.prod(0), pos),
        "prod_grad": grad(lambda x: x.prod(1), pos),
        "argmax1": jit(lambda x: x.argmax(1), x),
        "argmax0": jit(lambda x: x.argmax(0), x),
        "argmax_all": jit(jnp.argmax, long),
        "argmin0_f64": jit(lambda x: x.argmin(0), x64),
        "any1": jit(lambda x: (x > 3).any(1), x),
        "all0": jit(lambda x: (x > -3).all(0), x),
        "is_nan_any": jit(lambda x: jnp.isnan(x).any(), x),
        "logsumexp1": jit(lambda x: special.logsumexp(x, 1), x),
        "logsumexp0": jit(lambda x: special.logsumexp(x, 0), x),
        "logsumexp_all": jit(special.logsumexp, long),
        "var1": jit(lambda x: x.var(-1), o.rows),
        "var0": jit(lambda x: x.var(0), o.rows),
        "var1_grad": grad(lambda x: x.var(-1), o.rows),
        "std0_grad": grad(lambda x: x.std(0), o.rows),
        "std_all": jit(jnp.std, long),
        "norm_all": jit(linalg.norm, long),
        "norm_3": jit(lambda x: linalg.norm(x, axis=1), o.points),
        "unit_3_grad": grad(lambda x: (x / jnp.sqrt((x * x).sum(1, keepdims=True)))[:, 0], o.points),
        "softmax": jit(lambda x: nn.softmax(x, 1), x),
        "softmax0": jit(lambda x: nn.softmax(x, 0), x),
        "softmax_8": jit(lambda x: nn.softmax(x, 1), o.short),
        "dot": jit(jnp.dot, long, long),
        "row_dots": jit(lambda x, y: jnp.einsum("ij,ij->i", x, y), x, pos),
        "cumsum1": jit(lambda x: jnp.cumsum(x, 1), x),
        "cumsum0": jit(lambda x: jnp.cumsum(x, 0), x),
        "cumsum_all": jit(jnp.cumsum, long),
        "cumsum1_grad": grad(lambda x: jnp.cumsum(x, 1) ** 2, x),
        "cumsum0_grad": grad(lambda x: jnp.cumsum(x, 0) ** 2, x),
        "cumprod1": jit(lambda x: jnp.cumprod(x, 1), pos),
        "cumprod1_grad": grad(lambda x: jnp.cumprod(x, 1), pos),
        "cummax1": jit(lambda x: lax.cummax(x, 1), x),
        "cummax0": jit(lambda x: lax.cummax(x, 0), x),
        "cummax1_grad": grad(lambda x: lax.cummax(x, 1), x),
        "cumlogsumexp1": jit(lambda x: lax.cumlogsumexp(x, 1), x),
        "sort_all": jit(jnp.sort, long),
        "sort1": jit(lambda x: jnp.sort(x, -1), x),
        "sort1_f64": jit(lambda x: jnp.sort(x, 1), x64),
        "sort_i64": jit(jnp.sort, o.many),
        "argsort1": jit(lambda x: jnp.argsort(x, -1), x),
        "median1": jit(lambda x: jnp.median(x, -1), x),
        "top_10": jit(lambda x: lax.top_k(x, 10), x),
        "top_100": jit(lambda x: lax.top_k(x, 100), x),
        "top_10_all": jit(lambda x: lax.top_k(x, 10), long),
        "top_5_grad": grad(lambda x: lax.top_k(x, 5)[0], x),
        "sort1_grad": grad(lambda x: jnp.sort(x, 1)[:, :10], x),
        "concat1": jit(lambda x: jnp.concatenate([x, x], 1), x),
        "stack1": jit(lambda x: jnp.stack([x, x], 1), x),
        "tile": jit(lambda x: jnp.tile(x, (1, 2)), x),
        "repeat1": jit(lambda x: jnp.repeat(x, 2, 1), x),
        "pad": jit(lambda x: jnp.pad(x, 1), x),
        "roll1": jit(lambda x: jnp.roll(x, 7, 1), x),
        "flip1": jit(lambda x: jnp.flip(x, 1), x),
        "tril": jit(jnp.tril, x),
        "transpose": jit(lambda x: x.T, x),
        "diagonal": jit(lambda x: jnp.diagonal(x) + 0.5, x),
        "add_eye": jit(lambda x: x + jnp.eye(1000, dtype="f4"), x),
        "diff1": jit(lambda x: jnp.diff(x, axis=1), x),
        "concat_grad": grad(lambda x: jnp.concatenate([x, x * 2], 1) ** 2, x),
        "slice_grad": grad(lambda x: x[100:900, 100:900] ** 2, x),
        "flip_grad": grad(lambda y, x: jnp.flip(y, 1) * x, pos, x),
        "embed": jit(lambda x, i: x[i], o.table, o.words),
        "embed_grad": grad(lambda x, i: x[i] ** 2, o.table, o.words),
        "take_rows": jit(lambda x, i: x[i], x, o.order),
        "take_columns": jit(lambda x, i: x[:, i], x, o.order),
        "take_rows_grad": grad(lambda x, i: x[i] ** 2, x, o.order),
        "take_columns_grad": grad(lambda x, i: x[:, i] ** 2, x, o.order),
        "along1": jit(lambda x, i: jnp.take_along_axis(x, i, 1), x, o.columns),
        "along1_grad": grad(lambda x, i: jnp.take_along_axis(x, i, 1), x, o.columns),
        "scatter_set": jit(lambda x, i: x.at[i].set(x), o.table, o.order),
        "scatter_add": jit(lambda x, i, u: x.at[i].add(u), o.table, o.places, o.updates),
        "segment_sum": jit(lambda x, i: jax.ops.segment_sum(x, i, 1000), long, o.segments),
        "segment_max": jit(lambda x, i: jax.ops.segment_max(x, i, 1000), long, o.segments),
        "one_hot": jit(lambda i: nn.one_hot(i, 100, dtype="f4"), o.labels),
        "bincount": jit(lambda i: jnp.bincount(i, length=1000), o.words),
        "conv3": jit(conv, image, o.deep),
        "conv3_grad": grad(conv_sum(), image, o.deep),
        "conv3_weights_grad": grad(weights_sum(), o.deep, image),
        "conv3_stride2": jit(lambda x, w: conv(x, w, 2), image, o.deep),
        "conv3_stride2_grad": grad(conv_sum(stride=2), image, o.deep),
        "conv3_stride2_weights_grad": grad(weights_sum(stride=2), o.deep, image),
        "conv3_dilated": jit(lambda x, w: conv(x, w, pad=2, dilation=2), image, o.deep),
        "conv1": jit(lambda x, w: conv(x, w, pad=0), image, o.one),
        "conv1_weights_grad": grad(weights_sum(pad=0), o.one, image),
        "conv_depthwise": jit(lambda x, w: conv(x, w, groups=32), image, o.each),
        "conv_depthwise_grad": grad(conv_sum(groups=32), image, o.each),
        "conv_depthwise_weights_grad": grad(weights_sum(groups=32), o.each, image),
        "conv_groups": jit(lambda x, w: conv(x, w, groups=4), image, o.grouped),
        "conv_groups_weights_grad": grad(weights_sum(groups=4), o.grouped, image),
        "conv_1d": jit(lambda x, w: conv(x, w, pad=0), o.signal, o.kernel),
        "conv_transpose": jit(conv_up, o.wide, o.up),
        "conv_transpose_grad": grad(lambda x, w: conv_up(x, w) ** 2, o.wide, o.up),
        "max_pool2": jit(lambda x: max_pool(x, 2, 0), o.maps),
        "max_pool2_grad": grad(lambda x: max_pool(x, 2, 0) ** 2, o.maps),
        "max_pool3": jit(lambda x: max_pool(x, 3, 1), image),
        "max_pool3_grad": grad(lambda x: max_pool(x, 3, 1) ** 2, image),
        "avg_pool2": jit(avg_pool, o.maps),
        "avg_pool2_grad": grad(lambda x: avg_pool(x) ** 2, image),
        "global_mean": jit(lambda x: x.mean((2, 3)), o.last),
        "upsample2": jit(up, o.maps),
        "upsample2_grad": grad(lambda x: up(x) ** 2, o.wide),
        "product_32": jit(jnp.matmul, o.of_32, o.of_32),
        "product_512": jit(jnp.matmul, o.square, o.square),
        "product_512_right_transposed": jit(lambda x: x @ x.T, o.square),
        "product_512_transposed": jit(lambda x: x.T @ x.T, o.square),
        "product_f64": jit(jnp.matmul, x64, x64),
        "product_i32": jit(jnp.matmul, o.i256, o.i256),
        "product_bf16": jit(lambda x: x.astype(bf16) @ x.astype(bf16), o.square),
        "product_outer": jit(jnp.matmul, o.tall, o.flat),
        "product_inner": jit(jnp.matmul, o.flat, o.tall),
        "product_of_8": jit(jnp.matmul, o.left, o.right),
        "gram": jit(lambda x: x.T @ x, x),
        "matrix_vector": jit(jnp.matmul, o.large, o.vector),
        "vector_matrix": jit(jnp.matmul, o.vector, o.large),
        "batch": jit(jnp.matmul, o.batch, o.batch),
        "batch_transposed": jit(lambda x: x @ x.swapaxes(1, 2), o.batch),
        "words_weights": jit(jnp.matmul, o.sentences, o.weights),
        "words_words": jit(lambda x: x @ x.swapaxes(1, 2), o.sentences),
        "scores": jit(lambda x: x @ x.swapaxes(-1, -2), o.heads),
        "attention": jit(attend, o.heads),
        "attention_causal": jit(lambda x: attend(x, True), o.heads),
        "attention_grad": grad(lambda x: attend(x) ** 2, o.heads),
        "triangle_times": jit(lambda x, y: jnp.tril(x) @ y, x, o.thin),
        "batch_outer": jit(lambda x: x[:, :, None] * x[:, None, :], o.few),
        "outer": jit(lambda x, y: x.reshape(8000, 1) * y.reshape(1, 8000)[:, :2000], o.left, o.right),
        "cholesky": jit(linalg.cholesky, o.positive),
        "cholesky_grad": grad(linalg.cholesky, o.positive),
        "solve_128": jit(linalg.solve, o.of_128, o.of_128),
        "solve_grad": grad(linalg.solve, o.general, o.general),
        "inv_128": jit(linalg.inv, o.of_128),
        "inv_4": jit(linalg.inv, o.of_4),
        "inv_grad": grad(linalg.inv, o.general),
        "det_32": jit(linalg.det, o.general),
        "slogdet_32": jit(lambda x: linalg.slogdet(x)[1], o.general),
        "slogdet_grad": grad(lambda x: linalg.slogdet(x)[1], o.general),
        "qr_128": jit(linalg.qr, o.of_128),
        "qr_grad": grad(factors(linalg.qr, 0), o.general),
        "svd_64": jit(svd, o.of_64),
        "svd_8": jit(svd, o.of_8),
        "svd_grad": grad(factors(svd, 0), o.general),
        "eigh_64": jit(linalg.eigh, o.of_64),
        "eigh_8": jit(linalg.eigh, o.of_8),
        "eigh_grad": grad(factors(linalg.eigh, 1), o.positive),
        "pinv_64": jit(linalg.pinv, o.of_64),
        "expm_64": jit(lambda x: jax.scipy.linalg.expm(x * 0.01), o.of_64),
        "kron": jit(jnp.kron, o.of_40, o.of_40),
        "trace": jit(jnp.trace, x),
        "trace_32": jit(lambda x: jnp.einsum("bii->b", x), o.general),
        "cov": jit(jnp.cov, o.rows_200),
        "layer_norm": jit(lambda x: norm(x, 1), x),
        "batch_norm": jit(lambda x: norm(x, (0, 2, 3)), image),
        "batch_norm_grad": grad(lambda x: norm(x, (0, 2, 3)) ** 3, image),
        "group_norm": jit(lambda x: norm(x.reshape(4, 8, -1), 2), image),
        "cross_entropy": jit(cross_entropy, x, o.order),
        "cross_entropy_grad": grad(cross_entropy, x, o.order),
        "log_softmax_grad": grad(lambda x: nn.log_softmax(x)[:, 0], x),
        "random_normal": jit(lambda key: jax.random.normal(key, (1000000,), "f4"), key),
        "random_uniform": jit(lambda key: jax.random.uniform(key, (1000000,), "f4"), key),
        "random_bernoulli": jit(lambda key: jax.random.bernoulli(key, 0.3, (1000000,)), key),
        "random_permutation": jit(lambda key: jax.random.permutation(key, 1000000), key),
    }


def best_of(case):
    for _ in range(3):
        case()
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < OPTIONS.min_time:
        before = time.perf_counter()
        case()
        best = min(best, time.perf_counter() - before)
    return best


def main():
    cases = jax_cases() if OPTIONS.peer == "jax" else torch_cases()
    for name, case in cases.items():
        if OPTIONS.only in name:
            print(f"{name}\t{best_of(case) * 1e6:.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
