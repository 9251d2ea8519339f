"""Trains with the step that `cargo run --release --bin export_stablehlo` wrote, on one batch.

    python3 train.py [FOLDER] [--steps 20]

Needs the package `jax`, of which only the compiler and the buffers are used. A step for two devices
(`export_stablehlo -- FOLDER 2`) runs on two processes, each of which has one device and half of the batch:

    python3 train.py FOLDER --processes 2 --process 0 & python3 train.py FOLDER --processes 2 --process 1
"""

import argparse

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import _jax
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def arguments(path):
    """Yields each argument, and whether its first axis is divided over the devices."""
    for line in open(path):
        placed, dtype, shape, *numbers = line.split()
        shape = [int(n) for n in shape.strip("[]").split(",") if n]
        x = np.array([float(n) for n in numbers]).astype(DTYPES[dtype]).reshape(shape)
        yield x, placed == "rows"


def compiled(text, devices):
    options = xla_client.CompileOptions()
    options.num_partitions = len(devices)
    build = options.executable_build_options
    build.num_partitions = len(devices)
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    ids = np.array([[device.id for device in devices]])
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    return devices[0].client.compile_and_load(text, _jax.DeviceList(tuple(devices)), options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="target/stablehlo")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--address", default="localhost:12765", help="where process 0 listens")
    given = parser.parse_args()
    if given.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(given.address, given.processes, given.process)
    devices = jax.devices()[: given.processes]
    step = compiled(open(f"{given.folder}/step.mlir").read(), devices)
    mesh = Mesh(np.array(devices), ("data",))

    def place(x, divided):
        sharding = NamedSharding(mesh, PartitionSpec("data") if divided else PartitionSpec())
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    args = [place(x, divided) for x, divided in arguments(f"{given.folder}/arguments.txt")]
    whole = [arg.sharding for arg in args]
    for number in range(given.steps):
        outs = step.execute_sharded(args).disassemble_into_single_device_arrays()
        *state, loss = [out[0] for out in outs]
        # Parameters and optimiser state stay on the devices. This process has its part of each.
        state = [
            jax.make_array_from_single_device_arrays(x.shape, sharding, [x])
            for x, sharding in zip(state, whole)
        ]
        args = state + args[len(state):]
        if given.process == 0:
            print(f"step {number + 1}: loss {float(loss):.6f}")


main()
