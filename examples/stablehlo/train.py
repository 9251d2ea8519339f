"""Trains with the step that `cargo run --release --bin export_stablehlo` wrote, on one batch.

    python3 train.py [FOLDER] [STEPS]

Needs the package `jax`, of which only the compiler and the buffers are used.
"""

import sys

import jax
import numpy as np
from jaxlib import _jax
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def arguments(path):
    for line in open(path):
        dtype, shape, *numbers = line.split()
        shape = [int(n) for n in shape.strip("[]").split(",") if n]
        yield np.array([float(n) for n in numbers]).astype(DTYPES[dtype]).reshape(shape)


def main(folder="target/stablehlo", steps="20"):
    device = jax.devices()[0]
    devices = _jax.DeviceList((device,))
    text = open(f"{folder}/step.mlir").read()
    step = device.client.compile_and_load(text, devices, xla_client.CompileOptions())
    args = [jax.device_put(x, device) for x in arguments(f"{folder}/arguments.txt")]
    for number in range(int(steps)):
        outs = step.execute_sharded(args).disassemble_into_single_device_arrays()
        *state, loss = [out[0] for out in outs]
        # Parameters and optimiser state stay on the device.
        args = state + args[len(state):]
        print(f"step {number + 1}: loss {float(loss):.6f}")


main(*sys.argv[1:])
