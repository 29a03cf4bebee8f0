"""The program's pytree is read without torch, and agrees with torch's own."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from penlight.errors import InvalidProgram
from penlight.runtime.structure import Record, parse


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


@pytest.mark.parametrize("text", ["[", "[1]", "[1, 2]", '[1, {"type": "builtins.dict"}]', "[1, " * 500])
def test_damaged_text(text: str) -> None:
    with pytest.raises(InvalidProgram, match="container structure"):
        parse(text)
