"""Writes the files that `formats.rs` and `broken_formats.rs` read, and checks those that gradloom wrote.

    python core/files/tests/goldens/make.py

It needs NumPy and PyTorch. `written.npz` and `written.npy` are from `save`: run it after `BLESS=1 cargo test`.
"""

import io
import os
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent


def numpy_files():
    x = np.arange(6).reshape(2, 3)
    arrays = {
        "layers.0.weight": x.astype("<f4") / 2,
        "layers.0.bias": np.array([1.5, -2.5]),
        "fortran": np.asfortranarray(x.astype("<i4")),
        "big": x.astype(">f8"),
        "fortran_big": np.asfortranarray(x.astype(">i2")),
        "scalar": np.array(7, "<i8"),
        "empty": np.zeros((0, 3), "<f4"),
        "half": np.array([1.5, -0.25], "<f2"),
        "flags": np.array([True, False]),
        "bytes": np.array([200, 3], "u1"),
        "words": np.array([2**32 - 1], ">u4"),
        "cube": np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    }
    np.savez(HERE / "numpy.npz", **arrays)
    np.savez_compressed(HERE / "numpy_compressed.npz", **arrays)
    np.save(HERE / "fortran.npy", np.asfortranarray(x.astype("<f4")))
    np.save(HERE / "structured.npy", np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")]))
    np.save(HERE / "complex.npy", np.array([1j], "<c8"))
    np.save(HERE / "object.npy", np.array([{}], dtype=object), allow_pickle=True)


def torch_files():
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 2
    shared = torch.arange(10, dtype=torch.int64)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape) + i)
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 2)).sum().backward()
    optimiser.step()
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape) + i)
    values = {
        "dense": x,
        "transposed": x.t(),
        "shared": {"low": shared[:4], "odd": shared[1::2], "last": shared[9]},
        "repeated": torch.tensor([3.0]).expand(2, 3),
        "half": torch.tensor([1.5, -0.25], dtype=torch.float16),
        "brain": torch.tensor([1.0, -2.5], dtype=torch.bfloat16),
        "double": torch.tensor(2.5, dtype=torch.float64),
        "bytes": torch.tensor([200, 3], dtype=torch.uint8),
        "short": torch.tensor([-5], dtype=torch.int16),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.tensor([4.0])),
        "list": [torch.tensor([5], dtype=torch.int32), OrderedDict(a=torch.tensor([6]))],
        "size": x.shape,
        "epoch": 3,
        "loss": 0.5,
        "large": -(2**40),
        "name": "run",
        "nothing": None,
        "done": False,
    }
    torch.save(values, HERE / "values.pt")
    torch.save(values, HERE / "values_protocol4.pt", pickle_protocol=4)
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, HERE / "training.pt")
    torch.save(model.state_dict(), HERE / "model.pth")
    torch.save(x, HERE / "tensor.pt")
    torch.save(model, HERE / "whole_model.pt")
    torch.save({"x": x}, HERE / "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"x": torch.tensor([1j])}, HERE / "complex.pt")
    torch.save({"x": torch.ones(2, 2).to_sparse()}, HERE / "sparse.pt")

    class Evil:
        def __reduce__(self):
            return os.system, ("touch gradloom-was-here",)

    torch.save({"x": x, "y": Evil()}, HERE / "os_system.pt")
    big_endian(HERE / "dense_big.pt")


def big_endian(path):
    """Writes what a machine with the other byte order writes."""
    buffer = io.BytesIO()
    torch.save({"x": torch.tensor([1.5, -2.0])}, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            new.writestr(zipfile.ZipInfo(name), data)


def check_written():
    expected = {
        "layers.0": np.arange(6, dtype="<f4").reshape(2, 3) / 2,
        "layers.1": np.array([1.5, -2.5]),
        "scalar": np.array(7),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 3), "<i4"),
    }
    found = np.load(HERE / "written.npz", allow_pickle=False)
    assert set(found.files) == set(expected), found.files
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert found[name].shape == array.shape, name
        assert np.array_equal(found[name], array), name
    assert np.array_equal(np.load(HERE / "written.npy"), [1, 2, 3])
    print("NumPy reads what gradloom wrote")


if __name__ == "__main__":
    numpy_files()
    torch_files()
    if (HERE / "written.npz").exists():
        check_written()
