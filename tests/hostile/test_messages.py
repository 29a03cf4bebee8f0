"""Broken files, each with the message it must give: in words, with numbers, never a crash."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penlight
from penlight.errors import InvalidProgram, NotSupported, PenlightError, RuntimeFailure
from penlight.runtime.program import LoadedProgram

SEEDS = Path(__file__).parent / "seeds"
GOOD = (SEEDS / "dynamic_length_attention.pte").read_bytes()
PROGRAM_SIZE = struct.unpack_from("<Q", GOOD, 16)[0]


def put(offset: int, form: str, *values: int) -> bytes:
    """The good file with other numbers at `offset`."""
    changed = bytearray(GOOD)
    struct.pack_into(form, changed, offset, *values)
    return bytes(changed)


# What the file is: its bytes, the class of the error, what the message must say.
CASES: dict[str, tuple[bytes, type[PenlightError], str]] = {
    "empty": (b"", InvalidProgram, "the file has 0 bytes"),
    "seven bytes": (GOOD[:7], InvalidProgram, "the file has 7 bytes"),
    "text": (b"This is no program, but a text of some length." * 9, InvalidProgram, "is not a program file"),
    "zeros": (bytes(4096), InvalidProgram, "is not a program file"),
    "zip": (b"PK\x03\x04" + bytes(4096), InvalidProgram, "is not a program file"),
    "other version": (put(4, "4s", b"ET13"), NotSupported, "format version 13; this runtime reads 12"),
    "old version": (put(4, "4s", b"ET09"), NotSupported, "format version 09"),
    "header too short": (put(12, "<I", 8), InvalidProgram, "the header has 8 bytes, at least 24"),
    "ends in the header": (GOOD[:36], InvalidProgram, "truncated"),
    "ends in the program": (GOOD[: PROGRAM_SIZE // 2], InvalidProgram, "truncated"),
    "ends in the weights": (GOOD[:-64], InvalidProgram, "truncated"),
    "program larger than the file": (put(16, "<Q", 1 << 40), InvalidProgram, "truncated"),
    "program of no bytes": (put(16, "<Q", 0), InvalidProgram, "program part of 0 bytes"),
    "segments behind the end": (put(24, "<Q", 1 << 40), InvalidProgram, "truncated"),
    "segments overflow": (put(24, "<QQ", 2**64 - 128, 256), InvalidProgram, "truncated"),
    "root behind the end": (put(0, "<I", 0x7FFFFFFF), InvalidProgram, "damaged"),
    "root at the header": (put(0, "<I", 4), InvalidProgram, "damaged"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("source", ["bytes", "mapped", "read"])
def test_broken_file(name: str, source: str, tmp_path: Path) -> None:
    content, kind, message = CASES[name]
    path = tmp_path / "broken.pte"
    path.write_bytes(content)
    with pytest.raises(kind) as caught:
        program = penlight.load(content) if source == "bytes" else penlight.load(path, map=source == "mapped")
        program.verify()
    assert message in caught.value.what, str(caught.value)
    if source != "bytes":
        assert str(path) in str(caught.value)


def test_no_damaged_byte_gives_another_error() -> None:
    """Names and containers too, which are text until a bit of theirs is another."""
    import torch

    good = penlight.compile(torch.nn.Linear(4, 4), (torch.randn(3, 4),), debug=False).to_bytes()
    x = np.zeros((3, 4), np.float32)
    named = 0
    for at in range(8, struct.unpack_from("<Q", good, 16)[0]):
        for bit in (0x80, 0x01):
            changed = bytearray(good)
            changed[at] ^= bit
            try:
                program = penlight.load(bytes(changed))
                for method in program:
                    program[method].limit_jumps(1000)
                program(x)
            except PenlightError as error:
                named += "is not text in UTF-8: byte" in error.what or "is missing" in error.what
    assert named >= 8  # the letters of "forward", and what leads to them


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"builtins.tuple", b"builtins.tupl\xe9", "the container structure of inputs or outputs"),
        (b'"builtins.dict"', b'"builtins.list"', None),  # keyword arguments in a list: not taken as such
    ],
)
def test_damaged_containers(old: bytes, new: bytes, message: str | None) -> None:
    import torch

    good = penlight.compile(torch.nn.Linear(4, 4), (torch.randn(3, 4),), debug=False).to_bytes()
    assert old in good
    program = penlight.load(good.replace(old, new))
    if message is None:
        assert program(np.zeros((3, 4), np.float32)).shape == (3, 4)
        return
    with pytest.raises(InvalidProgram, match=message) as caught:
        program(np.zeros((3, 4), np.float32))
    assert "a program of" in str(caught.value)


def damage(change: Callable[[Any], None]) -> bytes:
    """The file of a small program of ours with its contents changed."""
    from penlight.ir.dtypes import DType
    from penlight.program import Contents
    from penlight.program.structs import (
        Allocation,
        Bool,
        Int,
        IntList,
        JumpFalse,
        KernelCall,
        Method,
        Operator,
        Tensor,
        TensorList,
    )
    from penlight.program.writer import to_bytes

    place = Allocation(1, 0), Allocation(1, 16), Allocation(1, 32)
    tensors = [Tensor(DType.float32, (4,), (0,), allocation=where) for where in place]
    method = Method(
        name="forward",
        values=[*tensors, Int(1), Bool(False), IntList((3,)), TensorList((0, 1))],
        inputs=[0, 1],
        outputs=[2],
        instructions=[KernelCall(0, (0, 1, 3, 2, 2))],
        operators=[Operator("aten::add", "out")],
        arenas=[48],
    )
    contents = Contents(methods=[method])
    parts = type("Parts", (), {"JumpFalse": JumpFalse, "KernelCall": KernelCall, "Operator": Operator,
                               "Tensor": Tensor, "Allocation": Allocation, "DType": DType})  # fmt: skip
    change((contents, method, parts))
    return to_bytes(contents)


def set_value(index: int, **fields: Any) -> Callable[[Any], None]:
    def change(parts: Any) -> None:
        from dataclasses import replace

        parts[1].values[index] = replace(parts[1].values[index], **fields)

    return change


def set_place(index: int, memory_id: int, offset: int) -> Callable[[Any], None]:
    return lambda parts: set_value(index, allocation=parts[2].Allocation(memory_id, offset))(parts)


def set_call(*args: int) -> Callable[[Any], None]:
    return lambda parts: parts[1].instructions.__setitem__(0, parts[2].KernelCall(0, args))


def set_operator(name: str, overload: str) -> Callable[[Any], None]:
    return lambda parts: parts[1].operators.__setitem__(0, parts[2].Operator(name, overload))


def add_jump(condition: int, target: int) -> Callable[[Any], None]:
    return lambda parts: parts[1].instructions.append(parts[2].JumpFalse(condition, target))


# Programs whose parts do not fit one another, and what must be said.
PLANS: dict[str, tuple[Callable[[Any], None], str]] = {
    "tensor behind the arena": (
        set_place(2, 1, 4096),
        "method forward: tensor 2 ends at byte 4112, memory region 1 has 48",
    ),
    "tensor across the arena's end": (
        set_place(2, 1, 40),
        "method forward: tensor 2 ends at byte 56, memory region 1 has 48",
    ),
    "tensor in an arena that is not there": (
        set_place(2, 7, 0),
        "method forward: tensor 2 ends at byte 16, memory region 7 has 0",
    ),
    "tensor larger than memory": (
        set_value(2, sizes=(0x7FFFFFFF,)),
        "method forward: tensor 2 ends at byte 8589934620, memory region 1 has 48",
    ),
    "sizes whose product overflows": (
        set_value(2, sizes=(0x7FFFFFFF,) * 4, dim_order=(0, 1, 2, 3)),
        "tensor 2 is larger than memory can be",
    ),
    "negative size": (set_value(2, sizes=(-1,)), "tensor 2 has a negative size"),
    "dim order that repeats": (
        set_value(2, sizes=(2, 2), dim_order=(0, 0)),
        "tensor 2 has a dim order that is no permutation",
    ),
    "constant that is not stored": (
        set_value(2, allocation=None, data=9),
        "method forward: constant tensor 2 lies outside the file's data",
    ),
    "argument that is not there": (set_call(0, 1, 3, 99, 2), "instruction 0 is damaged"),
    "too few arguments": (
        set_call(0, 1, 3),
        "method forward: instruction 0 passes 3 arguments to aten::add.out, which takes 4",
    ),
    "too many arguments": (
        set_call(0, 1, 3, 2, 2, 2, 2),
        "method forward: instruction 0 passes 7 arguments to aten::add.out, which takes 4",
    ),
    "int for a tensor": (
        set_call(3, 1, 3, 2, 2),
        "method forward: instruction 0 passes a int as argument 0 of aten::add.out, which takes it as T",
    ),
    "tensor for a number": (
        set_call(0, 1, 1, 2, 2),
        "method forward: instruction 0 passes a Tensor as argument 2 of aten::add.out, which takes it as S",
    ),
    "operator without a kernel": (
        set_operator("aten::nonsense", "out"),
        "method forward: instruction 0 calls aten::nonsense.out, for which no kernel is registered",
    ),
    "operator that is not there": (
        lambda parts: parts[1].instructions.__setitem__(0, parts[2].KernelCall(5, (0, 1, 3, 2, 2))),
        "method forward: the operator of instruction 0 is damaged",
    ),
    "jump behind the end": (add_jump(4, 1000), "instruction 1 is damaged"),
    "jump on a list": (add_jump(5, 0), "method forward: instruction 1 jumps on a value that is no bool"),
    "input that is not there": (lambda parts: parts[1].inputs.append(77), "input 2 is damaged"),
    "output that is not there": (lambda parts: parts[1].outputs.append(77), "output 1 is damaged"),
}


@pytest.mark.parametrize("name", PLANS)
def test_broken_plan(name: str) -> None:
    change, message = PLANS[name]
    try:
        content = damage(change)
    except (struct.error, ValueError, OverflowError) as error:
        pytest.skip(f"our writer refuses: {error}")
    with pytest.raises(PenlightError) as caught:
        penlight.load(content).verify()
    assert caught.value.what == message


def test_the_undamaged_plan_runs() -> None:
    model = penlight.load(damage(lambda parts: None))
    np.testing.assert_array_equal(model(np.ones(4, np.float32), np.ones(4, np.float32)), np.full(4, 2.0))


def test_a_loop_without_end_is_cut() -> None:
    model = penlight.load(damage(add_jump(4, 0)))
    model["forward"].limit_jumps(100)
    with pytest.raises(PenlightError, match="too many backward jumps"):
        model(np.ones(4, np.float32), np.ones(4, np.float32))


def test_arena_larger_than_the_machine() -> None:
    with pytest.raises(PenlightError, match="memory that the machine does not give: 4611686018427387904"):
        penlight.load(damage(lambda parts: parts[1].arenas.__setitem__(0, 1 << 62))).verify()


def test_a_failed_run_leaves_the_program_usable() -> None:
    def gather(parts: Any) -> None:
        _, method, made = parts
        method.operators[0] = made.Operator("aten::index_select", "out")
        method.values[1] = made.Tensor(made.DType.int64, (2,), (0,), allocation=made.Allocation(1, 16))
        method.values[2] = made.Tensor(made.DType.float32, (2,), (0,), allocation=made.Allocation(1, 32))
        method.values[3] = type(method.values[3])(0)
        method.instructions[0] = made.KernelCall(0, (0, 3, 1, 2, 2))

    model = penlight.load(damage(gather))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(model(x, np.array([3, 0])), [3, 0])
    with pytest.raises((RuntimeFailure, PenlightError), match="index_select"):
        model(x, np.array([3, 9]))
    np.testing.assert_array_equal(model(x, np.array([1, 2])), [1, 2])


def view_and_add(instructions: Callable[[Any], list[Any]], *unplaced: int) -> LoadedProgram:
    """Values 0 and 4 are the inputs, x and a bool, 2 the output; operator 0 adds, operator 1 views."""

    def change(parts: Any) -> None:
        _, method, made = parts
        method.operators.append(made.Operator("executorch_prim::et_view", "default"))
        for index in unplaced:
            method.values[index] = made.Tensor(made.DType.float32, (4,), (0,))
        method.values[5] = type(method.values[5])((7,))
        method.values.append(type(method.values[3])(4))
        method.inputs[:] = [0, 4]
        method.instructions[:] = instructions(made)

    return penlight.load(damage(change))


def test_a_view_is_of_this_run() -> None:
    """What an earlier run viewed, here its input, may be gone by now."""

    def view_or_not(made: Any) -> list[Any]:
        view, add = made.KernelCall(1, (0, 5, 1)), made.KernelCall(0, (1, 1, 3, 2, 2))
        return [made.JumpFalse(4, 2), view, add]

    model = view_and_add(view_or_not, 0, 1)
    x = np.arange(4, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(model(x, True), 2 * x)
        with pytest.raises(PenlightError, match=r"the result is \[0\] but the output"):
            model(x + 1, False)


def test_a_view_is_written_to_the_memory_given_for_it() -> None:
    """The caller's memory gets the result of every run, whether an instruction or a view made it."""

    def view_or_sum(made: Any) -> list[Any]:
        view, add = made.KernelCall(1, (0, 5, 2)), made.KernelCall(0, (0, 0, 3, 2, 2))
        return [view, made.JumpFalse(4, 3), add]

    model = view_and_add(view_or_sum, 0, 2)
    x = np.arange(4, dtype=np.float32)
    for adds in (False, True, False, True):
        np.testing.assert_array_equal(model(x, adds), x * (1 + adds))
        np.testing.assert_array_equal(x, np.arange(4))
