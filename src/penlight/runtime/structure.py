"""Containers of inputs and outputs: the program's pytree, read without torch.

A program keeps the container structure that the model was exported with as JSON,
`[1, {"type", "context", "children_spec"}]`; a node without a type is a leaf. The
structure of inputs is that of `(args, kwargs)`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from penlight.errors import InvalidInput, InvalidProgram

_SEQUENCES = {"builtins.list": list, "builtins.tuple": tuple, "torch.Size": tuple}
_MAPPINGS = {"builtins.dict", "collections.OrderedDict", "collections.defaultdict"}


class Record(dict[str, Any]):
    """A container of a type that this process does not know: its fields, as keys and attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Structure:
    """One node of the tree."""

    __slots__ = ("children", "context", "keys", "kind", "leaf_count", "type_name")

    def __init__(self, type_name: str | None, context: Any, children: list[Structure]) -> None:
        self.type_name = type_name
        self.context = context
        self.children = children
        self.leaf_count: int = sum(child.leaf_count for child in children) if type_name else 1
        self.kind, self.keys = _classify(type_name, context, len(children))

    @property
    def is_flat(self) -> bool:
        """A sequence of leaves and nothing else."""
        return self.kind == "sequence" and all(child.kind == "leaf" for child in self.children)

    def flatten(self, value: Any, path: str, leaves: list[Any]) -> None:
        """Append the leaves of `value`, which must have this structure; `path` names it in errors."""
        if self.kind == "leaf":
            leaves.append(value)
            return
        items, places = self._items(value, path), self._places(path)
        for child, item, place in zip(self.children, items, places, strict=True):
            child.flatten(item, place, leaves)

    def unflatten(self, leaves: Iterator[Any]) -> Any:
        """Build the containers around `leaves`, taken in order."""
        if self.kind == "leaf":
            return next(leaves)
        items = [child.unflatten(leaves) for child in self.children]
        if self.kind == "sequence":
            return _SEQUENCES.get(self.type_name or "", tuple)(items)
        if self.kind == "deque":
            return collections.deque(items, maxlen=self.context)
        if self.kind == "namedtuple":
            made = _find_named_tuple(self.context, len(items))
            return made(*items) if made else tuple(items)
        if self.kind == "mapping":
            pairs = dict(zip(self.keys, items, strict=True))
            return collections.OrderedDict(pairs) if self.type_name == "collections.OrderedDict" else pairs
        node = _registered(self.type_name)
        if node is not None:
            return node.unflatten_fn(items, _context_of(node, self.context))
        made = _find_type(self.type_name)
        if not self.keys:
            return tuple(items)
        fields = dict(zip(self.keys, items, strict=True))
        for name in _none_fields(self.context):
            fields[name] = None
        return made(**fields) if made else Record(fields)

    def paths(self, path: str = "") -> list[str]:
        """A name for each leaf."""
        if self.kind == "leaf":
            return [path]
        places = zip(self.children, self._places(path), strict=True)
        return [name for child, place in places for name in child.paths(place)]

    def _places(self, path: str) -> list[str]:
        if self.kind == "fields" and self.keys:
            return [f"{path}.{key}" for key in self.keys]
        keys = self.keys if self.kind == "mapping" else range(len(self.children))
        return [f"{path}[{key!r}]" for key in keys]

    def _items(self, value: Any, path: str) -> list[Any]:
        if self.kind == "mapping":
            if not isinstance(value, collections.abc.Mapping):
                raise _mismatch(path, f"a dict with the keys {self.keys}", value)
            if set(value) != set(self.keys):
                missing = [key for key in self.keys if key not in value]
                extra = [key for key in value if key not in self.keys]
                got = "; ".join(
                    f"{word} {', '.join(map(repr, keys))}"
                    for word, keys in (("missing", missing), ("not expected", extra))
                    if keys
                )
                raise InvalidInput(f"{path} has other keys than the program was made with", got=got)
            return [value[key] for key in self.keys]
        node = _registered(self.type_name) if self.kind == "fields" else None
        if node is not None and type(value) is node.type:
            items = list(node.flatten_fn(value)[0])
            if len(items) != len(self.children):
                expected = f"a {self.type_name} of {len(self.children)}"
                raise InvalidInput(f"{path} should be {expected}", got=f"one of {len(items)}")
            return items
        if self.kind == "fields" and self.keys:
            if isinstance(value, collections.abc.Mapping) and all(key in value for key in self.keys):
                return [value[key] for key in self.keys]
            if all(hasattr(value, str(key)) for key in self.keys):
                return [getattr(value, str(key)) for key in self.keys]
            raise _mismatch(path, f"a {self.type_name} with {', '.join(map(str, self.keys))}", value)
        accepted = (list, tuple, collections.deque)
        if not isinstance(value, accepted) or len(value) != len(self.children):
            word = (self.type_name or "sequence").rsplit(".", 1)[-1]
            raise _mismatch(path, f"a {word} of {len(self.children)}", value)
        return list(value)


def _classify(type_name: str | None, context: Any, count: int) -> tuple[str, list[Any]]:
    """What kind of container a node is, and the keys of its children."""
    if type_name is None:
        return "leaf", []
    if type_name in _SEQUENCES:
        return "sequence", []
    if type_name in _MAPPINGS:
        keys = context.get("dict_context") if isinstance(context, dict) else context
        if not isinstance(keys, list) or len(keys) != count:
            raise InvalidProgram(f"the container structure has a {type_name} of {count} without as many keys")
        keys = [tuple(key) if isinstance(key, list) else key for key in keys]
        hash(tuple(keys))  # a damaged file may have others: TypeError
        return "mapping", keys
    if type_name == "collections.deque":
        collections.deque(maxlen=context)  # likewise
        return "deque", []
    if type_name == "collections.namedtuple":
        return "namedtuple", []
    # A registered class: dataclasses keep [names, names that are None], others often their keys.
    names = context[0] if _is_of_dataclass(context) else context
    known = isinstance(names, list) and len(names) == count and all(isinstance(name, str) for name in names)
    return "fields", names if known else []


def _is_of_dataclass(context: Any) -> bool:
    """Is it a list of names, and one of those that are None?"""
    return (
        isinstance(context, list)
        and len(context) == 2
        and all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in context)
    )


def _none_fields(context: Any) -> list[str]:
    return context[1] if _is_of_dataclass(context) else []


def _registered(name: Any) -> Any:
    """How torch takes apart and builds a class of that name, if this process has torch and it knows one."""
    pytree = sys.modules.get("torch.utils._pytree")
    kind = getattr(pytree, "SERIALIZED_TYPE_TO_PYTHON_TYPE", {}).get(name)
    return getattr(pytree, "SUPPORTED_NODES", {}).get(kind)


def _context_of(node: Any, context: Any) -> Any:
    known = getattr(sys.modules["torch.utils._pytree"], "SUPPORTED_SERIALIZED_TYPES", {}).get(node.type)
    loads = getattr(known, "from_dumpable_context", None)
    return loads(context) if loads is not None else context


def _find_type(name: Any) -> Callable[..., Any] | None:
    """The class of a serialized name, where this process has it; nothing is imported."""
    if not isinstance(name, str):
        return None
    pytree = sys.modules.get("torch.utils._pytree")
    registered = getattr(pytree, "SERIALIZED_TYPE_TO_PYTHON_TYPE", {}).get(name)
    if registered is not None:
        return registered  # type: ignore[no-any-return]
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:split]))
        for part in parts[split:]:
            found = getattr(found, part, None)
        if isinstance(found, type) and _holds_values(found):
            return found
    return None


def _holds_values(kind: type) -> bool:
    """Is it a class made to be a container? A file must not call whatever else a process has."""
    if dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return True
    return kind in getattr(sys.modules.get("torch.utils._pytree"), "SUPPORTED_NODES", {})


def _find_named_tuple(context: Any, count: int) -> Callable[..., Any] | None:
    """The class where this process has it, else one with the same fields."""
    known = context if isinstance(context, dict) else {"name": context}
    name, fields = known.get("name"), known.get("fields")
    found = _find_type(name)
    if found is not None and found in getattr(sys.modules.get("torch.return_types"), "all_return_types", ()):
        whole = getattr(found, "n_fields", None) == count
        return (lambda *items: found(items)) if whole else None
    own = getattr(found, "_fields", None)
    if own is not None and len(own) == count and fields in (None, list(own)):
        return found
    if not isinstance(fields, list) or len(fields) != count:
        return None
    try:
        return _made_up(str(name).rpartition(".")[2], tuple(fields))
    except (TypeError, ValueError):  # no names that a class can have
        return None


@functools.lru_cache
def _made_up(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    return collections.namedtuple(name, fields)


def _mismatch(path: str, expected: str, value: Any) -> InvalidInput:
    got = type(value).__name__
    if isinstance(value, (list, tuple, dict)):
        got += f" of {len(value)}"
    return InvalidInput(f"{path} should be {expected}", got=got)


def parse(text: str | bytes | None, where: str | None = None) -> Structure | None:
    """Read a structure; None when the program has none. `where` is the program, for errors."""
    if not text:
        return None
    import json

    try:
        _, root = json.loads(text if isinstance(text, str) else text.decode())
        return _build(root, json.loads)
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        what = "the container structure of inputs or outputs cannot be read"
        got = text if isinstance(text, str) else text.decode(errors="replace")
        raise InvalidProgram(what, where=where, got=got[:120]) from error


def parse_arguments(text: str | bytes | None, where: str | None = None) -> Structure | None:
    """Read the structure of `(args, kwargs)`; None when the program has none of that form."""
    structure = parse(text, where)
    if structure is None or len(structure.children) != 2:
        return None
    positional, named = structure.children
    if "leaf" in (positional.kind, named.kind):
        return None
    whole = len(named.keys) == len(named.children) and all(isinstance(key, str) for key in named.keys)
    return structure if whole else None


def _build(node: dict[str, Any], loads: Callable[[str], Any]) -> Structure:
    context = node["context"]
    if isinstance(context, str):
        with contextlib.suppress(ValueError):  # a plain name, as a namedtuple has
            context = loads(context)
    return Structure(node["type"], context, [_build(child, loads) for child in node["children_spec"]])
