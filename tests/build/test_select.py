"""What programs, lists and YAML files say that a binary needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penlight.build.image import read_symbols
from penlight.build.select import (
    ALL_DTYPES,
    promote,
    select_from_contents,
    select_from_list,
    select_from_models,
    select_from_yaml,
)
from penlight.build.sources import ALL_MASK, SourceTree, mask_of, needed_files
from penlight.build.toolchain import source_root
from penlight.errors import InvalidInput, InvalidProgram, InvalidTable
from penlight.ir.dtypes import DType
from penlight.program import Contents
from penlight.program.structs import (
    EMPTY,
    Delegate,
    DelegateCall,
    Double,
    KernelCall,
    Method,
    Operator,
    OptionalTensorList,
    Tensor,
)

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = ROOT / "build" / "native" / "CMakeFiles"


def test_dtypes_of_each_operator(programs: Callable[[str], Path]) -> None:
    selection = select_from_models([programs("integers")])
    rows = {row["op"]: row["dtypes"] for row in selection.to_rows()}
    assert rows["aten::add.out"] == "int64"
    assert rows["aten::gt.Tensor_out"] == "int64+bool"
    assert rows["aten::_to_copy.out"] == "int32+int64+float32"
    assert selection.operators["aten::add.out"].needed_by == ["integers.pte, method forward"]


def test_both_branches_count(programs: Callable[[str], Path]) -> None:
    selection = select_from_models([programs("choice")])
    assert DType.float64 in selection.operators["aten::mul.Scalar_out"].dtypes


def test_models_are_joined(programs: Callable[[str], Path]) -> None:
    selection = select_from_models([programs("add"), programs("add_double")])
    use = selection.operators["aten::add.out"]
    assert use.dtypes == {DType.float32, DType.float64}
    assert use.keys == {"v1/6;0|6;0|6;0|6;0", "v1/7;0|7;0|7;0|7;0"}
    assert use.needed_by == ["add.pte, method forward", "add_double.pte, method forward"]


def _contents(*values: object, args: tuple[int, ...], delegates: tuple[Delegate, ...] = ()) -> Contents:
    call = DelegateCall(0, args) if delegates else KernelCall(0, args)
    operators = [Operator("aten::made_up", "out")]
    return Contents([Method("forward", list(values), [], [], [call], operators, list(delegates))])  # type: ignore[arg-type]


def test_types_that_a_kernel_comes_to_compute_in() -> None:
    def tensor(dtype: DType) -> Tensor:
        return Tensor(dtype, (2,), (0,))

    def dtypes(*values: object, args: tuple[int, ...]) -> set[DType]:
        selection = select_from_contents(_contents(*values, args=args), "model.pte")
        return selection.operators["aten::made_up.out"].dtypes

    both = dtypes(tensor(DType.uint8), tensor(DType.int8), tensor(DType.bool), args=(0, 1, 2))
    assert both == {DType.uint8, DType.int8, DType.bool, DType.int16}
    assert dtypes(tensor(DType.int32), Double(0.5), args=(0, 1)) == {DType.int32, DType.float32}
    assert dtypes(tensor(DType.float16), Double(0.5), args=(0, 1)) == {DType.float16}
    listed = dtypes(tensor(DType.int64), OptionalTensorList((0, -1)), args=(1,))
    assert listed == {DType.int64}


def test_delegates_name_their_backend() -> None:
    contents = _contents(Tensor(DType.float32, (2,), (0,)), args=(0,), delegates=(Delegate("Npu", EMPTY),))
    assert select_from_contents(contents, "model.pte").backends == {"Npu": ["model.pte, method forward"]}


NUMBERS = sorted(ALL_DTYPES | {DType.complex64, DType.complex128})


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
def test_promotion_is_torchs(a: DType, b: DType) -> None:
    import torch

    want = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
    assert promote(a, b).name == str(want).removeprefix("torch.")


def test_lists_of_operators() -> None:
    selection = select_from_list(["aten::add.out", " aten::mul.out=float32+int64"])
    assert selection.operators["aten::add.out"].dtypes == ALL_DTYPES
    assert selection.operators["aten::mul.out"].dtypes == {DType.float32, DType.int64}
    with pytest.raises(InvalidInput, match="unknown dtype or set of dtypes 'float31'"):
        select_from_list(["aten::mul.out=float31"])


def test_yaml_is_read_back(tmp_path: Path, programs: Callable[[str], Path]) -> None:
    selection = select_from_models([programs("integers")])
    path = tmp_path / "ops.yaml"
    path.write_text("".join(f"- {{op: '{r['op']}', dtypes: {r['dtypes']}}}\n" for r in selection.to_rows()))
    assert select_from_yaml(path).to_rows() == selection.to_rows()


def test_yaml_of_executorch(tmp_path: Path) -> None:
    path = tmp_path / "selected_operators.yaml"
    path.write_text(
        """
operators:
  aten::add.out: {is_root_operator: true}
  aten::mul.out: {is_root_operator: true}
et_kernel_metadata:
  aten::add.out: ["v1/6;0,1|6;0,1|6;0,1|6;0,1", "v1/3;0|6;0|6;0|6;0"]
  aten::relu.out: [default]
"""
    )
    operators = select_from_yaml(path).operators
    assert operators["aten::add.out"].dtypes == {DType.float32, DType.int32}
    assert operators["aten::mul.out"].dtypes == operators["aten::relu.out"].dtypes == ALL_DTYPES


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("", "names no operators", ":1"),
        ("- aten::add.out\n- {dtypes: float32}", "a row of selected operators is a name", ":2:3"),
        ("operators: [", "is not YAML", ":2:1"),
        ("- {op: 'aten::add.out',\n   dtypes: nope}", "unknown dtype or set of dtypes 'nope'", ":2:12"),
        ("- {op: 'aten::add.out', dtype: float32}", "unknown key 'dtype'; did you mean 'dtypes'", ":1:25"),
        (
            "et_kernel_metadata:\n  aten::add.out: [what]",
            "aten::add.out has a key that cannot be read",
            ":2:19",
        ),
    ],
)
def test_yaml_that_cannot_be_used(tmp_path: Path, text: str, message: str, place: str) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(text)
    with pytest.raises(InvalidTable, match=message) as caught:
        select_from_yaml(path)
    assert caught.value.where == f"{path}{place}"


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    path = tmp_path / "broken.pte"
    path.write_bytes(b"not a program at all, but long enough to look at")
    with pytest.raises(InvalidProgram):
        select_from_models([path])


def test_masks() -> None:
    assert mask_of([DType.float32, DType.bool]) == 1 << 6 | 1 << 11
    assert mask_of(ALL_DTYPES) == ALL_MASK


def test_shared_code_has_the_types_that_are_computed_in() -> None:
    tree = SourceTree(source_root().resolve())
    path = (tree.root / "kernels" / "portable" / "arithmetic.cpp").resolve()
    masks = needed_files(tree, {path: {DType.float16, DType.int8}})
    assert masks[path] == {DType.float16, DType.int8}
    shared = masks[(tree.root / "kernels" / "common" / "elementwise.cpp").resolve()]
    assert shared == {DType.float16, DType.float32, DType.int8, DType.int64}


@pytest.mark.skipif(not OBJECTS.exists(), reason="needs the objects of `make native`")
def test_no_file_calls_into_one_that_is_left_out() -> None:
    """What needed_files() reads from headers is what the objects of a full build need."""
    tree = SourceTree(source_root().resolve())
    kernels = tree.root / "kernels"
    defines: dict[str, set[Path]] = {}
    needs: dict[Path, set[str]] = {}
    for source in (*kernels.glob("portable/*.cpp"), *kernels.glob("common/*.cpp")):
        found = [p for p in OBJECTS.glob(f"*/kernels/{source.parent.name}/{source.name}.o") if p.is_file()]
        if not found:
            continue
        for symbol in read_symbols(found[0]):
            if symbol.defined:
                defines.setdefault(symbol.name, set()).add(source.resolve())
            elif symbol.name.startswith("_ZN8penlight"):
                needs.setdefault(source.resolve(), set()).add(symbol.name)
    assert len(needs) > 40
    missing = []
    for source in needs:
        files = needed_files(tree, {source: {DType.float32}})
        symbols = set().union(*(needs.get(file, set()) for file in files))
        missing += [
            f"{source.name} needs {symbol}"
            for symbol in symbols
            if symbol in defines and not defines[symbol].intersection(files)
        ]
    assert missing == []


def test_every_header_that_depends_on_dtypes_says_so() -> None:
    """Two files of one binary may be compiled for different dtypes: what headers make of that must differ."""
    uses = re.compile(r"\bdispatch(_compute)?<|\bdtype_selected\(|\bk(Double|Float|Integer)Selected\b")
    for header in (ROOT / "kernels").rglob("*.h"):
        inside = False
        for number, line in enumerate(header.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if code.startswith("PENLIGHT_BY_DTYPES_BEGIN"):
                inside = True
            elif code.startswith("PENLIGHT_BY_DTYPES_END"):
                inside = False
            elif not inside and not code.startswith("#"):
                assert not uses.search(code), f"{header}:{number}: {line}"
