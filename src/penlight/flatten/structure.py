"""Container structure of inputs and outputs, as torch's pytree JSON.

torch writes the containers it knows. A dataclass or other class that was
registered without a name for files is written by its Python name, with the names
of its fields, and so is a named tuple; torch's results with names (of topk, max)
are written as named tuples.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec


def structure_json(spec: TreeSpec) -> str:
    return json.dumps([1, _node(spec)])


def _node(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    node = _alone(spec)
    node["children_spec"] = [_node(child) for child in spec.children()]
    return node


def _alone(spec: TreeSpec) -> dict[str, Any]:
    """The entry of one node without its children."""
    try:
        childless = pytree.TreeSpec(spec.type, spec.context, [])
        node: dict[str, Any] = json.loads(pytree.treespec_dumps(childless))[1]
        return node
    except (NotImplementedError, TypeError, ValueError):
        if isinstance(spec.context, type) and hasattr(spec.context, "_fields"):
            return _named_tuple(spec.context, list(spec.context._fields))
        if spec.type in torch.return_types.all_return_types:
            return _named_tuple(spec.type, list(spec.type.__match_args__))
        return {"type": _name(spec.type), "context": _context(spec.context)}


def _named_tuple(kind: Any, fields: list[str]) -> dict[str, Any]:
    context = {"name": _name(kind), "fields": fields}
    return {"type": "collections.namedtuple", "context": json.dumps(context)}


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _context(context: Any) -> str | None:
    try:
        return json.dumps(context)
    except TypeError:
        return None
