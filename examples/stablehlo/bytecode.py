"""Turns StableHLO text into portable bytecode, which later versions of XLA read for five years.

    python3 bytecode.py target/stablehlo/step.mlir target/stablehlo/step.mlirbc

Needs the package `jaxlib`. A program with shardings stays text: the dialect of Shardy has no portable form.
"""

import sys

from jaxlib.mlir.dialects import stablehlo

source, target = sys.argv[1:]
text = open(source).read()
if "sdy." in text:
    sys.exit(f"{source} has shardings, for which there is no portable bytecode: keep the text")
version = stablehlo.get_minimum_version()
with open(target, "wb") as file:
    file.write(stablehlo.serialize_portable_artifact_str(text, version))
print(f"{target}: StableHLO {version}")
