"""The tensors a pass may read and add: weights, buffers and lifted constants.

Passes over a method's main graph get this beside the graph. A constant is a
placeholder whose spec names a tensor of the program; a pass that computes a new
one adds it here, and those left without users are dropped by the runner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node

from penlight.ir.edge import EdgeMethod, EdgeProgram, InputKind, InputSpec
from penlight.ir.tensors import Derived, Tensors


def read_otherwise(program: EdgeProgram, reads: Callable[[Node, Node], bool]) -> set[str]:
    """Names of constants that some method reads otherwise than `reads`, of a reader and it, says."""
    return {
        str(spec.target)
        for method in program.methods.values()
        for spec, node in method.placeholders()
        if spec.kind is InputKind.CONSTANT and not all(reads(user, node) for user in node.users)
    }


class Constants:
    """Tensors by node, for one graph; without a method (the body of a loop) there are none."""

    def __init__(
        self,
        graph: Graph,
        method: EdgeMethod | None,
        tensors: Tensors,
        mode: FakeTensorMode | None,
        readers: Mapping[str, int] | None = None,
    ) -> None:
        self.graph, self.method, self.tensors, self.mode = graph, method, tensors, mode
        self.readers = readers or {}
        self.names: dict[Node, str] = {}
        if method is not None:
            for spec, node in method.placeholders():
                if spec.kind is InputKind.CONSTANT and spec.target is not None:
                    self.names[node] = spec.target

    def get(self, node: object) -> torch.Tensor | None:
        """The tensor that `node` stands for, or None. A derived one is computed: for a look, see `like`."""
        return self.tensors[self.names[node]] if isinstance(node, Node) and node in self.names else None

    def like(self, node: object) -> torch.Tensor | None:
        """Its dtype, shape and strides; maybe without bytes."""
        return self.tensors.like(self.names[node]) if isinstance(node, Node) and node in self.names else None

    def kept(self, node: Node) -> torch.Tensor | Derived:
        """As it is kept, computed or not."""
        return self.tensors.kept(self.names[node])

    def derived(self, node: Node) -> Derived:
        """Its bytes in pieces."""
        return self.tensors.derived(self.names[node])

    def is_read_once(self, node: Node) -> bool:
        """Does one operator of one method read it? Replacing it makes no second copy then."""
        return len(node.users) == 1 and self.readers.get(self.names[node], 1) == 1

    def can_add(self) -> bool:
        return self.method is not None and self.mode is not None

    def add(self, name: str, tensor: torch.Tensor | Derived) -> Node:
        """A new constant of the method, with a name of its own derived from `name`.

        One as large as the weights it is made from should be Derived.
        """
        assert self.method is not None and self.mode is not None
        target, number = name, 0
        while target in self.tensors:
            number += 1
            target = f"{name}.{number}"
        self.tensors[target] = tensor if isinstance(tensor, Derived) else tensor.contiguous()
        first = next(iter(self.graph.nodes))
        with self.graph.inserting_before(first):
            node = self.graph.placeholder("c_" + re.sub(r"\W", "_", target))
        like = self.tensors.like(target)
        with self.mode:
            node.meta["val"] = torch.empty(like.shape, dtype=like.dtype, device="cpu")
        self.method.inputs.insert(0, InputSpec(InputKind.CONSTANT, node.name, target))
        self.names[node] = target
        return node
