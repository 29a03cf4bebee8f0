"""Write the programs in seeds/, which are damaged by tests/cpp/fuzz_mutations.cpp.

    python -m tests.hostile.make_seeds

They are kept in the repository, so that a mutation's number means the same damage everywhere.
`theirs_*`, control_scan, dynamic_length_attention and state_with_initial_value were written by
ExecuTorch 1.5.1 from the programs of tests/compat and are not made here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import penlight
from penlight.ir.dtypes import DType
from penlight.program import Contents
from penlight.program.structs import (
    Allocation,
    Blob,
    Delegate,
    DelegateCall,
    KernelCall,
    Method,
    Operator,
    StoredTensor,
    Tensor,
)

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "compat"))

# Of tests/compat/programs.py: control flow, state, dynamic shapes, several methods, every dtype and
# every kind of value.
COMPILED = (
    "constants_of_every_dtype",
    "containers",
    "control_cond",
    "control_map",
    "dtype_arguments",
    "dynamic_arithmetic",
    "index_with_none",
    "optional_lists",
    "recurrent_cell",
    "scalars",
    "several_methods",
    "shapes_of_nothing",
    "state_cache",
    "strings",
    "tensor_lists",
)


def vector(offset: int) -> Tensor:
    return Tensor(DType.float32, (4,), (0,), allocation=Allocation(1, offset))


def delegate() -> Contents:
    """A delegate between two kernels, its data in a segment; the backend is the test program's."""
    method = Method(
        name="forward",
        values=[vector(0), vector(16), vector(32)],
        inputs=[0],
        outputs=[2],
        instructions=[KernelCall(0, (0, 1, 1)), DelegateCall(0, (1, 2)), KernelCall(0, (2, 2, 2))],
        operators=[Operator("aten::abs", "out")],
        delegates=[Delegate("test_copy", Blob.of(bytes(range(40))), (("level", b"3"), ("empty", b"")))],
        arenas=[48],
    )
    return Contents(methods=[method])


def weights_beside() -> Contents:
    """One weight comes from a .ptd file as it is, one is copied to planned memory first."""
    named = [Tensor(DType.float32, (4,), (0,), name=name, external=True) for name in ("w", "b")]
    method = Method(
        name="forward",
        values=[vector(0), *named, vector(16)],
        inputs=[0],
        outputs=[3],
        instructions=[KernelCall(0, (0, 1, 3, 3)), KernelCall(0, (3, 2, 3, 3))],
        operators=[Operator("aten::mul", "out")],
        arenas=[32],
    )
    stored = StoredTensor(DType.float32, (4,), (0,), Blob.of(bytes(16)))
    return Contents(methods=[method], external={"w": stored, "b": stored})


def shared_sizes() -> Contents:
    """Inputs that have a dimension in common, and a number with a range: records of limits."""
    import torch

    class Pair(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
            pairs = x.reshape(-1, 2, x.shape[1]).sum(1)
            return (pairs + y if y.shape[0] > 2 else pairs - y) * n

    rows = torch.export.Dim("rows", min=3, max=8)
    args = (torch.ones(8, 2), torch.ones(4, 2), 3)
    shapes = ({0: 2 * rows}, {0: rows}, torch.export.Dim.AUTO(min=2, max=5))
    return penlight.compile(Pair(), args, dynamic_shapes=shapes, target="portable", debug=False).contents


def compiled(name: str) -> Contents:
    import programs

    exchange = programs.make(name)
    methods = {key: (module, exchange.example(key)) for key, module in exchange.methods.items()}
    shapes = exchange.dynamic or None
    return penlight.compile(methods, dynamic_shapes=shapes, target="portable").contents


def main() -> None:
    made = {name: compiled(name) for name in COMPILED}
    made |= {"delegate": delegate(), "shared_sizes": shared_sizes(), "weights_beside": weights_beside()}
    for name, contents in made.items():
        path = penlight.Program(contents).save(HERE / "seeds" / f"{name}.pte")
        print(f"{path.stat().st_size:7} {path.name}")


if __name__ == "__main__":
    main()
