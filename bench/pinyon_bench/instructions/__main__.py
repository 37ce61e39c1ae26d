"""The program whose instructions are counted: `python -m pinyon_bench.instructions MODEL SOCKET`."""

from __future__ import annotations

import gc
import os
import sys

from .callgrind import MORE, ROUNDS
from .operations import MODELS, Operation


def main() -> None:
    """Does all operations of a model, as `callgrind` describes."""
    model, address = sys.argv[1:]
    gc.disable()
    for operation in MODELS[model](address):
        _do(operation)
        print(f"{model}:{operation.name}\t{operation.few * (MORE - 1) * operation.at_once}", flush=True)
    # The end of the interpreter under callgrind is of no interest.
    os._exit(0)


def _do(operation: Operation) -> None:
    operation.run(operation.few)
    for _ in range(ROUNDS):
        for times in (operation.few, MORE * operation.few):
            os.getppid()
            operation.run(times)
    os.getppid()


if __name__ == "__main__":
    main()
