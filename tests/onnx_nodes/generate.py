"""Writes the tests of the package `onnx` into a folder: `python generate.py FOLDER`."""

import glob
import os
import shutil
import sys

import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import model, node
from onnx.backend.test.runner import Runner

FOLDER = sys.argv[1]
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")


def message(value, port):
    """Returns the message of an input or output."""
    if isinstance(value, TensorProto):
        return value
    kind = port.type.WhichOneof("value")
    of = {"sequence_type": "from_list", "optional_type": "from_optional", "map_type": "from_dict"}
    return getattr(numpy_helper, of.get(kind, "from_array"))(value, port.name)


def write(path, message):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


cases = list(node.collect_testcases()) + list(model.collect_testcases())
for case in cases:
    if case.kind == "real":  # models on the network
        continue
    folder = os.path.join(FOLDER, case.kind, case.name)
    write(os.path.join(folder, "model.onnx"), case.model)
    for i, (inputs, outputs) in enumerate(case.data_sets):
        ports = case.model.graph
        for name, values, ports in (("input", inputs, ports.input), ("output", outputs, ports.output)):
            for j, (value, port) in enumerate(zip(values, ports)):
                path = os.path.join(folder, f"test_data_set_{i}", f"{name}_{j}.pb")
                write(path, message(value, port))
for kind in ("pytorch-converted", "pytorch-operator"):
    shutil.copytree(os.path.join(DATA, kind), os.path.join(FOLDER, kind), dirs_exist_ok=True)
# Networks whose weights are made by nodes. The inputs are those of the runner of the standard.
for path in glob.glob(os.path.join(DATA, "light", "*.onnx")):
    name = os.path.splitext(os.path.basename(path))[0]
    network, folder = onnx.load(path), os.path.join(FOLDER, "light", name)
    write(os.path.join(folder, "model.onnx"), network)
    [port] = [x for x in network.graph.input if x.name not in {y.name for y in network.graph.initializer}]
    value = Runner.generate_dummy_data(port, seed=0, name=name, random=False)
    write(os.path.join(folder, "test_data_set_0", "input_0.pb"), message(value, port))
    shutil.copy(f"{path[:-5]}_output_0.pb", os.path.join(folder, "test_data_set_0", "output_0.pb"))
