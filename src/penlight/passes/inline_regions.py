"""Inline the regions that torch.export makes of `with torch.no_grad()` and the like.

Gradients do not matter to a program, so the body of such a region takes the
place of the call. A region of autocast that is switched on casts inside every
operator, and one of torch.vmap makes every operator in it one over batches; torch
has to trace those again, which `needs_retrace` finds.

Needs:  ATen dialect as exported, before mutation is removed (a body may write to what it is given).
Keeps:  every output.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

# Name of the operator -> the position of its body; the body's arguments follow.
_BODY = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}


def needs_retrace(module: GraphModule) -> Node | None:
    """A node that only torch can take away, if there is one: autocast, torch.func, flex_attention."""
    node: Node
    for node in module.graph.nodes:
        if _name(node) == "wrap_with_autocast" and node.args[2] is not False:
            return node
        if _name(node) == "flex_attention":
            return node
        if getattr(node.target, "__module__", None) == "torch._functorch.predispatch":
            return node
    found = (needs_retrace(child) for child in module.children() if isinstance(child, GraphModule))
    return next((node for node in found if node is not None), None)


def inline_regions(module: GraphModule) -> int:
    """Inline in `module` and in the bodies inside it; return how many regions there were."""
    count = 0
    for node in list(module.graph.nodes):
        position = _BODY.get(_name(node))
        if position is not None:
            _inline(module, node, position)
            count += 1
        elif node.target is torch._C._set_grad_enabled:
            module.graph.erase_node(node)
            count += 1
    for child in module.children():
        if isinstance(child, GraphModule):
            count += inline_regions(child)
    return count


def _inline(module: GraphModule, node: Node, position: int) -> None:
    attribute: Any = node.args[position]
    body = getattr(module, str(attribute.target))
    inline_regions(body)
    values: dict[Node, Any] = {}
    operands = iter(node.args[position + 1 :])
    result: Any = None
    with module.graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op == "placeholder":
                values[inner] = next(operands)
            elif inner.op == "output":
                result = torch.fx.map_arg(inner.args[0], lambda n: values[n])
            elif inner.op == "get_attr":
                name = _adopt(module, body, str(inner.target), str(attribute.target))
                values[inner] = module.graph.get_attr(name)
                values[inner].meta = dict(inner.meta)
            else:
                copied = module.graph.node_copy(inner, lambda n: values[n])
                copied.meta = dict(inner.meta)
                values[inner] = copied
    if isinstance(result, Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            assert user.target is operator.getitem, user
            user.replace_all_uses_with(result[user.args[1]])
            module.graph.erase_node(user)
    module.graph.erase_node(node)
    if not attribute.users:
        module.graph.erase_node(attribute)


def _adopt(module: GraphModule, body: GraphModule, name: str, prefix: str) -> str:
    own = f"{prefix}_{name}"
    setattr(module, own, getattr(body, name))
    return own


def _name(node: Node) -> str:
    return str(node.target.name()) if isinstance(node.target, HigherOrderOperator) else ""
