"""Weights outside the program: .ptd files, by name."""

from __future__ import annotations

import struct
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

import penlight
from penlight.errors import FileMissing, InvalidInput, InvalidProgram, NotSupported, PenlightError
from penlight.ir.dtypes import DType
from penlight.program import Contents
from penlight.program.structs import Allocation, Int, KernelCall, Method, Operator, Tensor
from penlight.program.writer import to_bytes

WEIGHT = np.array([10, 20, 30, 40], np.float32)
X = np.ones(4, np.float32)


def data_file(entries: dict[str, np.ndarray], *, layout: bool = True, version: int = 0) -> bytes:
    """A .ptd file, written field by field as the format says."""
    builder = flatbuffers.Builder(256)
    named, segments, content = [], [], b""
    for index, (key, array) in enumerate(entries.items()):
        name = builder.CreateString(key)
        place = 0
        if layout:
            builder.StartVector(4, array.ndim, 4)
            for size in reversed(array.shape):
                builder.PrependInt32(size)
            sizes = builder.EndVector()
            order = builder.CreateByteVector(bytes(range(array.ndim)))
            builder.StartObject(3)
            builder.PrependInt8Slot(0, {"float32": 6, "float64": 7}[array.dtype.name], 0)
            builder.PrependUOffsetTRelativeSlot(1, sizes, 0)
            builder.PrependUOffsetTRelativeSlot(2, order, 0)
            place = builder.EndObject()
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUint32Slot(1, index, 0)
        if place:
            builder.PrependUOffsetTRelativeSlot(2, place, 0)
        named.append(builder.EndObject())
        content += bytes(-len(content) % 128)
        builder.StartObject(2)
        builder.PrependUint64Slot(0, len(content), 0)
        builder.PrependUint64Slot(1, array.nbytes, 0)
        segments.append(builder.EndObject())
        content += array.tobytes()
    vectors = []
    for tables in (segments, named):
        builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            builder.PrependUOffsetTRelative(table)
        vectors.append(builder.EndVector())
    builder.StartObject(3)
    builder.PrependUint32Slot(0, version, 0)
    builder.PrependUOffsetTRelativeSlot(1, vectors[0], 0)
    builder.PrependUOffsetTRelativeSlot(2, vectors[1], 0)
    builder.Finish(builder.EndObject(), file_identifier=b"FT01")
    tables_bytes = bytes(builder.Output())
    # Root and identifier first, then the header, then the rest of the tables.
    root = struct.unpack_from("<I", tables_bytes)[0] + 40
    size = 48 + len(tables_bytes) - 8
    base = -(-size // 128) * 128
    head = struct.pack("<I4s4sIQQQQ", root, b"FT01", b"FH01", 40, 48, size - 48, base, len(content))
    return (head + tables_bytes[8:]).ljust(base, b"\0") + content


def program(tmp_path: Path, *, planned: bool = False) -> Path:
    """forward(x) = x + weight, where the weight is external."""
    weight = Tensor(
        DType.float32,
        (4,),
        (0,),
        name="linear.weight",
        external=True,
        allocation=Allocation(1, 32) if planned else None,
    )
    planned_tensors = [Tensor(DType.float32, (4,), (0,), allocation=Allocation(1, at)) for at in (0, 16)]
    method = Method(
        name="forward",
        values=[planned_tensors[0], weight, Int(1), planned_tensors[1]],
        inputs=[0],
        outputs=[3],
        instructions=[KernelCall(0, (0, 1, 2, 3, 3))],
        operators=[Operator("aten::add", "out")],
        arenas=[48],
    )
    path = tmp_path / "external.pte"
    path.write_bytes(to_bytes(Contents(methods=[method])))
    return path


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("layout", [False, True])
def test_weights_are_found_by_name(tmp_path: Path, planned: bool, layout: bool) -> None:
    path, data = program(tmp_path, planned=planned), tmp_path / "weights.ptd"
    data.write_bytes(data_file({"other": X, "linear.weight": WEIGHT}, layout=layout))
    np.testing.assert_array_equal(penlight.load(path, data=data)(X), WEIGHT + 1)


def test_several_files(tmp_path: Path) -> None:
    path = program(tmp_path)
    for name in ("other", "linear.weight"):
        (tmp_path / f"{name}.ptd").write_bytes(data_file({name: WEIGHT}))
    model = penlight.load(path, data=[tmp_path / "other.ptd", tmp_path / "linear.weight.ptd"])
    np.testing.assert_array_equal(model(X), WEIGHT + 1)


def test_two_files_with_one_tensor(tmp_path: Path) -> None:
    path = program(tmp_path)
    paths = [tmp_path / f"{name}.ptd" for name in "ab"]
    paths[0].write_bytes(data_file({"linear.weight": WEIGHT}))
    paths[1].write_bytes(data_file({"other": X, "linear.weight": WEIGHT + 1}))
    with pytest.raises(InvalidInput, match=r"tensor linear\.weight is in two data files: ") as caught:
        penlight.load(path, data=paths)
    assert all(str(one) in caught.value.what for one in paths)


def test_weights_that_were_not_given(tmp_path: Path) -> None:
    path = program(tmp_path)
    with pytest.raises(InvalidInput, match="none was given") as caught:
        penlight.load(path)(X)
    assert "penlight.load(..., data=" in (caught.value.do or "")
    path.with_suffix(".ptd").write_bytes(data_file({"linear.weight": WEIGHT}))
    with pytest.raises(InvalidInput, match="none was given") as caught:
        penlight.load(path).verify()
    assert f"data={str(path.with_suffix('.ptd'))!r}" in (caught.value.do or "")
    assert f"--data {path.with_suffix('.ptd')}" in (caught.value.do or "")


def test_what_is_wrong(tmp_path: Path) -> None:
    path, data = program(tmp_path), tmp_path / "weights.ptd"
    with pytest.raises(InvalidInput, match=r"tensor linear.weight is external data; none was given"):
        penlight.load(path)(X)
    with pytest.raises(FileMissing, match="no such file"):
        penlight.load(path, data=data)
    cases: list[tuple[bytes, type[PenlightError], str]] = [
        (data_file({"linear.bias": WEIGHT}), PenlightError, "linear.weight is not in the external data"),
        (data_file({"linear.weight": WEIGHT[:3]}), InvalidInput, "another dtype, shape or layout"),
        (data_file({"linear.weight": WEIGHT.astype("f8")}), InvalidInput, "another dtype, shape or layout"),
        (data_file({"linear.weight": WEIGHT}, version=3), NotSupported, "version 3"),
        (data_file({"linear.weight": WEIGHT})[:-1], InvalidProgram, "truncated"),
        (path.read_bytes(), InvalidProgram, "not a data file"),
        (b"", InvalidProgram, "the data file has 0 bytes"),
    ]
    for content, kind, message in cases:
        data.write_bytes(content)
        with pytest.raises(kind, match=message):
            penlight.load(path, data=data)(X)


def test_damaged_data_files_give_an_error(tmp_path: Path) -> None:
    path, data = program(tmp_path), tmp_path / "weights.ptd"
    good = data_file({"other": X, "linear.weight": WEIGHT})
    generator = np.random.default_rng(0)
    for _ in range(2000):
        damaged = bytearray(good)
        for _ in range(generator.integers(1, 4)):
            damaged[generator.integers(0, 400)] = generator.integers(0, 256)
        data.write_bytes(damaged)
        try:
            penlight.load(path, data=data)(X)
        except PenlightError as error:
            assert error.what
