"""Times in JAX, PyTorch and ONNX Runtime the operations of the benchmark rows W1 to W5 and W7 to W19.

    rows.py --peer jax|torch|onnxruntime [--rows W13,W14_sort1] [--threads 1] [--min-time 0.2]
                 [--check] [--first] [--memory] [--cpu N] [--list]

Prints one line `row,peer,milliseconds` per row: the median of batches of about 10 ms, after a warm-up. With
`--memory` the number is MiB: the peak of three calls above what the process holds before, arguments included.
`--rows` takes the names of rows, or prefixes for which no row has that exact name: W1 is one row, W5 is all W5_n.
All rows are in milliseconds a call. The Rust program prints other units for W1 and W2 (microseconds a step), W5_n
(GFLOP/s: 2e-6 n**3 / milliseconds) and W7 (nanoseconds an operation, of 1000 in a call).

A row may have several forms that compute the same numbers (`x[i]` and `jnp.take`, say). The line has the
fastest, and a comment line has the times of all. `--first` times only the first form, the usual one.

`--check` adds a comment line `# check,row,peer,sum,sum of absolute values,weighted sum`, added up in f64. The
weights are a hash of the position, so that an order of elements counts too. The sum of absolute values is
the `check` of the Rust row. Rows that are in the table `CHECKS` print only one number, the `check` of the Rust row:
the loss after three updates, say. Forms that disagree with the first one are reported.

Differences from the Rust rows that cannot be removed:
- JAX ignores (or fills in for) an index out of range, PyTorch and Rust report it. JAX has int32 indices.
- PyTorch has sorts and running maxima only together with their indices, and `jax.lax.top_k` has them too.
- Results of JAX and PyTorch are new memory in each call, as those of Rust.
- PyTorch has the weights of W1, W2, W3, W3f, W8 and W10 as [outputs, inputs], as `torch.nn.Linear` has them, and
  layer norms and losses as single operations. JAX has the formula of the layer norm, with `rsqrt`.
- PyTorch computes the value of W4g beside its gradient. Rust and JAX compute the gradient alone.
- JAX runs W12 as a `scan`. PyTorch and Rust have a loop of 64 steps.
- A step of W1 or W2 starts from the weights of the previous one. JAX does not wait for a step before it starts the
  next one: it waits at the end of a batch of steps, as a training loop would.
- ONNX Runtime runs W11_scores, W17 and W18_decode only: the function of PyTorch, exported with its weights, and all
  optimisations. Its W18_decode returns the keys and values of the word instead of writing them into caches.
"""

import argparse
import ctypes
import gc
import os
import statistics
import sys
import time
import warnings


DEFAULT = "W1,W2,W3,W3f,W4,W5,W7,W8,W9,W10,W11,W11_scores,W12,W13,W14,W15,W16,W17,W18,W19"


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=["jax", "torch", "onnxruntime"], required=True)
    parser.add_argument("--rows", default=DEFAULT)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--min-time", type=float, default=0.2)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--first", action="store_true", help="only the first form of each row")
    parser.add_argument("--memory", action="store_true", help="memory in place of time, on Linux")
    parser.add_argument("--cpu", type=int, help="CPU for one thread; the last one by default")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


OPTIONS = options()
THREADS = OPTIONS.threads
# Before the imports: both libraries read the affinity and these variables when they start.
CPUS = sorted(os.sched_getaffinity(0))
if THREADS == 1:
    os.sched_setaffinity(0, {CPUS[-1] if OPTIONS.cpu is None else OPTIONS.cpu})
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    )
elif THREADS < len(CPUS):
    os.sched_setaffinity(0, set(CPUS[-THREADS:]))
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(THREADS)
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np

warnings.filterwarnings("ignore", message=".*in beta.*")

# ---- Inputs: the same bits as `inputs.rs`.


def numbers(seed, n, scale):
    """Numbers in -scale..scale: an integer hash of the index."""
    scale = np.float32(scale)
    x = np.arange(n, dtype=np.uint32) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    unit = (x >> np.uint32(8)).astype(np.float32) * np.float32(1.0 / 16_777_216.0)
    return (np.float32(2.0) * unit - np.float32(1.0)) * scale


def fill(seed, shape, scale):
    return numbers(seed, int(np.prod(shape)), scale).reshape(shape)


def weight(seed, inputs, outputs):
    return fill(seed, [inputs, outputs], np.float32(1.0) / np.sqrt(np.float32(inputs)))


def places(n, below):
    """`n` indices below `below`, in no order."""
    i = np.arange(n, dtype=np.uint64) * np.uint64(2_654_435_761)
    return (i % np.uint64(below)).astype(np.int64)


TABLE = (10_000, 128)
ROWS = 20_000
N = 1024
MIDDLE = (64, 1024, 16)
MOST = 8
MANY = 8192
TAPS = {"tap_b0": 0.2, "tap_b1": 0.3, "tap_b2": 0.2, "tap_a1": -0.5, "tap_a2": 0.2}
SIDE = 8


def positive():
    x = fill(170, [MANY, SIDE, SIDE], 1.0)
    return x @ x.swapaxes(1, 2) + np.eye(SIDE, dtype=np.float32)


WIDTH = 384
HIDDEN = 1536
HEADS = 12
LAYERS = 6


def layer_shapes():
    """The weights of a layer in order. A pair (n,) is the gain of a norm."""
    return 4 * linear_shapes(WIDTH, WIDTH) + NORM + linear_shapes(WIDTH, HIDDEN) + linear_shapes(HIDDEN, WIDTH) + NORM


def linear_shapes(inputs, outputs):
    return [[outputs, inputs], [outputs]]


NORM = [(WIDTH,), [WIDTH]]


def seeded(name, seed, shapes):
    """Inputs `name0`, `name1`, ... of these shapes. Their seeds follow each other from `seed`."""

    def weight(i, shape):
        x = fill(seed + i, list(shape), 0.05)
        return np.float32(1.0) + x if isinstance(shape, tuple) else x

    return {f"{name}{i}": (lambda i=i, s=s: weight(i, s)) for i, s in enumerate(shapes)}


MODEL = seeded("model", 200, [[30522, WIDTH], [512, WIDTH], [2, WIDTH]] + NORM + LAYERS * layer_shapes())


# W18: a GPT.
GPT_LAYERS = 4
GPT_HEADS = 4
GPT_WORDS = 1000
PLACES = 256
FILLED = 128


GPT = seeded(
    "gpt",
    400,
    [[GPT_WORDS, WIDTH], [PLACES, WIDTH]]
    + GPT_LAYERS * layer_shapes()
    + NORM
    + linear_shapes(WIDTH, GPT_WORDS),
)
CACHE = [1, GPT_HEADS, PLACES, WIDTH // GPT_HEADS]
CACHES = {f"cache{i}": (lambda i=i: fill(480 + i, CACHE, 1.0)) for i in range(2 * GPT_LAYERS)}


def words(batch, n, below=30522):
    return (np.arange(batch * n) * 7919 % below).astype(np.int64).reshape(batch, n)


def seen(batch, longest, shortest):
    row, place = np.divmod(np.arange(batch * longest), longest)
    return (place < longest - row % (longest - shortest + 1)).reshape(batch, longest)


# W11: two convolutions, each with its bias, and a map to classes.
CONVNET = {
    "conv1": lambda: fill(111, [16, 1, 3, 3], np.float32(1.0) / np.sqrt(np.float32(9.0))),
    "conv1_b": lambda: np.zeros(16, np.float32),
    "conv2": lambda: fill(112, [32, 16, 3, 3], np.float32(1.0) / np.sqrt(np.float32(144.0))),
    "conv2_b": lambda: np.zeros(32, np.float32),
    "classes": lambda: weight(113, 1568, 10),
    "classes_b": lambda: np.zeros(10, np.float32),
}

# The learning rate in W1, W2 and W11.
RATE = 0.01


def mlp(name, dtype):
    widths = [784, 512, 256, 10]
    layers = {}
    for layer, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        layers[f"{name}_w{layer}"] = lambda i=layer, n=inputs, m=outputs: weight(101 + i, n, m).astype(dtype)
        layers[f"{name}_b{layer}"] = lambda m=outputs: np.zeros(m, dtype)
    return layers


# W1 and W8: a perceptron. W19 has it in f64.
MLP = mlp("mlp", np.float32)
MLP64 = mlp("mlp64", np.float64)

# W2: a perceptron with little arithmetic.
TINY = {
    "tiny_w0": lambda: fill(202, [4, 16], 0.5),
    "tiny_b0": lambda: np.zeros(16, np.float32),
    "tiny_w1": lambda: fill(203, [16, 3], 0.25),
    "tiny_b1": lambda: np.zeros(3, np.float32),
}

# W3 and W10: a block of a transformer, and a direction of its parameters.
BLOCK_HEADS = 4
BLOCK_X = [8, 128, 256]
BLOCK_NORM = [(256,), [256]]
BLOCK_SHAPES = BLOCK_NORM + 4 * [[256, 256], [256]] + BLOCK_NORM + [[256, 1024], [1024], [1024, 256], [256]]


def block_parameter(seed, shape):
    """A weight matrix, a bias, or the gain of a norm. The shape of a gain is a tuple."""
    if len(shape) == 2:
        return weight(seed, *shape)
    x = fill(seed, shape, 0.1)
    return np.float32(1.0) + x if isinstance(shape, tuple) else x


BLOCK = {f"block{i}": (lambda i=i, s=s: block_parameter(300 + i, s)) for i, s in enumerate(BLOCK_SHAPES)}
DIRECTION = {f"direction{i}": (lambda i=i, s=s: fill(500 + i, s, 1.0)) for i, s in enumerate(BLOCK_SHAPES)}

# W5: the sides of the matrices.
PRODUCTS = [64, 128, 256, 512, 1024, 2048]


INPUTS = {
    # W1, W2, W8
    **MLP,
    "mlp_x": lambda: fill(100, [128, 784], 1.0),
    "mlp_labels": lambda: np.arange(128) * 7 % 10,
    "mlp_x64": lambda: fill(100, [64, 784], 1.0),
    "mlp_labels64": lambda: np.arange(64) * 7 % 10,
    **TINY,
    "tiny_x": lambda: fill(200, [8, 4], 1.0),
    "tiny_target": lambda: fill(201, [8, 3], 1.0),
    # W3, W10
    **BLOCK,
    **DIRECTION,
    "block_x": lambda: fill(299, BLOCK_X, 1.0),
    "direction_x": lambda: fill(499, BLOCK_X, 1.0),
    # W4
    "four_million": lambda: fill(140, [4 << 20], 2.0),
    # W5
    **{f"left{n}": (lambda n=n: fill(160, [n, n], 1.0)) for n in PRODUCTS},
    **{f"right{n}": (lambda n=n: fill(161, [n, n], 1.0)) for n in PRODUCTS},
    # W7
    "chain_x": lambda: fill(150, [16], 1.0),
    "chain_shift": lambda: fill(151, [16], 0.01),
    "chain_scale": lambda: np.float32(1.0) + numbers(152, 16, 0.001),
    # W9
    "matrix": lambda: fill(130, [4096, 1024], 3.0),
    "matrix_gain": lambda: np.float32(1.0) + numbers(131, 1024, 0.1),
    "matrix_bias": lambda: fill(132, [1024], 0.1),
    # W12
    "rnn_input": lambda: weight(121, 64, 128),
    "rnn_state": lambda: weight(122, 128, 128),
    "rnn_bias": lambda: fill(123, [128], 0.1),
    "rnn_xs": lambda: fill(120, [64, 32, 64], 1.0),
    # W11
    **CONVNET,
    "digits": lambda: fill(110, [32, 1, 28, 28], 1.0),
    "digit_labels": lambda: np.arange(32) * 7 % 10,
    **MODEL,
    **GPT,
    **CACHES,
    # W18
    "word": lambda: words(1, 1, GPT_WORDS),
    "texts": lambda: words(8, 128, GPT_WORDS),
    "next_words": lambda: (words(8, 128, GPT_WORDS) + 1) % GPT_WORDS,
    # W19
    "pair_x": lambda: fill(600, [1024, 16], 1.0),
    "pair_y": lambda: fill(601, [1024, 16], 1.0),
    "points": lambda: fill(602, [512, 3], 1.0),
    "stats": lambda: fill(603, [512, 1024], 1.0),
    "stats_gain": lambda: np.float32(1.0) + numbers(604, 1024, 0.1),
    "stats_bias": lambda: fill(605, [1024], 0.1),
    **{f"net{i}": (lambda i=i: weight(606 + i, 512, 512)) for i in range(4)},
    "net_x": lambda: fill(610, [256, 512], 1.0),
    "lstm_input": lambda: weight(611, 64, 512),
    "lstm_state": lambda: weight(612, 128, 512),
    "lstm_bias": lambda: fill(613, [512], 0.1),
    "lstm_xs": lambda: fill(614, [64, 32, 64], 1.0),
    **{name: (lambda x=x: np.float32(x)) for name, x in TAPS.items()},
    "signal": lambda: fill(622, [4096], 1.0),
    "rk4_w1": lambda: weight(615, 32, 64),
    "rk4_b1": lambda: fill(616, [64], 0.1),
    "rk4_w2": lambda: weight(617, 64, 32),
    "rk4_b2": lambda: fill(618, [32], 0.1),
    "rk4_x": lambda: fill(619, [16, 32], 1.0),
    "logits": lambda: fill(620, [256, 32_000], 3.0),
    "logit_labels": lambda: words(256, 1, 32_000),
    **MLP64,
    "mlp64_x": lambda: fill(100, [128, 784], 1.0).astype(np.float64),
    "rows3": lambda: fill(630, [1 << 20, 3], 1.0),
    "rows8": lambda: fill(630, [1 << 19, 8], 1.0),
    "block": lambda: fill(631, [64, 128, 256], 1.0),
    "heads": lambda: fill(632, [8, 128, 16, 64], 1.0),
    "four_axes": lambda: fill(633, [16, 32, 48, 40], 1.0),
    "thousand": lambda: fill(634, [1000, 1000], 1.0),
    "large": lambda: fill(635, [2048, 2048], 1.0),
    "framed": lambda: fill(636, [N, N], 1.0),
    "max_middle": lambda: fill(637, [64, 256, 64], 1.0),
    "max_square": lambda: fill(638, [N, N], 3.0),
    "million": lambda: fill(640, [1 << 20], 2.0),
    "fifty": lambda: fill(641, [50], 1.0),
    "form": lambda: weight(642, 50, 50),
    # W17
    "words1": lambda: words(1, 16),
    "seen1": lambda: seen(1, 16, 16),
    "words32": lambda: words(32, 32),
    "seen32": lambda: seen(32, 32, 17),
    # W13
    "table": lambda: fill(140, TABLE, 1.0),
    "rows": lambda: fill(141, [ROWS, TABLE[1]], 1.0),
    "of_rows": lambda: places(ROWS, TABLE[0]),
    "moved": lambda: fill(142, [N, N], 1.0),
    "moved_flat": lambda: fill(142, [N * N], 1.0),
    "all": lambda: places(N * N, N * N),
    "few": lambda: places(N * N, 1000),
    "of_axis": lambda: places(N, N),
    "along": lambda: places(N * N, N).reshape(N, N),
    # W14
    "x": lambda: fill(150, [N, N], 1.0),
    "flat": lambda: fill(150, [N * N], 1.0),
    "deep": lambda: fill(150, MIDDLE, 1.0),
    "gain": lambda: (np.float32(1.0) + numbers(151, N * N, 0.01)).reshape(N, N),
    # W15
    "images": lambda: fill(160, [4, 32, 32, 32], 1.0),
    "k2": lambda: weight(161, 32 * 9, 32).reshape(32, 32, 3, 3),
    "ct2": lambda: fill(164, [4, 32, 32, 32], 1.0),
    "lines": lambda: fill(162, [8, 32, 1024], 1.0),
    "k1": lambda: weight(163, 32 * 5, 32).reshape(32, 32, 5),
    "ct1": lambda: fill(164, [8, 32, 1024], 1.0),
    "channels": lambda: fill(165, [4, 64, 64, 64], 1.0),
    "kd": lambda: fill(166, [64, 1, 3, 3], 1.0),
    "planes": lambda: fill(167, [8, 32, 64, 64], 1.0),
    "ct_pool": lambda: fill(168, [8, 32, 32, 32], 1.0),
    # W16
    "a": lambda: fill(170, [MANY, SIDE, SIDE], 1.0),
    "b": lambda: fill(171, [MANY, SIDE, SIDE], 1.0),
    "vectors": lambda: fill(172, [MANY, SIDE], 1.0),
    "positive": positive,
    "right": lambda: fill(172, [MANY, SIDE, 1], 1.0),
    "steps": lambda: fill(173, [256, 4, 16], 1.0),
    "w": lambda: weight(174, 16, 16),
    "h0": lambda: np.zeros([4, 16], np.float32),
}

# ---- Rows: the operands of each, and its forms in each peer.

ARGUMENTS = {
    "W1": [*MLP, "mlp_x", "mlp_labels"],
    "W2": [*TINY, "tiny_x", "tiny_target"],
    "W3": [*BLOCK, "block_x"],
    "W3f": [*BLOCK, "block_x"],
    "W4f": ["four_million"],
    "W4g": ["four_million"],
    **{f"W5_{n}": [f"left{n}", f"right{n}"] for n in PRODUCTS},
    "W7": ["chain_x", "chain_shift", "chain_scale"],
    "W8": [*MLP, "mlp_x64", "mlp_labels64"],
    "W9_softmax": ["matrix"],
    "W9_layernorm": ["matrix", "matrix_gain", "matrix_bias"],
    "W9_sum0": ["matrix"],
    "W9_sum1": ["matrix"],
    "W10": [*BLOCK, *DIRECTION, "block_x", "direction_x"],
    "W11": [*CONVNET, "digits", "digit_labels"],
    "W11_scores": ["digits", *CONVNET],
    "W12": ["rnn_input", "rnn_state", "rnn_bias", "rnn_xs"],
    "W13_take_rows": ["table", "of_rows"],
    "W13_add_rows": ["table", "of_rows", "rows"],
    "W13_set_rows": ["table", "of_rows", "rows"],
    "W13_segment_rows": ["rows", "of_rows"],
    "W13_take": ["moved_flat", "all"],
    "W13_scatter_add": ["moved_flat", "all"],
    "W13_scatter_max": ["moved_flat", "all"],
    "W13_segment_sum": ["moved_flat", "few"],
    "W13_take_columns": ["moved", "of_axis"],
    "W13_along1": ["moved", "along"],
    "W13_along0": ["moved", "along"],
    "W13_flip1": ["moved"],
    "W13_flip0": ["moved"],
    "W13_flip_step": ["moved"],
    "W13_flip_transposed": ["moved"],
    "W13_roll1": ["moved"],
    "W13_roll0": ["moved"],
    "W13_tril": ["moved"],
    "W14_cumsum1": ["x"],
    "W14_cumsum0": ["x"],
    "W14_cumsum_middle": ["deep"],
    "W14_cumsum_back": ["x"],
    "W14_cumsum_pairs": ["x"],
    "W14_cummax1": ["x"],
    "W14_cummax0": ["x"],
    "W14_cumprod1": ["gain"],
    "W14_cumprod0": ["gain"],
    "W14_recurrence1": ["x", "gain"],
    "W14_recurrence0": ["x", "gain"],
    "W14_sort1": ["x"],
    "W14_sort0": ["x"],
    "W14_sort_flat": ["flat"],
    "W14_argsort1": ["x"],
    "W14_argsort_flat": ["flat"],
    "W14_top_k": ["x"],
    "W14_var1": ["x"],
    "W14_std1": ["x"],
    "W14_var0": ["x"],
    "W14_norm1": ["x"],
    "W14_norm0": ["x"],
    "W14_logsumexp1": ["x"],
    "W14_logsumexp0": ["x"],
    "W15_conv2d": ["images", "k2"],
    "W15_conv2d_input": ["images", "k2", "ct2"],
    "W15_conv2d_weights": ["images", "k2", "ct2"],
    "W15_conv1d": ["lines", "k1"],
    "W15_conv1d_input": ["lines", "k1", "ct1"],
    "W15_conv1d_weights": ["lines", "k1", "ct1"],
    "W15_depthwise": ["channels", "kd"],
    "W15_max_pool": ["planes"],
    "W15_avg_pool": ["planes"],
    "W15_max_pool3": ["planes"],
    "W15_avg_pool3": ["planes"],
    "W15_max_pool_vjp": ["planes", "ct_pool"],
    "W15_avg_pool_vjp": ["planes", "ct_pool"],
    "W16_vmap_matmul": ["a", "b"],
    "W16_vmap_matvec": ["a", "vectors"],
    "W16_cholesky": ["positive"],
    "W16_solve": ["positive", "right"],
    "W16_scan": ["steps", "w", "h0"],
    "W17_sentence": ["words1", "seen1", *MODEL],
    "W17_batch": ["words32", "seen32", *MODEL],
    "W18_decode": ["word", *CACHES, *GPT],
    "W18_gradient": ["texts", "next_words", *GPT],
    "W19_pairwise": ["pair_x", "pair_y"],
    "W19_pairwise_vjp": ["pair_x", "pair_y"],
    "W19_nbody_vjp": ["points"],
    "W19_batch_stats": ["stats", "stats_gain", "stats_bias"],
    "W19_batch_stats_vjp": ["stats", "stats_gain", "stats_bias"],
    "W19_layer_norm_net_vjp": ["net0", "net1", "net2", "net3", "net_x"],
    "W19_lstm_vjp": ["lstm_input", "lstm_state", "lstm_bias", "lstm_xs"],
    "W19_filter": [*TAPS, "signal"],
    "W19_filter_vjp": [*TAPS, "signal"],
    "W19_rk4_vjp": ["rk4_w1", "rk4_b1", "rk4_w2", "rk4_b2", "rk4_x"],
    "W19_vocabulary_vjp": ["logits", "logit_labels"],
    "W19_f64_vjp": [*MLP64, "mlp64_x", "mlp_labels"],
    "W19_sum_rows3": ["rows3"],
    "W19_sum_rows8": ["rows8"],
    "W19_sum_transposed": ["block"],
    "W19_max_transposed": ["block"],
    "W19_permute4": ["heads"],
    "W19_permute3210": ["four_axes"],
    "W19_transpose": ["thousand"],
    "W19_stride": ["large"],
    "W19_slice_pad": ["framed"],
    "W19_max_vjp": ["max_middle"],
    "W19_max_last_vjp": ["max_square"],
    "W19_softmax0_vjp": ["max_square"],
    "W19_second": ["million"],
    "W19_hessian50": ["fifty", "form"],
    "W19_jacobian50": ["form", "fifty"],
}

# Training steps: `--check` takes the results of the fourth call, whose loss is that after three updates.
STEPS = ["W1", "W2"]

# Rows whose first operands are parameters of linear maps and norms, with the number of these operands. PyTorch has the
# matrices among them transposed, [outputs, inputs].
LINEAR = {
    "W1": len(MLP),
    "W2": len(TINY),
    "W3": len(BLOCK),
    "W3f": len(BLOCK),
    "W8": len(MLP),
    "W10": len(BLOCK) + len(DIRECTION),
}


def norm(*xs):
    return np.sqrt(sum(np.square(x).sum() for x in xs))


# The check of each row whose check is not the sum of absolute values, as a function of the results in f64.
CHECKS = {
    "W1": lambda loss: loss,
    "W2": lambda loss: loss,
    "W3": lambda loss, *grads: norm(*grads),
    "W3f": lambda loss: loss,
    "W4f": lambda total: total,
    # The gradient is the last result.
    "W4g": lambda *outs: np.abs(outs[-1]).sum(),
    **{f"W5_{n}": lambda x: np.abs(x).mean() for n in PRODUCTS},
    "W7": lambda x: x.sum(),
    "W8": norm,
    "W10": lambda loss, d_loss: d_loss,
    "W12": lambda loss, *grads: norm(*grads),
}

# Rows that ONNX Runtime runs, with the number of operands that are not weights.
ONNX = {"W11_scores": 1, "W17_sentence": 2, "W17_batch": 2, "W18_decode": 1 + len(CACHES)}

# Rows without a form in a peer, and notes on rows whose form is not a single operation.
SKIPPED = {
    "jax": {},
    "torch": {},
    "onnxruntime": {row: "not exported" for row in ARGUMENTS if row not in ONNX},
}
NOTES = {
    "onnxruntime": {},
    "torch": {
        "W14_recurrence1": "PyTorch has no linear recurrence: a Python loop of 1024 addcmul",
        "W14_recurrence0": "PyTorch has no linear recurrence: a Python loop of 1024 addcmul",
        "W16_scan": "PyTorch has no scan in eager mode: a Python loop of 256 steps",
        "W19_filter": "PyTorch has no scan in eager mode: a Python loop of 4096 steps",
        "W19_filter_vjp": "PyTorch has no scan in eager mode: a Python loop of 4096 steps",
        "W13_flip_step": "PyTorch has no negative steps: a flip of x[:, 1::2]",
    },
    "jax": {
        "W14_recurrence1": "JAX has no linear recurrence: associative_scan, or a scan of steps",
        "W14_recurrence0": "JAX has no linear recurrence: associative_scan, or a scan of steps",
    },
}


def jax_peer():
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.special import logsumexp

    fast = dict(mode="promise_in_bounds")
    unstable = lambda x, axis: lax.sort(x, dimension=axis, is_stable=False)

    def combine(left, right):
        """The composition of two maps y -> a y + x, the left one first."""
        (a, x), (b, y) = left, right
        return a * b, b * x + y

    def recurrence_tree(axis):
        return lambda x, a: lax.associative_scan(combine, (a, x), axis=axis)[1]

    def recurrence_steps(axis):
        def step(y, xa):
            y = xa[0] + xa[1] * y
            return y, y

        def run(x, a):
            if axis == 1:
                x, a = x.T, a.T
            y = lax.scan(step, jnp.zeros(N, x.dtype), (x, a))[1]
            return y.T if axis == 1 else y

        return run

    def conv(x, k, groups=1):
        pads = [(n // 2, n // 2) for n in k.shape[2:]]
        dims = ("NCHW", "OIHW", "NCHW") if x.ndim == 4 else ("NCH", "OIH", "NCH")
        return lax.conv_general_dilated(
            x, k, (1,) * len(pads), pads, dimension_numbers=dims, feature_group_count=groups
        )

    def pullback(f, which):
        def run(*args):
            return jax.vjp(f, *args[:-1])[1](args[-1])[which]

        return run

    def pool(x, init, f, window, stride, pad):
        pads = [(0, 0), (0, 0), (pad, pad), (pad, pad)]
        return lax.reduce_window(x, init, f, (1, 1, window, window), (1, 1, stride, stride), pads)

    max_pool = lambda x: pool(x, -jnp.inf, lax.max, 2, 2, 0)
    avg_pool = lambda x: pool(x, 0.0, lax.add, 2, 2, 0) / 4
    squares = lambda x: x.reshape(8, 32, 32, 2, 32, 2)

    def scan_steps(steps, w, h):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, steps)[0]

    def layer_norm(x, gain, bias, eps=1e-12):
        mean = x.mean(-1, keepdims=True)
        var = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + eps) * gain + bias

    def embed(ids, mask, *weights):
        weights = iter(weights)
        take = lambda n: [next(weights) for _ in range(n)]
        linear = lambda x: (lambda w, b: x @ w.T + b)(*take(2))
        heads = lambda x: x.reshape(*x.shape[:2], HEADS, -1)
        table, places, kinds, *norm = take(5)
        h = layer_norm(table[ids] + places[: ids.shape[1]] + kinds[0], *norm)
        for _ in range(LAYERS):
            q, k, v = (heads(linear(h)) for _ in range(3))
            y = jax.nn.dot_product_attention(q, k, v, mask=mask[:, None, None, :])
            h = layer_norm(h + linear(y.reshape(h.shape)), *take(2))
            y = linear(jax.nn.gelu(linear(h), approximate=False))
            h = layer_norm(h + y, *take(2))
        share = mask.astype(h.dtype)[..., None]
        mean = (h * share).sum(1) / share.sum(1)
        return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)

    def gpt(ids, caches, weights):
        """Scores of the next words, with the caches if there are any."""
        weights = iter(weights)
        take = lambda n: [next(weights) for _ in range(n)]
        linear = lambda x, w, b: x @ w.T + b
        norm = lambda x, gain, bias: layer_norm(x, gain, bias, 1e-5)
        heads = lambda x: x.reshape(*x.shape[:2], GPT_HEADS, -1)
        table, places = take(2)
        at = FILLED if caches else 0
        h = table[ids] + places[at : at + ids.shape[1]]
        kept = []
        for layer in range(GPT_LAYERS):
            wq, bq, wk, bk, wv, bv, wo, bo, g1, b1, w1, c1, w2, c2, g2, b2 = take(16)
            x = norm(h, g1, b1)
            q, k, v = (heads(linear(x, w, b)) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
            if caches:
                put = lambda cache, x: lax.dynamic_update_slice(cache, x.swapaxes(1, 2), (0, 0, at, 0))
                k, v = put(caches[2 * layer], k), put(caches[2 * layer + 1], v)
                kept += [k, v]
                seen = (jnp.arange(PLACES) <= at)[None, None, None, :]
                k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
                y = jax.nn.dot_product_attention(q, k, v, mask=seen)
            else:
                y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            h = h + linear(y.reshape(h.shape), wo, bo)
            x = jax.nn.gelu(linear(norm(h, g2, b2), w1, c1), approximate=False)
            h = h + linear(x, w2, c2)
        gain, bias, w, b = take(4)
        return linear(norm(h, gain, bias), w, b), kept

    class Decode:
        """A step that takes the memory of the caches for the next ones."""

        def prepare(self, args):
            n = len(CACHES)
            step = jax.jit(gpt, donate_argnums=1)
            state = [[jnp.copy(x) for x in args[1 : 1 + n]]]

            def call():
                scores, state[0] = step(args[0], state[0], args[1 + n :])
                return scores.block_until_ready()

            return call

    class Steps:
        """Steps of gradient descent. Each takes the memory of the weights for those of the next one."""

        def __init__(self, loss, n):
            self.loss, self.n = loss, n

        def prepare(self, args):
            weights, data = args[: self.n], args[self.n :]

            def step(weights, *data):
                loss, grads = jax.value_and_grad(lambda ws: self.loss(*ws, *data))(weights)
                return [w - RATE * g for w, g in zip(weights, grads)], loss

            step = jax.jit(step, donate_argnums=0)
            state = [[jnp.copy(x) for x in weights]]

            def call():
                state[0], loss = step(state[0], *data)
                return loss

            call.wait = lambda: jax.block_until_ready(state[0])
            return call

    def text_loss(ids, next_ids, *weights):
        scores, _ = gpt(ids, [], weights)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), next_ids[..., None], -1)
        return -chosen.mean()

    def class_scores(x, *weights):
        k1, b1, k2, b2, w, b = weights
        for k, bias in ((k1, b1), (k2, b2)):
            x = max_pool(jax.nn.relu(conv(x, k) + bias[:, None, None]))
        return x.reshape(x.shape[0], -1) @ w + b

    def class_step(*args):
        *weights, x, labels = args
        loss, grads = slopes(lambda ws: word_loss(class_scores(x, *ws), labels[:, None]))(weights)
        return (loss, *(w - RATE * g for w, g in zip(weights, grads)))

    def slopes(f, n=1):
        """The value of `f` and its gradients for the first `n` operands."""
        both = jax.value_and_grad(f, argnums=tuple(range(n)))
        return lambda *args: (lambda y, grads: (y, *grads))(*both(*args))

    def pairwise(x, y):
        return jnp.exp(-0.5 * jnp.square(x[:, None] - y[None, :]).sum(-1))

    def potential(x):
        squares = jnp.square(x[:, None] - x[None, :]).sum(-1) + 0.01
        return -0.5 * (1.0 / jnp.sqrt(squares)).sum()

    def batch_norm(x, gain, bias):
        mean = x.mean(0, keepdims=True)
        var = jnp.square(x - mean).mean(0, keepdims=True)
        return (x - mean) / jnp.sqrt(var + 1e-5) * gain + bias

    def norm_net(*args):
        *weights, h = args
        for w in weights:
            h = h @ w
            mean = h.mean(-1, keepdims=True)
            var = jnp.square(h - mean).mean(-1, keepdims=True)
            h = jax.nn.gelu((h - mean) / jnp.sqrt(var + 1e-5), approximate=False)
        return jnp.square(h).mean()

    def lstm_step(input, state, bias, h, c, x):
        gates = x @ input + h @ state + bias
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    def lstm(input, state, bias, xs):
        h = c = jnp.zeros([xs.shape[1], state.shape[0]], xs.dtype)
        for x in xs:
            h, c = lstm_step(input, state, bias, h, c, x)
        return jnp.square(h).mean()

    def lstm_scan(input, state, bias, xs):
        start = jnp.zeros([xs.shape[1], state.shape[0]], xs.dtype)
        step = lambda hc, x: (lstm_step(input, state, bias, *hc, x), None)
        return jnp.square(lax.scan(step, (start, start), xs)[0][0]).mean()

    def filtered(b0, b1, b2, a1, a2, signal):
        def step(state, x):
            s1, s2 = state
            y = b0 * x + s1
            return (b1 * x - a1 * y + s2, b2 * x - a2 * y), y

        zero = jnp.zeros_like(b0)
        return lax.scan(step, (zero, zero), signal)[1]

    def rk4_step(w1, b1, w2, b2, y, dt=0.05):
        slope = lambda y: jnp.tanh(y @ w1 + b1) @ w2 + b2
        k1 = slope(y)
        k2 = slope(y + k1 * (dt / 2))
        k3 = slope(y + k2 * (dt / 2))
        k4 = slope(y + k3 * dt)
        return y + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (dt / 6)

    def rk4(*args):
        *weights, y = args
        for _ in range(20):
            y = rk4_step(*weights, y)
        return jnp.square(y).mean()

    def rk4_scan(*args):
        *weights, y = args
        y = lax.scan(lambda y, _: (rk4_step(*weights, y), None), y, length=20)[0]
        return jnp.square(y).mean()

    def word_loss(logits, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, -1).mean()

    def perceptron(*args):
        *layers, x, labels = args
        for i in range(0, 6, 2):
            x = (jax.nn.relu(x) if i else x) @ layers[i] + layers[i + 1]
        return word_loss(x, labels[:, None])

    def total(x):
        bell = jnp.tanh(x * 1.5 + 0.5) * jnp.exp(-jnp.square(x))
        return (bell + jax.nn.sigmoid(x) * x - jnp.sqrt(jnp.square(x) + 1.0)).sum()

    def valley(x, form):
        curve = 100.0 * jnp.square(x[1:] - jnp.square(x[:-1])) + jnp.square(1.0 - x[:-1])
        return curve.sum() + (x * (form @ x)).sum()

    max_energy = lambda x: jnp.square(x.max(1)).sum()

    def tiny_loss(w0, b0, w1, b1, x, target):
        return jnp.square(jnp.tanh(x @ w0 + b0) @ w1 + b1 - target).mean()

    def block_loss(*args):
        g1, b1, wq, bq, wk, bk, wv, bv, wo, bo, g2, b2, w1, c1, w2, c2, x = args
        heads = lambda x: x.reshape(*x.shape[:2], BLOCK_HEADS, -1).swapaxes(1, 2)
        h = layer_norm(x, g1, b1, 1e-5)
        q, k, v = (heads(h @ w + b) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
        scores = q @ k.swapaxes(2, 3) * (1.0 / q.shape[-1] ** 0.5)
        sees = jnp.tril(jnp.ones(scores.shape[2:], bool))
        y = jax.nn.softmax(jnp.where(sees, scores, -1e9), -1) @ v
        x = x + (y.swapaxes(1, 2).reshape(x.shape) @ wo + bo)
        h = jax.nn.gelu(layer_norm(x, g2, b2, 1e-5) @ w1 + c1, approximate=True)
        return jnp.square(x + (h @ w2 + c2)).mean()

    def block_tangent(*args):
        n = len(BLOCK)
        weights, d_weights, (x, dx) = args[:n], args[n : 2 * n], args[2 * n :]
        return jax.jvp(block_loss, (*weights, x), (*d_weights, dx))

    def example_slopes(*args):
        *layers, x, labels = args
        slope = jax.grad(lambda layers, x, label: perceptron(*layers, x[None], label[None]))
        return jax.vmap(slope, in_axes=(None, 0, 0))(layers, x, labels)

    def chain(x, shift, scale):
        for _ in range(500):
            x = x + shift
            x = x * scale
        return x

    def rnn(input, state, bias, xs):
        start = jnp.zeros([xs.shape[1], state.shape[0]], xs.dtype)
        step = lambda h, x: (jnp.tanh(x @ input + h @ state + bias), None)
        return jnp.square(lax.scan(step, start, xs)[0]).mean()

    rows = {
        "W1": Steps(perceptron, len(MLP)),
        "W2": Steps(tiny_loss, len(TINY)),
        "W3": slopes(block_loss, len(BLOCK) + 1),
        "W3f": block_loss,
        "W4f": total,
        "W4g": jax.grad(total),
        **{f"W5_{n}": lambda x, y: x @ y for n in PRODUCTS},
        "W7": chain,
        "W8": example_slopes,
        "W9_softmax": lambda x: jax.nn.softmax(x, -1),
        "W9_layernorm": lambda x, gain, bias: layer_norm(x, gain, bias, 1e-5),
        "W9_sum0": lambda x: x.sum(0),
        "W9_sum1": lambda x: x.sum(1),
        "W10": block_tangent,
        "W11": class_step,
        "W11_scores": class_scores,
        "W12": slopes(rnn, 3),
        "W13_take_rows": {
            "x[i]": lambda x, i: x[i],
            "take": lambda x, i: jnp.take(x, i, axis=0),
            "in_bounds": lambda x, i: x.at[i].get(**fast),
        },
        "W13_add_rows": {
            "at.add": lambda x, i, u: x.at[i].add(u),
            "in_bounds": lambda x, i, u: x.at[i].add(u, **fast),
        },
        "W13_set_rows": {
            "at.set": lambda x, i, u: x.at[i].set(u),
            "in_bounds": lambda x, i, u: x.at[i].set(u, **fast),
        },
        "W13_segment_rows": {
            "segment_sum": lambda x, i: jax.ops.segment_sum(x, i, num_segments=TABLE[0]),
            "in_bounds": lambda x, i: jax.ops.segment_sum(x, i, num_segments=TABLE[0], **fast),
        },
        "W13_take": {
            "x[i]": lambda x, i: x[i],
            "take": lambda x, i: jnp.take(x, i, axis=0),
            "in_bounds": lambda x, i: x.at[i].get(**fast),
        },
        "W13_scatter_add": {
            "at.add": lambda x, i: x.at[i].add(x),
            "in_bounds": lambda x, i: x.at[i].add(x, **fast),
        },
        "W13_scatter_max": {
            "at.max": lambda x, i: x.at[i].max(x),
            "in_bounds": lambda x, i: x.at[i].max(x, **fast),
        },
        "W13_segment_sum": {
            "segment_sum": lambda x, i: jax.ops.segment_sum(x, i, num_segments=1000),
            "in_bounds": lambda x, i: jax.ops.segment_sum(x, i, num_segments=1000, **fast),
            "bincount": lambda x, i: jnp.bincount(i, x, length=1000),
        },
        "W13_take_columns": {
            "x[:,i]": lambda x, i: x[:, i],
            "take": lambda x, i: jnp.take(x, i, axis=1),
            "in_bounds": lambda x, i: x.at[:, i].get(**fast),
        },
        "W13_along1": {
            "take_along_axis": lambda x, i: jnp.take_along_axis(x, i, axis=1),
            "in_bounds": lambda x, i: jnp.take_along_axis(x, i, axis=1, **fast),
        },
        "W13_along0": {
            "take_along_axis": lambda x, i: jnp.take_along_axis(x, i, axis=0),
            "in_bounds": lambda x, i: jnp.take_along_axis(x, i, axis=0, **fast),
        },
        "W13_flip1": lambda x: jnp.flip(x, 1),
        "W13_flip0": lambda x: jnp.flip(x, 0),
        "W13_flip_step": {
            "x[::-1,::-2]": lambda x: x[::-1, ::-2],
            "flip": lambda x: jnp.flip(x[:, 1::2], (0, 1)),
        },
        "W13_flip_transposed": {
            "T.flip": lambda x: jnp.flip(x.T, 1),
            "flip.T": lambda x: jnp.flip(x, 0).T,
        },
        "W13_roll1": lambda x: jnp.roll(x, 100, 1),
        "W13_roll0": lambda x: jnp.roll(x, 100, 0),
        "W13_tril": lambda x: jnp.tril(x),
        "W14_cumsum1": lambda x: jnp.cumsum(x, 1),
        "W14_cumsum0": lambda x: jnp.cumsum(x, 0),
        "W14_cumsum_middle": lambda x: jnp.cumsum(x, 1),
        "W14_cumsum_back": lambda x: lax.cumsum(x, 1, reverse=True),
        "W14_cumsum_pairs": lambda x: jnp.cumsum(x.reshape(N * N // 2, 2), 0),
        "W14_cummax1": lambda x: lax.cummax(x, 1),
        "W14_cummax0": lambda x: lax.cummax(x, 0),
        "W14_cumprod1": lambda x: jnp.cumprod(x, 1),
        "W14_cumprod0": lambda x: jnp.cumprod(x, 0),
        "W14_recurrence1": {"tree": recurrence_tree(1), "scan": recurrence_steps(1)},
        "W14_recurrence0": {"tree": recurrence_tree(0), "scan": recurrence_steps(0)},
        "W14_sort1": {"sort": lambda x: jnp.sort(x, 1), "unstable": lambda x: unstable(x, 1)},
        "W14_sort0": {"sort": lambda x: jnp.sort(x, 0), "unstable": lambda x: unstable(x, 0)},
        "W14_sort_flat": {"sort": lambda x: jnp.sort(x), "unstable": lambda x: unstable(x, 0)},
        "W14_argsort1": lambda x: jnp.argsort(x, 1).astype(jnp.float32),
        "W14_argsort_flat": lambda x: jnp.argsort(x).astype(jnp.float32),
        "W14_top_k": lambda x: lax.top_k(x, MOST)[0],
        "W14_var1": lambda x: jnp.var(x, 1),
        "W14_std1": lambda x: jnp.std(x, 1),
        "W14_var0": lambda x: jnp.var(x, 0),
        "W14_norm1": lambda x: jnp.linalg.norm(x, axis=1),
        "W14_norm0": lambda x: jnp.linalg.norm(x, axis=0),
        "W14_logsumexp1": lambda x: logsumexp(x, 1),
        "W14_logsumexp0": lambda x: logsumexp(x, 0),
        "W15_conv2d": conv,
        "W15_conv2d_input": pullback(conv, 0),
        "W15_conv2d_weights": pullback(conv, 1),
        "W15_conv1d": conv,
        "W15_conv1d_input": pullback(conv, 0),
        "W15_conv1d_weights": pullback(conv, 1),
        "W15_depthwise": lambda x, k: conv(x, k, 64),
        "W15_max_pool": {
            "reduce_window": max_pool,
            "reshape": lambda x: squares(x).max((3, 5)),
        },
        "W15_avg_pool": {
            "reduce_window": avg_pool,
            "reshape": lambda x: squares(x).mean((3, 5)),
        },
        "W15_max_pool3": lambda x: pool(x, -jnp.inf, lax.max, 3, 1, 1),
        "W15_avg_pool3": lambda x: pool(x, 0.0, lax.add, 3, 1, 1) / 9,
        "W15_max_pool_vjp": pullback(max_pool, 0),
        "W15_avg_pool_vjp": {
            "reduce_window": pullback(avg_pool, 0),
            "reshape": pullback(lambda x: squares(x).mean((3, 5)), 0),
        },
        "W16_vmap_matmul": {
            "vmap": jax.vmap(jnp.matmul),
            "sum": lambda x, y: (x[:, :, :, None] * y[:, None, :, :]).sum(2),
        },
        "W16_vmap_matvec": {
            "vmap": jax.vmap(jnp.matmul),
            "sum": lambda x, v: (x * v[:, None, :]).sum(2),
        },
        "W16_cholesky": {
            "jnp": jnp.linalg.cholesky,
            "lax": lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
        },
        "W16_solve": jnp.linalg.solve,
        "W16_scan": {
            "scan": scan_steps,
            "unroll8": lambda steps, w, h: lax.scan(
                lambda h, x: (jnp.tanh(h @ w + x), None), h, steps, unroll=8
            )[0],
        },
        "W17_sentence": embed,
        "W17_batch": embed,
        "W18_decode": Decode(),
        "W18_gradient": jax.grad(text_loss, argnums=tuple(range(2, 2 + len(GPT)))),
        "W19_pairwise": pairwise,
        "W19_pairwise_vjp": slopes(lambda x, y: jnp.square(pairwise(x, y)).sum(), 2),
        "W19_nbody_vjp": slopes(potential),
        "W19_batch_stats": batch_norm,
        "W19_batch_stats_vjp": slopes(lambda *args: jnp.square(jax.nn.relu(batch_norm(*args))).mean(), 3),
        "W19_layer_norm_net_vjp": slopes(norm_net, 4),
        "W19_lstm_vjp": {"loop": slopes(lstm, 3), "scan": slopes(lstm_scan, 3)},
        "W19_filter": filtered,
        "W19_filter_vjp": slopes(lambda *args: jnp.square(filtered(*args)).mean(), 6),
        "W19_rk4_vjp": {"loop": slopes(rk4, 4), "scan": slopes(rk4_scan, 4)},
        "W19_vocabulary_vjp": slopes(word_loss),
        "W19_f64_vjp": slopes(perceptron, 6),
        "W19_sum_rows3": lambda x: x.sum(-1),
        "W19_sum_rows8": lambda x: x.sum(-1),
        "W19_sum_transposed": lambda x: x.transpose(2, 0, 1).sum(-1),
        "W19_max_transposed": lambda x: x.transpose(2, 0, 1).max(-1),
        "W19_permute4": lambda x: x.transpose(0, 2, 1, 3) + 1.0,
        "W19_permute3210": lambda x: x.transpose(3, 2, 1, 0) + 1.0,
        "W19_transpose": lambda x: x.T + 1.0,
        "W19_stride": lambda x: x[::2, 1::2] + 1.0,
        "W19_slice_pad": lambda x: jnp.pad(x[:, 8:-8], ((0, 0), (8, 8))),
        "W19_max_vjp": slopes(max_energy),
        "W19_max_last_vjp": slopes(max_energy),
        "W19_softmax0_vjp": slopes(lambda x: jnp.square(jax.nn.softmax(x, 0)).sum()),
        "W19_second": jax.grad(lambda x: jax.grad(total)(x).sum()),
        "W19_hessian50": jax.hessian(valley),
        "W19_jacobian50": jax.jacrev(lambda w, x: jnp.tanh(w @ x), argnums=1),
    }

    def operand(x):
        with jax.enable_x64(x.dtype == np.float64):
            return jnp.asarray(x.astype(np.int32) if x.dtype == np.int64 else x)

    def prepare(row, f, args):
        if isinstance(f, (Decode, Steps)):
            return f.prepare(args)
        f = jax.jit(f)

        def double():
            with jax.enable_x64(True):
                return jax.block_until_ready(f(*args))

        if any(x.dtype == jnp.float64 for x in args):
            return double
        return lambda: jax.block_until_ready(f(*args))

    return rows, operand, prepare, np.asarray


def torch_peer(exported=False):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(THREADS)

    class Pullback:
        """The derivative of `f` for one operand; the forward pass is not part of the call."""

        def __init__(self, f, which):
            self.f, self.which = f, which

        def prepare(self, args):
            *xs, ct = [x.detach() for x in args]
            xs = [x.clone().requires_grad_() for x in xs]
            y, x = self.f(*xs), xs[self.which]
            return lambda: torch.autograd.grad(y, x, ct, retain_graph=True)[0]

    def recurrence(x, a):
        y = torch.empty_like(x)
        xs, factors, ys = x.unbind(0), a.unbind(0), y.unbind(0)
        ys[0].copy_(xs[0])
        for i in range(1, len(xs)):
            torch.addcmul(xs[i], factors[i], ys[i - 1], out=ys[i])
        return y

    def recurrence_columns(x, a):
        y = torch.empty_like(x)
        xs, factors, ys = x.unbind(1), a.unbind(1), y.unbind(1)
        ys[0].copy_(xs[0])
        for i in range(1, len(xs)):
            torch.addcmul(xs[i], factors[i], ys[i - 1], out=ys[i])
        return y

    def scan_steps(steps, w, h):
        for x in steps.unbind(0):
            h = torch.tanh(torch.addmm(x, h, w))
        return h

    def embed(ids, mask, *weights):
        weights = iter(weights)
        take = lambda n: [next(weights) for _ in range(n)]
        linear = lambda x: F.linear(x, *take(2))
        norm = lambda x: F.layer_norm(x, [WIDTH], *take(2), eps=1e-12)
        heads = lambda x: x.unflatten(-1, [HEADS, -1]).transpose(1, 2)
        table, places, kinds = take(3)
        h = norm(F.embedding(ids, table) + places[: ids.shape[1]] + kinds[0])
        for _ in range(LAYERS):
            q, k, v = (heads(linear(h)) for _ in range(3))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
            h = norm(h + linear(y.transpose(1, 2).flatten(2)))
            h = norm(h + linear(F.gelu(linear(h))))
        share = mask.to(h.dtype)[..., None]
        mean = (h * share).sum(1) / share.sum(1)
        return mean / mean.norm(dim=-1, keepdim=True)

    def written(caches, news, at):
        """The filled places of the caches, after writing those of the word in place."""
        for cache, x in zip(caches, news):
            cache[:, :, at : at + 1] = x
        return (cache[:, :, : at + 1] for cache in caches)

    def appended(caches, news, at):
        """The same as new memory."""
        return (torch.cat([cache[:, :, :at], x], 2) for cache, x in zip(caches, news))

    def gpt(ids, caches, weights, keep=written):
        weights = iter(weights)
        take = lambda n: [next(weights) for _ in range(n)]
        norm = lambda x, gain, bias: F.layer_norm(x, [WIDTH], gain, bias, eps=1e-5)
        heads = lambda x: x.unflatten(-1, [GPT_HEADS, -1]).transpose(1, 2)
        table, places = take(2)
        at = FILLED if caches else 0
        h = F.embedding(ids, table) + places[at : at + ids.shape[1]]
        for layer in range(GPT_LAYERS):
            wq, bq, wk, bk, wv, bv, wo, bo, g1, b1, w1, c1, w2, c2, g2, b2 = take(16)
            x = norm(h, g1, b1)
            q, k, v = (heads(F.linear(x, w, b)) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
            if caches:
                k, v = keep(caches[2 * layer : 2 * layer + 2], (k, v), at)
                y = F.scaled_dot_product_attention(q, k, v)
            else:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + F.linear(y.transpose(1, 2).flatten(2), wo, bo)
            h = h + F.linear(F.gelu(F.linear(norm(h, g2, b2), w1, c1)), w2, c2)
        gain, bias, w, b = take(4)
        return F.linear(norm(h, gain, bias), w, b)

    def decode(ids, *args):
        n = len(CACHES)
        return gpt(ids, args[:n], args[n:])

    def class_scores(x, *weights):
        k1, b1, k2, b2, w, b = weights
        for k, bias in ((k1, b1), (k2, b2)):
            x = F.max_pool2d(F.relu(F.conv2d(x, k, bias, padding=1)), 2)
        return torch.addmm(b, x.flatten(1), w)

    class ClassStep:
        """A step of gradient descent, from the same weights in each call."""

        def __init__(self, f):
            self.f = f

        def prepare(self, args):
            *weights, x, labels = args
            weights = [w.clone().requires_grad_() for w in weights]

            def call():
                loss = F.cross_entropy(self.f(x, *weights), labels)
                grads = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    return (loss, *torch._foreach_add(weights, grads, alpha=-RATE))

            return call

    class Steps:
        """Steps of gradient descent. Each starts from the weights of the previous one."""

        def __init__(self, loss, n):
            self.loss, self.n = loss, n

        def prepare(self, args):
            weights, data = [w.clone().requires_grad_() for w in args[: self.n]], args[self.n :]

            def call():
                loss = self.loss(*weights, *data)
                grads = torch.autograd.grad(loss, weights)
                with torch.no_grad():
                    torch._foreach_add_(weights, grads, alpha=-RATE)
                return loss

            return call

    class TextGradient:
        def prepare(self, args):
            ids, next_ids, *weights = args
            weights = [x.clone().requires_grad_() for x in weights]

            def call():
                scores = gpt(ids, [], weights)
                loss = F.cross_entropy(scores.flatten(0, 1), next_ids.flatten())
                return torch.autograd.grad(loss, weights)

            return call

    class Gradient:
        """The value of `f` and its gradients for the first `n` operands."""

        def __init__(self, f, n=1):
            self.f, self.n = f, n

        def prepare(self, args):
            xs, rest = [x.clone().requires_grad_() for x in args[: self.n]], args[self.n :]

            def call():
                y = self.f(*xs, *rest)
                return (y, *torch.autograd.grad(y, xs))

            return call

    def compiled(f):
        """`f`, compiled when it is called the first time."""
        return torch.compile(f, dynamic=False)

    def slopes(f, n=1):
        return {"eager": Gradient(f, n), "compile": Gradient(compiled(f), n)}

    def pairwise(x, y):
        return torch.exp(-0.5 * (x[:, None] - y[None, :]).square().sum(-1))

    def potential(x):
        squares = (x[:, None] - x[None, :]).square().sum(-1) + 0.01
        return -0.5 * (1.0 / squares.sqrt()).sum()

    def batch_norm(x, gain, bias):
        mean = x.mean(0, keepdim=True)
        var = (x - mean).square().mean(0, keepdim=True)
        return (x - mean) / (var + 1e-5).sqrt() * gain + bias

    def norm_net(*args):
        *weights, h = args
        for w in weights:
            h = h @ w
            mean = h.mean(-1, keepdim=True)
            var = (h - mean).square().mean(-1, keepdim=True)
            h = F.gelu((h - mean) / (var + 1e-5).sqrt())
        return h.square().mean()

    def lstm(input, state, bias, xs):
        h = c = xs.new_zeros(xs.shape[1], state.shape[0])
        for x in xs.unbind(0):
            gates = x @ input + h @ state + bias
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h.square().mean()

    def lstm_op(input, state, bias, xs):
        """The operation of `torch.nn.LSTM`, which has transposed weights and a second bias."""
        start = xs.new_zeros(1, xs.shape[1], state.shape[0])
        weights = [input.t().contiguous(), state.t().contiguous(), bias, torch.zeros_like(bias)]
        h = torch.lstm(xs, (start, start), weights, True, 1, 0.0, True, False, False)[1]
        return h.square().mean()

    def filtered(b0, b1, b2, a1, a2, signal):
        s1 = s2 = torch.zeros_like(b0)
        ys = []
        for x in signal.unbind(0):
            y = b0 * x + s1
            s1, s2 = b1 * x - a1 * y + s2, b2 * x - a2 * y
            ys.append(y)
        return torch.stack(ys)

    def rk4(*args):
        w1, b1, w2, b2, y = args
        slope = lambda y: torch.tanh(y @ w1 + b1) @ w2 + b2
        dt = 0.05
        for _ in range(20):
            k1 = slope(y)
            k2 = slope(y + k1 * (dt / 2))
            k3 = slope(y + k2 * (dt / 2))
            k4 = slope(y + k3 * dt)
            y = y + (k1 + k2 * 2.0 + k3 * 2.0 + k4) * (dt / 6)
        return y.square().mean()

    def perceptron(*args):
        *layers, x, labels = args
        for i in range(0, 6, 2):
            x = (F.relu(x) if i else x) @ layers[i] + layers[i + 1]
        return F.cross_entropy(x, labels)

    def total(x):
        bell = torch.tanh(x * 1.5 + 0.5) * torch.exp(-x.square())
        return (bell + x.sigmoid() * x - (x.square() + 1.0).sqrt()).sum()

    def second(x):
        return torch.func.grad(lambda x: torch.func.grad(total)(x).sum())(x)

    def valley(x, form):
        curve = 100.0 * (x[1:] - x[:-1].square()).square() + (1.0 - x[:-1]).square()
        return curve.sum() + (x * (form @ x)).sum()

    def hessian(x, form):
        return torch.func.hessian(valley)(x, form)

    def jacobian(form, x):
        return torch.func.jacrev(lambda x: torch.tanh(form @ x))(x)

    def both(f):
        return {"eager": f, "compile": compiled(f)}

    def steps(loss, n):
        return {"eager": Steps(loss, n), "compile": Steps(compiled(loss), n)}

    def linear_perceptron(w0, b0, w1, b1, w2, b2, x, labels):
        """The perceptron with weights [outputs, inputs]."""
        h = F.relu(F.linear(x, w0, b0))
        h = F.relu(F.linear(h, w1, b1))
        return F.cross_entropy(F.linear(h, w2, b2), labels)

    def tiny_loss(w0, b0, w1, b1, x, target):
        return F.mse_loss(F.linear(torch.tanh(F.linear(x, w0, b0)), w1, b1), target)

    later = torch.ones(BLOCK_X[1], BLOCK_X[1], dtype=torch.bool).triu(1)

    def block_loss(*args):
        g1, b1, wq, bq, wk, bk, wv, bv, wo, bo, g2, b2, w1, c1, w2, c2, x = args
        heads = lambda x: x.unflatten(-1, [BLOCK_HEADS, -1]).transpose(1, 2)
        h = F.layer_norm(x, x.shape[-1:], g1, b1, 1e-5)
        q, k, v = (heads(F.linear(h, w, b)) for w, b in ((wq, bq), (wk, bk), (wv, bv)))
        scores = q @ k.transpose(2, 3) * (1.0 / q.shape[-1] ** 0.5)
        y = scores.masked_fill(later, -1e9).softmax(-1) @ v
        x = x + F.linear(y.transpose(1, 2).flatten(2), wo, bo)
        h = F.linear(F.layer_norm(x, x.shape[-1:], g2, b2, 1e-5), w1, c1)
        return (x + F.linear(F.gelu(h, approximate="tanh"), w2, c2)).square().mean()

    def block_tangent(*args):
        n = len(BLOCK)
        weights, d_weights, (x, dx) = args[:n], args[n : 2 * n], args[2 * n :]
        return torch.func.jvp(block_loss, (*weights, x), (*d_weights, dx))

    def example_slopes(*args):
        *layers, x, labels = args
        slope = torch.func.grad(lambda layers, x, label: linear_perceptron(*layers, x[None], label[None]))
        return torch.func.vmap(slope, in_dims=(None, 0, 0))(layers, x, labels)

    def chain(x, shift, scale):
        for _ in range(500):
            x = x + shift
            x = x * scale
        return x

    def rnn(input, state, bias, xs):
        h = xs.new_zeros(xs.shape[1], state.shape[0])
        for x in xs.unbind(0):
            h = torch.tanh(x @ input + h @ state + bias)
        return h.square().mean()

    max_energy = lambda x: x.amax(1).square().sum()

    conv2 = lambda x, k: F.conv2d(x, k, padding=1)
    conv1 = lambda x, k: F.conv1d(x, k, padding=2)
    max_pool = lambda x: F.max_pool2d(x, 2)
    avg_pool = lambda x: F.avg_pool2d(x, 2)
    f32 = torch.float32

    rows = {
        "W1": steps(linear_perceptron, len(MLP)),
        "W2": steps(tiny_loss, len(TINY)),
        "W3": slopes(block_loss, len(BLOCK) + 1),
        "W3f": both(block_loss),
        "W4f": both(total),
        "W4g": slopes(total),
        **{f"W5_{n}": both(lambda x, y: x @ y) for n in PRODUCTS},
        "W7": both(chain),
        "W8": both(example_slopes),
        "W9_softmax": both(lambda x: x.softmax(-1)),
        "W9_layernorm": both(lambda x, gain, bias: F.layer_norm(x, x.shape[-1:], gain, bias, 1e-5)),
        "W9_sum0": both(lambda x: x.sum(0)),
        "W9_sum1": both(lambda x: x.sum(1)),
        "W10": both(block_tangent),
        "W11": {"eager": ClassStep(class_scores), "compile": ClassStep(compiled(class_scores))},
        "W11_scores": both(class_scores),
        "W12": slopes(rnn, 3),
        "W13_take_rows": {
            "index_select": lambda x, i: x.index_select(0, i),
            "x[i]": lambda x, i: x[i],
            "embedding": lambda x, i: F.embedding(i, x),
        },
        "W13_add_rows": {
            "index_add": lambda x, i, u: x.index_add(0, i, u),
            "index_put": lambda x, i, u: x.index_put((i,), u, accumulate=True),
        },
        "W13_set_rows": {
            "index_copy": lambda x, i, u: x.index_copy(0, i, u),
            "index_put": lambda x, i, u: x.index_put((i,), u),
        },
        "W13_segment_rows": {
            "index_add": lambda x, i: x.new_zeros(TABLE).index_add_(0, i, x),
        },
        "W13_take": {
            "index_select": lambda x, i: x.index_select(0, i),
            "x[i]": lambda x, i: x[i],
            "take": torch.take,
            "gather": lambda x, i: x.gather(0, i),
        },
        "W13_scatter_add": {
            "scatter_add": lambda x, i: x.scatter_add(0, i, x),
            "index_add": lambda x, i: x.index_add(0, i, x),
            "index_put": lambda x, i: x.index_put((i,), x, accumulate=True),
        },
        "W13_scatter_max": {
            "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, x, "amax"),
            "index_reduce": lambda x, i: x.index_reduce(0, i, x, "amax"),
        },
        "W13_segment_sum": {
            "scatter_add": lambda x, i: x.new_zeros(1000).scatter_add_(0, i, x),
            "index_add": lambda x, i: x.new_zeros(1000).index_add_(0, i, x),
            "bincount": lambda x, i: torch.bincount(i, x, 1000),
        },
        "W13_take_columns": {
            "index_select": lambda x, i: x.index_select(1, i),
            "x[:,i]": lambda x, i: x[:, i],
        },
        "W13_along1": {
            "gather": lambda x, i: x.gather(1, i),
            "take_along_dim": lambda x, i: torch.take_along_dim(x, i, 1),
        },
        "W13_along0": {
            "gather": lambda x, i: x.gather(0, i),
            "take_along_dim": lambda x, i: torch.take_along_dim(x, i, 0),
        },
        "W13_flip1": lambda x: x.flip(1),
        "W13_flip0": lambda x: x.flip(0),
        "W13_flip_step": lambda x: x[:, 1::2].flip(0, 1).contiguous(),
        # A flip keeps the strides of its operand: the copy makes it a transposition.
        "W13_flip_transposed": {
            "t.flip": lambda x: x.t().flip(1).contiguous(),
            "t.contiguous.flip": lambda x: x.t().contiguous().flip(1),
        },
        "W13_roll1": lambda x: x.roll(100, 1),
        "W13_roll0": lambda x: x.roll(100, 0),
        "W13_tril": lambda x: x.tril(),
        "W14_cumsum1": lambda x: x.cumsum(1),
        "W14_cumsum0": lambda x: x.cumsum(0),
        "W14_cumsum_middle": lambda x: x.cumsum(1),
        "W14_cumsum_back": lambda x: x.flip(1).cumsum(1).flip(1),
        "W14_cumsum_pairs": lambda x: x.reshape(N * N // 2, 2).cumsum(0),
        "W14_cummax1": lambda x: x.cummax(1).values,
        "W14_cummax0": lambda x: x.cummax(0).values,
        "W14_cumprod1": lambda x: x.cumprod(1),
        "W14_cumprod0": lambda x: x.cumprod(0),
        "W14_recurrence1": {
            "columns": recurrence_columns,
            "transposed": lambda x, a: recurrence(
                x.t().contiguous(), a.t().contiguous()
            ).t().contiguous(),
        },
        "W14_recurrence0": recurrence,
        "W14_sort1": lambda x: x.sort(1).values,
        "W14_sort0": lambda x: x.sort(0).values,
        "W14_sort_flat": lambda x: x.sort(0).values,
        "W14_argsort1": lambda x: x.argsort(dim=1, stable=True).to(f32),
        "W14_argsort_flat": lambda x: x.argsort(dim=0, stable=True).to(f32),
        "W14_top_k": lambda x: x.topk(MOST, 1).values,
        "W14_var1": lambda x: x.var(1, correction=0),
        "W14_std1": lambda x: x.std(1, correction=0),
        "W14_var0": lambda x: x.var(0, correction=0),
        "W14_norm1": lambda x: torch.linalg.vector_norm(x, dim=1),
        "W14_norm0": lambda x: torch.linalg.vector_norm(x, dim=0),
        "W14_logsumexp1": lambda x: x.logsumexp(1),
        "W14_logsumexp0": lambda x: x.logsumexp(0),
        "W15_conv2d": conv2,
        "W15_conv2d_input": Pullback(conv2, 0),
        "W15_conv2d_weights": Pullback(conv2, 1),
        "W15_conv1d": conv1,
        "W15_conv1d_input": Pullback(conv1, 0),
        "W15_conv1d_weights": Pullback(conv1, 1),
        "W15_depthwise": lambda x, k: F.conv2d(x, k, padding=1, groups=64),
        "W15_max_pool": {
            "max_pool2d": max_pool,
            "reshape": lambda x: x.reshape(8, 32, 32, 2, 32, 2).amax((3, 5)),
        },
        "W15_avg_pool": {
            "avg_pool2d": avg_pool,
            "reshape": lambda x: x.reshape(8, 32, 32, 2, 32, 2).mean((3, 5)),
        },
        "W15_max_pool3": lambda x: F.max_pool2d(x, 3, 1, 1),
        "W15_avg_pool3": lambda x: F.avg_pool2d(x, 3, 1, 1),
        "W15_max_pool_vjp": Pullback(max_pool, 0),
        "W15_avg_pool_vjp": Pullback(avg_pool, 0),
        "W16_vmap_matmul": {"vmap": torch.func.vmap(torch.matmul), "bmm": torch.bmm},
        "W16_vmap_matvec": {
            "vmap": torch.func.vmap(torch.matmul),
            "bmm": lambda x, v: torch.bmm(x, v.unsqueeze(2)).squeeze(2),
            "sum": lambda x, v: (x * v.unsqueeze(1)).sum(2),
        },
        "W16_cholesky": {
            "cholesky": torch.linalg.cholesky,
            "cholesky_ex": lambda x: torch.linalg.cholesky_ex(x).L,
        },
        "W16_solve": {
            "solve": torch.linalg.solve,
            "solve_ex": lambda x, y: torch.linalg.solve_ex(x, y).result,
        },
        "W16_scan": scan_steps,
        "W17_sentence": embed,
        "W17_batch": embed,
        "W18_decode": decode,
        "W18_gradient": TextGradient(),
        "W19_pairwise": both(pairwise),
        "W19_pairwise_vjp": slopes(lambda x, y: pairwise(x, y).square().sum(), 2),
        "W19_nbody_vjp": slopes(potential),
        "W19_batch_stats": both(batch_norm),
        "W19_batch_stats_vjp": slopes(lambda *args: batch_norm(*args).relu().square().mean(), 3),
        "W19_layer_norm_net_vjp": slopes(norm_net, 4),
        "W19_lstm_vjp": {"loop": Gradient(lstm, 3), "lstm": Gradient(lstm_op, 3)},
        "W19_filter": filtered,
        "W19_filter_vjp": Gradient(lambda *args: filtered(*args).square().mean(), 6),
        "W19_rk4_vjp": slopes(rk4, 4),
        "W19_vocabulary_vjp": slopes(lambda x, i: -x.log_softmax(-1).gather(-1, i).mean()),
        "W19_f64_vjp": slopes(perceptron, 6),
        "W19_sum_rows3": both(lambda x: x.sum(-1)),
        "W19_sum_rows8": both(lambda x: x.sum(-1)),
        "W19_sum_transposed": both(lambda x: x.permute(2, 0, 1).sum(-1)),
        "W19_max_transposed": both(lambda x: x.permute(2, 0, 1).amax(-1)),
        # A sum keeps the strides of its operand: the copy comes first.
        "W19_permute4": both(lambda x: x.permute(0, 2, 1, 3).contiguous() + 1.0),
        "W19_permute3210": both(lambda x: x.permute(3, 2, 1, 0).contiguous() + 1.0),
        "W19_transpose": both(lambda x: x.t().contiguous() + 1.0),
        "W19_stride": both(lambda x: x[::2, 1::2] + 1.0),
        "W19_slice_pad": both(lambda x: F.pad(x[:, 8:-8], (8, 8))),
        "W19_max_vjp": slopes(max_energy),
        "W19_max_last_vjp": slopes(max_energy),
        "W19_softmax0_vjp": slopes(lambda x: x.softmax(0).square().sum()),
        "W19_second": both(second),
        "W19_hessian50": both(hessian),
        "W19_jacobian50": both(jacobian),
    }

    if exported:
        decode_appended = lambda ids, *args: gpt(ids, args[: len(CACHES)], args[len(CACHES) :], appended)
        rows = {
            "W11_scores": class_scores,
            "W17_sentence": embed,
            "W17_batch": embed,
            "W18_decode": decode_appended,
        }

    def operand(x):
        return torch.from_numpy(np.array(x, order="C"))

    def prepare(row, f, args):
        n = LINEAR.get(row, 0)
        args = [x.t().contiguous() if x.ndim == 2 else x for x in args[:n]] + args[n:]
        if isinstance(f, (Pullback, TextGradient, Gradient, ClassStep, Steps)):
            return f.prepare(args)
        # Compiled code and derivatives of functions take no tensors of the mode that forbids derivatives.
        if not row.startswith(("W13", "W14", "W15", "W16", "W17", "W18")):
            return lambda: f(*args)

        def call():
            with torch.inference_mode():
                return f(*args)

        return call

    return rows, operand, prepare, lambda x: x.detach().cpu().numpy()


def onnxruntime_peer():
    import tempfile

    import onnxruntime
    import torch

    rows, operand, _, _ = torch_peer(exported=True)

    class Model(torch.nn.Module):
        def __init__(self, f, weights):
            super().__init__()
            self.f = f
            self.weights = torch.nn.ParameterList(weights)

        def forward(self, *inputs):
            return self.f(*inputs, *self.weights)

    def prepare(row, f, args):
        inputs, weights = args[: ONNX[row]], args[ONNX[row] :]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            names = [f"input{i}" for i in range(len(inputs))]
            torch.onnx.export(
                Model(f, weights).eval(), tuple(inputs), path, input_names=names, dynamo=False
            )
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        given = {name: x.numpy() for name, x in zip(names, inputs)}
        return lambda: session.run(None, given)[0]

    return rows, operand, prepare, np.asarray


# ---- Timing, as `measure.rs` does it.


def sample(batch, call):
    start = time.perf_counter()
    for _ in range(batch):
        call()
    # Training steps of JAX are waited for here.
    if hasattr(call, "wait"):
        call.wait()
    return (time.perf_counter() - start) / batch


def milliseconds(min_time, call):
    """The median of batches of about 10 ms: at least five, for at least `min_time` seconds."""
    sample(1, call)
    one = sample(1, call)
    batch = min(max(int(np.ceil(0.010 / one)), 1), 200_000)
    start = time.perf_counter()
    while time.perf_counter() - start < 0.1 * min_time:
        sample(1, call)
    samples, start = [], time.perf_counter()
    while len(samples) < 5 or time.perf_counter() - start < min_time:
        samples.append(sample(batch, call))
        if time.perf_counter() - start > 20.0 * min_time + 5.0:
            break
    return statistics.median(samples) * 1e3


def mebibytes(name):
    with open("/proc/self/status") as status:
        sizes = [line.split()[1] for line in status if line.startswith(name)]
    return int(sizes[0]) / 1024


def memory(call):
    """The memory that calls take beside their arguments, as `measure.rs` measures it."""
    sample(2, call)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = mebibytes("VmRSS:")
    sample(3, call)
    return mebibytes("VmHWM:") - before


def checks(row, outs):
    """The check of the row, or else the sum, the sum of absolute values, and the sum with weights that depend
    on the position."""
    outs = [np.asarray(out, np.float64) for out in outs]
    if row in CHECKS:
        return [float(CHECKS[row](*outs))]
    out = np.concatenate([out.ravel() for out in outs])
    weights = numbers(999, out.size, 1.0).astype(np.float64)
    return float(out.sum()), float(np.abs(out).sum()), float(out @ weights)


def chosen(names):
    for part in filter(None, OPTIONS.rows.split(",")):
        found = [part] if part in names else [n for n in names if n.startswith(part)]
        if not found:
            sys.exit(f"no row has the name or prefix {part}")
        yield from found


PEERS = {"jax": jax_peer, "torch": torch_peer, "onnxruntime": onnxruntime_peer}


def main():
    selected = list(dict.fromkeys(chosen(list(ARGUMENTS))))
    if OPTIONS.list:
        print("\n".join(selected))
        return
    peer = OPTIONS.peer
    rows, operand, prepare, array = PEERS[peer]()
    for row in selected:
        if row in SKIPPED[peer]:
            print(f"# skipped,{row},{peer}: {SKIPPED[peer][row]}", flush=True)
            continue
        if row in NOTES[peer]:
            print(f"# note,{row},{peer}: {NOTES[peer][row]}", flush=True)
        forms = rows[row] if isinstance(rows[row], dict) else {"": rows[row]}
        if OPTIONS.first:
            forms = dict(list(forms.items())[:1])
        args = [operand(INPUTS[name]()) for name in ARGUMENTS[row]]
        times, first = {}, None
        for name, f in forms.items():
            call = prepare(row, f, args)
            if OPTIONS.check:
                for _ in range(4 if row in STEPS else 1):
                    out = call()
                found = checks(row, [array(x) for x in (out if isinstance(out, (list, tuple)) else [out])])
                if first is None:
                    first = found
                    print(f"# check,{row},{peer}," + ",".join("%.9g" % x for x in found), flush=True)
                # The sum of absolute values is the largest of the three.
                elif any(abs(x - y) > 1e-5 * max(map(abs, first)) for x, y in zip(first, found)):
                    print(f"# differs,{row},{peer}: form {name}: {found}", flush=True)
            times[name] = memory(call) if OPTIONS.memory else milliseconds(OPTIONS.min_time, call)
        if len(times) > 1:
            each = " ".join(f"{name}={t:.6g}" for name, t in times.items())
            print(f"# forms,{row},{peer}: {each}")
        print(f"{row},{peer},{min(times.values()):.6g}", flush=True)


main()
