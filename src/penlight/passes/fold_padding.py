"""Let convolutions put zeros around their images themselves.

    convolution(constant_pad_nd(x, [a, a, b, b]), padding=[p, q])
        ->   convolution(x, padding=[b + p, a + q])

as networks have them that came from TensorFlow, whose padding is an operator of its
own. The padded image is never made then.

Needs:  edge dialect; as many zeros before as behind, in each dimension of the image.
Keeps:  every output's shape, dtype and value.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from penlight.passes.base import Leave, tensor_of

aten = torch.ops.aten

# Places of a convolution's arguments.
_PADDING, TRANSPOSED = 4, 6


def fold_padding(graph: Graph, leave: Leave) -> int:
    """Rewrite `graph` in place; return how many convolutions took over zeros."""
    folded = 0
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        pad = node.args[0]
        if not isinstance(pad, Node) or pad.target is not aten.constant_pad_nd.default:
            continue
        around = zeros_around(node)
        if isinstance(around, str):
            leave(pad, around)
            continue
        if any(low != high for low, high in around):
            leave(pad, "it has more zeros on one side than on the other")
            continue
        before: Any = node.args[_PADDING]
        if len(before) == 1:
            before = before * len(around)
        node.update_arg(_PADDING, [own + more for own, (more, _) in zip(before, around, strict=True)])
        node.update_arg(0, pad.args[0])
        folded += 1
    return folded


def zeros_around(node: Node) -> list[tuple[int, int]] | str:
    """Zeros that are put before and behind the image of the convolution `node`, outermost dimension first.

    Or why the convolution cannot put them there itself.
    """
    pad = node.args[0]
    if not isinstance(pad, Node) or pad.target is not aten.constant_pad_nd.default:
        return "it does not pad"
    value = tensor_of(pad)
    numbers: Any = list(pad.args[1])  # type: ignore[arg-type]
    fill = pad.args[2] if len(pad.args) > 2 else pad.kwargs.get("value", 0)
    if node.args[TRANSPOSED]:
        return "what reads it is a transposed convolution"
    if isinstance(fill, Node) or fill != 0:
        return "it does not pad with zeros"
    if value is None or not all(isinstance(n, int) and n >= 0 for n in numbers):
        return "it takes elements away, or its sizes are dynamic"
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    dims = value.dim() - 2
    if any(pair != (0, 0) for pair in pairs[dims:]):
        return "it pads channels or batches"
    pairs += [(0, 0)] * (dims - len(pairs))
    return pairs[dims - 1 :: -1]
