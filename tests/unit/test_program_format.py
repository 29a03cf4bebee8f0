"""The file format: what is written is read back, and damage is noticed."""

from __future__ import annotations

import os
import random
import re
import struct
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penlight.errors import FileMissing, InvalidInput, InvalidProgram, WriteFailed
from penlight.ir.dtypes import DType
from penlight.program import Program, from_bytes, read, structs
from penlight.program.schema import parse_schema, program_schema
from penlight.program.structs import Allocation, Blob, Contents, Method, StoredTensor, Tensor
from penlight.program.weights import read_weights, save_weights, weights_bytes, weights_from_bytes
from penlight.program.writer import plan_layout, to_bytes

ROOT = Path(__file__).resolve().parents[2]


def sample(constants: bool = True) -> Contents:
    """A program with every kind of value and instruction."""
    values: list[structs.Value] = [
        Tensor(DType.float32, (2, 3), (0, 1), allocation=Allocation(1, 0)),
        Tensor(DType.float32, (2, 3), (0, 1), data=1 if constants else 0),
        Tensor(DType.int64, (), (), data=2 if constants else 0),
        Tensor(DType.bfloat16, (1, 2, 2, 2), (0, 2, 3, 1), 1, allocation=Allocation(1, 32)),
        Tensor(DType.float32, (4,), (0,), data=int(constants), allocation=Allocation(2, 16), name="cache"),
        Tensor(DType.uint8, (3,), (0,), name="far", external=True),
        structs.Null(),
        structs.Int(-1),
        structs.Int(2**62),
        structs.Bool(True),
        structs.Bool(False),
        structs.Double(-0.0),
        structs.Double(0.0),
        structs.Double(float("inf")),
        structs.String("größe"),
        structs.IntList((7, 8)),
        structs.IntList(()),
        structs.DoubleList((0.5, -0.0)),
        structs.BoolList((True, False)),
        structs.TensorList((0, 1)),
        structs.OptionalTensorList((-1, 0)),
    ]
    instructions: list[structs.Instruction] = [
        structs.JumpFalse(9, 3),
        structs.KernelCall(0, (0, 1, 7, 0, 0)),
        structs.DelegateCall(0, (0, 3)),
        structs.Move(7, 8),
        structs.KernelCall(1, ()),
        structs.Free(0),
        structs.JumpFalse(10, 7),
    ]
    method = Method(
        name="forward",
        values=values,
        inputs=[0],
        outputs=[3, 7],
        instructions=instructions,
        operators=[structs.Operator("aten::add", "out"), structs.Operator("aten::copy_", "")],
        delegates=[
            structs.Delegate("some", Blob.of(b"\1\2\3"), (("key", b"\0\xff"),)),
            structs.Delegate("some", Blob.of(b""), ()),
            structs.Delegate("other", Blob.of(b"\1\2\3"), ()),
        ],
        arenas=[64, 32],
        in_structure='[1, {"type": null}]',
    )
    empty = Method("a_constant", [structs.Int(3)], [], [0], [], [])
    blobs = [structs.EMPTY]
    if constants:
        blobs += [Blob.of(bytes(range(24))), Blob.of(struct.pack("<q", -5))]
    initial = [structs.EMPTY, Blob.of(bytes(range(16)))] if constants else [structs.EMPTY]
    named = {"note": Blob.of(b"hello")} if constants else {}
    return Contents([empty, method], blobs, initial, named)


def bytes_of(blobs: list[Blob]) -> list[bytes]:
    return [bytes(blob.view()) for blob in blobs]


def plain(method: Method) -> dict[str, object]:
    """A method's fields, with delegate data as bytes."""
    fields = dict(vars(method))
    fields["delegates"] = [(d.backend, bytes(d.data.view()), d.compile_specs) for d in method.delegates]
    return fields


@pytest.mark.parametrize("constants", [True, False])
def test_round_trip(constants: bool) -> None:
    contents = sample(constants)
    again = from_bytes(to_bytes(contents))
    assert [plain(m) for m in again.methods] == [plain(m) for m in contents.methods]
    assert bytes_of(again.constants) == bytes_of(contents.constants)
    assert bytes_of(again.initial) == bytes_of(contents.initial)
    assert {k: bytes(v.view()) for k, v in again.named_data.items()} == {
        k: bytes(v.view()) for k, v in contents.named_data.items()
    }
    assert to_bytes(again) == to_bytes(contents)


def test_negative_zero_survives() -> None:
    values = from_bytes(to_bytes(sample())).method("forward").values
    doubles = [struct.pack("<d", v.value) for v in values if isinstance(v, structs.Double)]
    assert doubles[:2] == [struct.pack("<d", -0.0), struct.pack("<d", 0.0)]


def test_file_layout() -> None:
    data = to_bytes(sample())
    length, size, base, total = struct.unpack_from("<IQQQ", data, 12)
    assert data[4:12] == b"ET12eh00" and length == 32
    assert base % 128 == 0 and base >= size and base + total == len(data)
    assert struct.unpack_from("<I", data)[0] < size
    without = Contents([Method("m", [], [], [], [], [])])
    assert to_bytes(without)[8:12] != b"eh00"


def test_large_constants_begin_at_a_line_of_the_cache() -> None:
    """Whatever small ones lie before them; and no gap is left where none is needed."""
    sizes = [1, 1024, 7, 24, 4096, 1000, 1, 2048]
    values: list[structs.Value] = [
        Tensor(DType.uint8, (size,), (0,), data=1 + at) for at, size in enumerate(sizes)
    ]
    contents = Contents([Method("m", values, [], [], [], [])])
    contents.constants = [structs.EMPTY, *(Blob.of(bytes([at]) * size) for at, size in enumerate(sizes))]
    layout = plan_layout(contents)
    places = [offset for offset, _ in layout.blobs[-len(sizes) :]]
    assert [at for at, size in zip(places, sizes, strict=True) if at % 64 and size >= 1024] == []
    assert all(at % 16 == 0 for at in places)
    ends = [at + size for at, size in zip(places, sizes, strict=True)]
    small = [
        after - end for end, after, size in zip(ends, places[1:], sizes[1:], strict=False) if size < 1024
    ]
    assert max(small) < 16
    assert bytes_of(from_bytes(to_bytes(contents)).constants) == bytes_of(contents.constants)


def test_methods_are_sorted() -> None:
    contents = Contents([Method(name, [], [], [], [], []) for name in "bca"])
    assert [m.name for m in from_bytes(to_bytes(contents)).methods] == ["a", "b", "c"]


def test_equal_parts_are_written_once() -> None:
    values: list[structs.Value] = [Tensor(DType.float32, (i % 2 + 1, 7), (0, 1)) for i in range(100)]
    one = len(plan_layout(Contents([Method("m", values[:2], [], [], [], [])])).program)
    many = len(plan_layout(Contents([Method("m", values, [], [], [], [])])).program)
    assert many - one <= 98 * 4 + 8  # one offset each


# --- the schema ----------------------------------------------------------------------------------


def test_union_takes_two_numbers() -> None:
    schema = parse_schema("table A { x: int; } union U { A } table B { u: U; y: [long]; // z: int;\n }")
    assert [(f.name, f.number) for f in schema.tables["B"]] == [("u", 0), ("y", 2)]


def test_reader_in_cpp_has_the_same_numbers() -> None:
    """runtime/program/schema.h repeats field numbers; compare by the words they have in common."""
    text = (ROOT / "runtime/program/schema.h").read_text()
    tables = {
        "plan": (
            "ExecutionPlan",
            {"kContainer": "container_meta_type", "kArenaSizes": "non_const_buffer_sizes"},
        ),
        "tensor": (
            "Tensor",
            {
                "kDataIndex": "data_buffer_idx",
                "kAllocation": "allocation_info",
                "kDynamism": "shape_dynamism",
                "kExtra": "extra_tensor_info",
            },
        ),
        "chain": ("Chain", {}),
        "op": ("Operator", {}),
        "allocation": (
            "AllocationDetails",
            {"kOffsetLow": "memory_offset_low", "kOffsetHigh": "memory_offset_high"},
        ),
        "extra": ("ExtraTensorInfo", {"kName": "fully_qualified_name"}),
        "program": (
            "Program",
            {
                "kPlans": "execution_plan",
                "kDelegateData": "backend_delegate_data",
                "kMutableSegments": "mutable_data_segments",
            },
        ),
    }
    for space, (table, names) in tables.items():
        body = re.search(rf"namespace {space} {{(.*?)\n}}", text, re.S)
        assert body, space
        numbers = {field.name: field.number for field in program_schema().tables[table]}
        for constant, number in re.findall(r"(k\w+) = (\d+)", body[1]):
            name = names.get(constant) or re.sub(r"(?<!^)([A-Z])", r"_\1", constant[1:]).lower()
            assert numbers[name] == int(number), f"{space}::{constant}"
    for space, union in (("value", "KernelTypes"), ("instruction", "InstructionArguments")):
        body = re.search(rf"namespace {space} {{.*?enum Type[^{{]*{{(.*?)}}", text, re.S)
        assert body, space
        members = dict(re.findall(r"(\w+) = (\d+)", body[1]))
        for number, member in enumerate(program_schema().unions[union], start=1):
            short = member.removesuffix("Call")
            assert int(members[short]) == number, member


# --- damage --------------------------------------------------------------------------------------


def check_damaged(data: bytes) -> None:
    """Either it is read, with all that it refers to, or refused in one line."""
    try:
        contents = from_bytes(data)
        for method in contents.methods:
            for value in method.values:
                if isinstance(value, Tensor):
                    contents.bytes_of(value)
    except InvalidProgram as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "0 bytes"),
        (b"ET12", "4 bytes"),
        (b"\0\0\0\0ET13" + bytes(64), "ET13 is not supported"),
        (b"PK\3\4" + bytes(60), "not a program file"),
        (b"\xff\xff\xff\x7fET12" + bytes(64), "file damaged"),
    ],
)
def test_what_is_no_program(data: bytes, words: str) -> None:
    with pytest.raises(InvalidProgram, match=words):
        from_bytes(data)


def test_every_truncation_is_noticed() -> None:
    data = to_bytes(sample())
    for end in range(len(data)):
        with pytest.raises(InvalidProgram):
            from_bytes(data[:end])


def test_random_damage() -> None:
    data = to_bytes(sample())
    rng = random.Random(1)
    size = struct.unpack_from("<Q", data, 16)[0]
    for _ in range(3000):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(size)
            broken[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        check_damaged(bytes(broken))


@given(st.binary(max_size=400))
def test_any_bytes_behind_the_identifier(tail: bytes) -> None:
    check_damaged(b"\x08\0\0\0ET12" + tail)


# --- files ---------------------------------------------------------------------------------------


def test_save_and_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    Program(sample()).save(path)
    assert os.listdir(tmp_path) == ["model.pte"]
    assert bytes_of(read(path).constants) == bytes_of(sample().constants)
    assert Program.read(path).methods.keys() == {"a_constant", "forward"}


def test_save_in_large_and_small_parts(tmp_path: Path) -> None:
    # The second is looked up by the integers of the last, the others are read whole.
    generator = random.Random(0)
    sizes = [0, 5_000_000, 300_001, 16, 2 << 20]
    tensor = Tensor(DType.uint8, (4,), (0,))
    values: list[structs.Value] = [replace(tensor, sizes=(size,), data=at) for at, size in enumerate(sizes)]
    values[3] = Tensor(DType.int64, (2,), (0,), data=3)
    calls: list[structs.Instruction] = [
        structs.KernelCall(0, (4, 1)),
        structs.KernelCall(0, (2, 3)),
        structs.KernelCall(0, (4,)),
    ]
    method = Method("forward", values, [], [1], calls, [structs.Operator("aten::add", "out")])
    contents = Contents([method], [Blob.of(generator.randbytes(size)) for size in sizes])
    assert contents.read_whole() == {1, 4}
    path = tmp_path / "model.pte"
    Program(contents).save(path)
    assert path.read_bytes() == to_bytes(contents)


def test_weights_beside_are_read_whole() -> None:
    tensor = Tensor(DType.float32, (4,), (0,), external=True)
    values: list[structs.Value] = [replace(tensor, name="w"), replace(tensor, name="rows")]
    values.append(Tensor(DType.int32, (4,), (0,), allocation=Allocation(1, 0)))
    calls: list[structs.Instruction] = [structs.KernelCall(0, (0,)), structs.KernelCall(0, (1, 2))]
    method = Method("forward", values, [2], [0], calls, [structs.Operator("aten::add", "out")])
    assert Contents([method]).read_whole() == {"w"}


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(WriteFailed, match="cannot write"):
        Program(sample()).save(tmp_path / "missing" / "model.pte")


def test_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.pte").symlink_to(tmp_path / "model.pte")
    for _ in range(2):
        Program(sample()).save(tmp_path / "link.pte")
        assert (tmp_path / "link.pte").is_symlink()
        assert not (tmp_path / "model.pte").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link.pte", "model.pte"]


def test_to_a_pipe(tmp_path: Path) -> None:
    """As to any file that cannot be replaced, /dev/stdout and /dev/full among them."""
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    Program(sample()).save(tmp_path / "pipe")
    reader.join()
    assert received == [Program(sample()).to_bytes()]
    assert os.listdir(tmp_path) == ["pipe"]


def test_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(b"old")

    def full() -> memoryview:
        raise OSError(28, "No space left on device")

    contents = sample()
    contents.constants[1] = Blob(24, full)
    with pytest.raises(WriteFailed, match="No space left"):
        Program(contents).save(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["model.pte"]


@pytest.mark.parametrize("why", ["the program", "the weights", "the program's name", "the weights' name"])
def test_failure_leaves_both_old_files(tmp_path: Path, why: str) -> None:
    """A program and the weights beside it belong together: both are new, or neither."""
    names = {"the program": "model.pte", "the weights": "model.ptd"}
    reads = []

    def full() -> memoryview:
        reads.append(None)
        if why == "the weights" and len(reads) == 1:  # to tell equal ones
            return memoryview(bytes(16))
        raise OSError(28, "No space left on device")

    contents = sample()
    blob = Blob(16, full) if why == "the weights" else Blob.of(bytes(16))
    contents.external["w"] = StoredTensor(DType.float32, (4,), (0,), blob)
    if why == "the program":
        contents.constants[1] = Blob(24, full)
    for name in names.values():
        (tmp_path / name).write_bytes(b"old")
    if why.endswith("name"):
        taken = tmp_path / names[why.removesuffix("'s name").removesuffix("' name")]
        taken.unlink()
        taken.mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(WriteFailed, match="directory" if why.endswith("name") else "No space left"):
        Program(contents).save(tmp_path / "model.pte")
    assert sorted(os.listdir(tmp_path)) == before
    assert all(path.is_dir() or path.read_bytes() == b"old" for path in tmp_path.iterdir())


def test_program_named_like_its_weights(tmp_path: Path) -> None:
    contents = sample()
    contents.external["w"] = StoredTensor(DType.float32, (4,), (0,), Blob.of(bytes(16)))
    with pytest.raises(InvalidInput, match=r"would both be .*model\.ptd"):
        Program(contents).save(tmp_path / "model.ptd")
    assert os.listdir(tmp_path) == []


def test_read_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match=r"missing\.pte"):
        read(tmp_path / "missing.pte")
    (tmp_path / "empty.pte").touch()
    with pytest.raises(InvalidProgram, match=r"empty\.pte is empty"):
        read(tmp_path / "empty.pte")


# --- weights beside the program ------------------------------------------------------------------


def test_weights_round_trip(tmp_path: Path) -> None:
    tensors = {
        "a": StoredTensor(DType.float32, (2, 2), (0, 1), Blob.of(bytes(range(16)))),
        "b": StoredTensor(DType.uint8, (16,), (0,), Blob.of(bytes(range(16)))),
        "c": StoredTensor(DType.int64, (), (), Blob.of(b"12345678")),
    }
    save_weights(tensors, tmp_path / "w.ptd")
    again = read_weights(tmp_path / "w.ptd")
    assert {name: (t.dtype, t.sizes, t.dim_order, bytes(t.data.view())) for name, t in again.items()} == {
        name: (t.dtype, t.sizes, t.dim_order, bytes(t.data.view())) for name, t in tensors.items()
    }


def test_damaged_weights() -> None:
    data = weights_bytes({"a": StoredTensor(DType.float32, (2, 2), (0, 1), Blob.of(bytes(range(16))))})
    rng = random.Random(2)
    for end in range(len(data)):
        with pytest.raises(InvalidProgram):
            weights_from_bytes(data[:end])
    for _ in range(500):
        broken = bytearray(data)
        broken[rng.randrange(200)] = rng.randrange(256)
        try:
            weights_from_bytes(bytes(broken))
        except InvalidProgram as error:
            assert "\n" not in str(error)
