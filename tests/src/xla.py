"""Runs StableHLO functions: `xla.py INPUT OUTPUT`. The module `xla` of gradloom-tests writes and reads the files."""

import os
import sys

# Compiled code runs once.
os.environ["XLA_FLAGS"] = "--xla_llvm_disable_expensive_passes=true " + os.environ.get("XLA_FLAGS", "")
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jaxlib import _jax
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)

NAMES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
DEVICE = jax.devices("cpu")[0]


def read(line):
    dtype, shape, data = line.rstrip("\n").split(" ")
    shape = [int(n) for n in shape.strip("[]").split(",") if n]
    return np.frombuffer(bytes.fromhex(data), dtype=NAMES[dtype]).reshape(shape)


def write(x):
    dtype = next(name for name, of in NAMES.items() if x.dtype == of)
    shape = ",".join(str(n) for n in x.shape)
    return f"{dtype} [{shape}] {np.ascontiguousarray(x).tobytes().hex()}"


def run(text, args):
    devices = _jax.DeviceList((DEVICE,))
    executable = DEVICE.client.compile_and_load(text, devices, xla_client.CompileOptions())
    args = [jax.device_put(x, DEVICE) for x in args]
    outs = executable.execute_sharded(args).disassemble_into_single_device_arrays()
    return [np.asarray(out[0]) for out in outs]


def main():
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as target:
        while head := source.readline():
            _, n_args, n_lines = head.split(" ")
            args = [read(source.readline()) for _ in range(int(n_args))]
            text = "".join(source.readline() for _ in range(int(n_lines)))
            try:
                outs = run(text, args)
                lines = [f"ok {len(outs)}", *map(write, outs)]
            except Exception as error:
                lines = ["error " + " ".join(str(error).split())[:600]]
            target.writelines(line + "\n" for line in lines)


main()
