"""The program's pytree is read without torch, and agrees with torch's own."""

from __future__ import annotations

import collections
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import penlight
from penlight.errors import InvalidInput, InvalidProgram
from penlight.flatten.structure import structure_json
from penlight.runtime.structure import Record, parse, parse_arguments


@dataclass
class Pair:
    left: Any
    right: Any


Point = collections.namedtuple("Point", "x y")
torch.export.register_dataclass(Pair, serialized_type_name="tests.Pair")
pytree._register_namedtuple(Point, serialized_type_name="tests.Point")

TREES = [
    1,
    (1, 2),
    [1, {"a": 2, 3: (4, [])}],
    collections.OrderedDict(b=1, a=2),
    collections.defaultdict(list, a=1),
    collections.deque([1, 2], maxlen=4),
    Point(1, [2]),
    Pair(1, {"deep": Pair(2, 3)}),
    torch.Size([1, 2]),
    ((1, None), {"mask": None, "deep": {"k": 5}}),
    (),
    {},
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_round_trip(tree: Any) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    structure = parse(pytree.treespec_dumps(spec))
    assert structure is not None
    assert structure.leaf_count == len(leaves)
    found: list[Any] = []
    structure.flatten(tree, "x", found)
    assert found == leaves
    back = structure.unflatten(iter(leaves))
    assert back == tree
    # Types that only torch needs become plain ones.
    plain = {collections.defaultdict: dict, torch.Size: tuple}
    assert type(back) is plain.get(type(tree), type(tree))
    assert len(structure.paths("x")) == len(leaves)


def test_a_class_that_is_not_there_becomes_a_record() -> None:
    text = (
        '[1, {"type": "nowhere.Result", "context": "[[\\"logits\\"], [\\"loss\\"]]", "children_spec": '
        '[{"type": null, "context": null, "children_spec": []}]}]'
    )
    structure = parse(text)
    assert structure is not None
    got = structure.unflatten(iter([7]))
    assert isinstance(got, Record)
    assert got.logits == got["logits"] == 7
    assert got.loss is None


Size = collections.namedtuple("Size", "wide high")


def test_named_tuples_that_nobody_registered() -> None:
    tree = (Size(1, [2]), {"a": Size(3, 4)})
    leaves, spec = pytree.tree_flatten(tree)
    text = structure_json(spec)
    structure = parse(text)
    assert structure is not None
    back = structure.unflatten(iter(leaves))
    assert back == tree and type(back[0]) is Size and type(back[1]["a"]) is Size
    # Where the class is not there, one with the same fields takes its place.
    elsewhere = parse(text.replace(f"{__name__}.Size", "nowhere.Size"))
    assert elsewhere is not None
    other = elsewhere.unflatten(iter(leaves))[0]
    assert type(other) is not Size and (other.wide, other.high) == (1, [2])
    for damaged in ('\\"high\\"', '\\"class\\"'), ('[\\"wide\\", \\"high\\"]', '[\\"wide\\"]'):
        changed = parse(text.replace("Size", "Other").replace(*damaged))
        assert changed is not None
        assert type(changed.unflatten(iter(leaves))[0]) is tuple


class _Results(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.max(x, 1), {"range": torch.aminmax(x)}, torch.linalg.slogdet(x)


def test_results_with_names(tmp_path: Path) -> None:
    x = torch.randn(3, 3)
    path = penlight.compile(_Results(), (x,)).save(tmp_path / "results.pte")
    largest, more, determinant = penlight.load(path)(x)
    want = _Results()(x)
    assert type(largest) is torch.return_types.max and type(more["range"]) is torch.return_types.aminmax
    assert torch.equal(largest.values, want[0].values) and torch.equal(largest.indices, want[0].indices)
    torch.testing.assert_close(determinant.logabsdet, want[2].logabsdet)
    program = f"""
import numpy, penlight, sys
largest, more, determinant = penlight.load({str(path)!r})(numpy.array({x.tolist()}, numpy.float32))
assert "torch" not in sys.modules
assert largest._fields == ("values", "indices") and (largest.values == largest[0]).all()
assert more["range"].max == {more["range"].max.item()!r} and determinant.sign in (-1, 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["subprocess.Popen", "os.popen", "pathlib.Path"])
def test_a_file_calls_no_other_class(kind: str) -> None:
    """It could name a class of this process and its arguments."""
    import subprocess  # noqa: F401

    leaf = '{"type": null, "context": null, "children_spec": []}'
    for node in (
        f'{{"type": "{kind}", "context": "[[\\"args\\"], []]", "children_spec": [{leaf}]}}',
        f'{{"type": "collections.namedtuple", "context": "\\"{kind}\\"", "children_spec": [{leaf}]}}',
    ):
        structure = parse(f"[1, {node}]")
        assert structure is not None
        assert structure.unflatten(iter(["true"])) in ({"args": "true"}, ("true",))


_LEAF = '{"type": null, "context": null, "children_spec": []}'


@pytest.mark.parametrize(
    "text",
    [
        "[", "[1]", "[1, 2]", '[1, {"type": "builtins.dict"}]', "[1, " * 500, b"[1, \xff]",
        f'[1, {{"type": "builtins.dict", "context": "[{{}}]", "children_spec": [{_LEAF}]}}]',
        f'[1, {{"type": "collections.deque", "context": "[3]", "children_spec": [{_LEAF}]}}]',
    ],
)  # fmt: skip
def test_damaged_text(text: str | bytes) -> None:
    with pytest.raises(InvalidProgram, match="container structure"):
        parse(text)


@pytest.mark.parametrize(("args", "kwargs"), [("null", "null"), ("tuple", "null"), ("null", "dict")])
def test_arguments_that_are_no_containers(args: str, kwargs: str) -> None:
    """Of a damaged file: a single tensor where positional or named ones should be."""
    made = {
        "null": _LEAF,
        "tuple": '{"type": "builtins.tuple", "context": "null", "children_spec": []}',
        "dict": '{"type": "builtins.dict", "context": "[]", "children_spec": []}',
    }
    both = f"{made[args]}, {made[kwargs]}"
    text = f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{both}]}}]'
    assert parse_arguments(text) is None
    assert parse_arguments(text.replace(_LEAF, made["tuple"], 1).replace(_LEAF, made["dict"])) is not None


class Cache:
    """As caches of language models are registered: names of lists, and of what they hold nothing."""

    def __init__(self, keys: list[Any], values: list[Any]) -> None:
        self.keys, self.values, self.dtype = keys, values, keys[0].dtype


def test_a_registered_class_is_taken_apart_and_built_by_torch() -> None:
    def flatten(cache: Cache) -> tuple[list[Any], Any]:
        return [cache.keys, cache.values], [["keys", "values"], [None] * len(cache.keys)]

    def unflatten(parts: Any, context: Any) -> Cache:
        assert context == [["keys", "values"], [None, None]]
        return Cache(*parts)

    def with_keys(cache: Cache) -> tuple[list[Any], Any]:
        parts, context = flatten(cache)
        return [(pytree.MappingKey(key), part) for key, part in zip(context[0], parts, strict=True)], context

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
            return x + cache.values[1], Cache([x, x * 2], [x * 3, x * 4])

    pytree.register_pytree_node(
        Cache, flatten, unflatten, serialized_type_name="test_structure.Cache", flatten_with_keys_fn=with_keys
    )
    x, given = torch.rand(2, 3), Cache([torch.rand(2, 3)] * 2, [torch.rand(2, 3), torch.rand(2, 3)])
    program = penlight.load(penlight.compile(Model(), (x, given)).to_bytes())
    got, cache = program(x, given)
    assert torch.equal(got, x + given.values[1]) and type(cache) is Cache
    assert all(torch.equal(made, x * n) for n, made in enumerate(cache.keys + cache.values, 1))
    with pytest.raises(InvalidInput, match="should be a list of 2"):
        program(x, Cache(given.keys, given.values[:1]))
