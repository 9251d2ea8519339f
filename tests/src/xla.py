"""Runs StableHLO functions, or lists their collectives: `xla.py run|collectives INPUT OUTPUT`.

The module `xla` of gradloom-tests writes and reads the files.
"""

import math
import os
import re
import sys

# Compiled code runs once.
FLAGS = "--xla_llvm_disable_expensive_passes=true --xla_force_host_platform_device_count=8 "
os.environ["XLA_FLAGS"] = FLAGS
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import ml_dtypes
import numpy as np
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import _jax
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)

NAMES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
DEVICES = jax.devices("cpu")


def read(line):
    dtype, shape, data = line.rstrip("\n").split(" ")
    shape = [int(n) for n in shape.strip("[]").split(",") if n]
    return np.frombuffer(bytes.fromhex(data), dtype=NAMES[dtype]).reshape(shape)


def write(x):
    dtype = next(name for name, of in NAMES.items() if x.dtype == of)
    shape = ",".join(str(n) for n in x.shape)
    return f"{dtype} [{shape}] {np.ascontiguousarray(x).tobytes().hex()}"


def compiled(text, n):
    options = xla_client.CompileOptions()
    options.num_partitions = n
    build = options.executable_build_options
    build.num_partitions = n
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(n).reshape(1, n))
    if n > 1:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    return DEVICES[0].client.compile_and_load(text, _jax.DeviceList(tuple(DEVICES[:n])), options)


def run(text, args, n):
    executable = compiled(text, n)
    if n == 1:
        args = [jax.device_put(x, DEVICES[0]) for x in args]
        outs = executable.execute_sharded(args).disassemble_into_single_device_arrays()
        return [np.asarray(out[0]) for out in outs]
    devices = tuple(DEVICES[:n])
    ins = [GSPMDSharding(devices, of) for of in executable.get_parameter_shardings()]
    args = [jax.make_array_from_callback(x.shape, of, lambda i, x=x: x[i]) for x, of in zip(args, ins)]
    outs = executable.execute_sharded(args).disassemble_into_single_device_arrays()
    return [whole(out, of) for out, of in zip(outs, executable.get_output_shardings())]


def whole(parts, sharding):
    """Puts the parts of a result together."""
    of = GSPMDSharding(tuple(DEVICES[: len(parts)]), sharding)
    tiles = list(sharding.tile_assignment_dimensions) or [1] * parts[0].ndim
    shape = [n * k for n, k in zip(parts[0].shape, tiles)]
    return np.asarray(jax.make_array_from_single_device_arrays(tuple(shape), of, parts))


COLLECTIVE = re.compile(
    r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\((.*)"
)
SIZES = {"f32": 4, "f64": 8, "s32": 4, "s64": 8, "pred": 1}


def collectives(text, n):
    """Returns each collective of the compiled module, with the bytes that a device of a ring sends."""
    found = []
    for line in compiled(text, n).hlo_modules()[0].to_string().splitlines():
        if match := COLLECTIVE.search(line):
            shapes, name, rest = match.groups()
            arrays = re.findall(r"(\w+)\[([\d,]*)\]", shapes)
            size = sum(SIZES[dtype] * math.prod(int(n) for n in dims.split(",") if n) for dtype, dims in arrays)
            of_group = group(rest, n)
            sent = {
                "all-reduce": 2 * size * (of_group - 1) // of_group,
                "all-gather": size * (of_group - 1) // of_group,
                "reduce-scatter": size * (of_group - 1),
                "all-to-all": size * (of_group - 1) // of_group,
                "collective-permute": size,
            }[name]
            found.append(f"{name.replace('-', '_')} {sent}")
    return found


def group(rest, n):
    """Returns the number of devices of a group."""
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]", rest):
        return int(match[1])
    if match := re.search(r"replica_groups=\{\{([\d,]+)\}", rest):
        return len(match[1].split(","))
    return n


def main():
    what = sys.argv[1]
    with open(sys.argv[2]) as source, open(sys.argv[3], "w") as target:
        while head := source.readline():
            _, n_args, n_lines, n_devices = head.split(" ")
            args = [read(source.readline()) for _ in range(int(n_args))]
            text = "".join(source.readline() for _ in range(int(n_lines)))
            try:
                if what == "run":
                    outs = list(map(write, run(text, args, int(n_devices))))
                else:
                    outs = collectives(text, int(n_devices))
                lines = [f"ok {len(outs)}", *outs]
            except Exception as error:
                lines = ["error " + " ".join(str(error).split())[:600]]
            target.writelines(line + "\n" for line in lines)


main()
