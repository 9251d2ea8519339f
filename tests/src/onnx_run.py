"""Checks and runs ONNX models: `onnx_run.py INPUT OUTPUT`. The files are those of `xla.py`, with a model as a line of hex.

ONNX Runtime has no kernels for some ops on some dtypes. The reference implementation of ONNX runs those, and standard
error counts them.
"""

import math
import sys

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

NAMES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "f16": np.float16}
onnxruntime.set_default_logger_severity(4)


class Erf(OpRun):
    """The reference implementation rounds to float32."""

    def _run(self, x):
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


def read(line):
    dtype, shape, data = line.rstrip("\n").split(" ")
    shape = [int(n) for n in shape.strip("[]").split(",") if n]
    return np.frombuffer(bytes.fromhex(data), dtype=NAMES[dtype]).reshape(shape)


def write(x):
    x = np.asarray(x)
    dtype = next(name for name, of in NAMES.items() if x.dtype == of)
    shape = ",".join(str(n) for n in x.shape)
    return f"{dtype} [{shape}] {np.ascontiguousarray(x).tobytes().hex()}"


def run(model, args):
    """Returns the results, and whether ONNX Runtime computed them."""
    parsed = onnx.load_from_string(model)
    onnx.checker.check_model(parsed, full_check=True)
    feeds = {x.name: arg for x, arg in zip(parsed.graph.input, args, strict=True)}
    try:
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            raise
        return ReferenceEvaluator(parsed, new_ops=[Erf]).run(None, feeds), False
    return session.run(None, feeds), True


def main():
    n_reference = 0
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as target:
        while head := source.readline():
            _, n_args, n_lines, _ = head.split(" ")
            args = [read(source.readline()) for _ in range(int(n_args))]
            model = bytes.fromhex("".join(source.readline().strip() for _ in range(int(n_lines))))
            try:
                with np.errstate(all="ignore"):
                    outs, by_runtime = run(model, args)
                n_reference += not by_runtime
                lines = [f"ok {len(outs)}", *map(write, outs)]
            except Exception as error:
                lines = ["error " + " ".join(str(error).split())[:600]]
            target.writelines(line + "\n" for line in lines)
    print(f"{n_reference} by the reference implementation of ONNX", file=sys.stderr)


main()
