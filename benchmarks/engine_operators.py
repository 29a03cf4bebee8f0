"""One operator at a time, by our kernels or ATen's, in a process of its own; see kernels.py.

python -m benchmarks.engine_operators penlight | aten
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from .calls import Call, Spec, bytes_moved, flops
from .engine import serve, shortest

SLOT = 0.1  # seconds
LAYOUT = ("_to_copy", "clone", "permute_copy", "dim_order", "view_copy")


def _inputs(call: Call) -> tuple[torch.Tensor, ...]:
    """Images as they are in the middle of a network of either side: channels last."""
    return tuple(
        x.to(memory_format=torch.channels_last) if x.dim() == 4 and "conv" in str(call.op) else x
        for x in call.inputs
    )


def penlight(spec: Spec, threads: int) -> dict[str, Any]:
    """us of the kernel, what it is, its error, and what there is to do: FLOP and bytes."""
    import penlight as ours

    call = Call(spec).eval()
    inputs = _inputs(call)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        want = call(*inputs)
        want = want[0] if isinstance(want, tuple | list) else want
        file = Path(folder) / "call.pte"
        ours.compile(call, inputs).save(file)
        program = ours.load(file, threads=threads)
    method = program["forward"]
    got = method.call_flat(inputs)[0]
    names = method.instruction_names()
    own = [i for i, name in enumerate(names) if not any(word in name for word in LAYOUT)]
    own = own or list(range(len(names)))
    if not own:
        raise ValueError("compiles to nothing: its result is a view, or known")
    best = [float("inf")]

    def once() -> None:
        times = method.times(inputs, repeats=1)
        best[0] = min(best[0], sum(times[i] for i in own) / 1e3)

    shortest(once, SLOT)
    span = float(want.max() - want.min()) or 1.0 if want.is_floating_point() else 1.0
    return {
        "us": best[0],
        "kernels": sorted({names[i] for i in own}),
        "error": float((torch.as_tensor(got).double() - want.double()).abs().max()) / span,
        "flop": flops(spec, want),
        "bytes": bytes_moved(spec, want),
    }


def aten(spec: Spec, threads: int) -> float:
    """us of the call in eager PyTorch, in the layout that suits it better."""
    torch.set_num_threads(threads)
    call = Call(spec).eval()
    best = float("inf")
    with torch.inference_mode():
        for inputs in {id(x): x for x in (call.inputs, _inputs(call))}.values():
            best = min(best, shortest(lambda inputs=inputs: call(*inputs), SLOT))  # type: ignore[misc]
    return best * 1e6


if __name__ == "__main__":
    serve(time={"penlight": penlight, "aten": aten}[sys.argv[1]])
