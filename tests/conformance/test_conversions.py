"""Conversions between float32 and 16 bits, and from integers, of every instruction set, bit by bit.

Those of unsigned integers are the portable library's.
"""

from __future__ import annotations

import pytest
import torch
from run_op import overload_of, run_op

TO_COPY = overload_of("aten::_to_copy")
SHORT = (torch.float16, torch.bfloat16)


def convert(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    found: torch.Tensor = run_op(TO_COPY, [x], {"dtype": dtype}, x.to(dtype), "optimized")[0]
    return found


def bits(x: torch.Tensor) -> torch.Tensor:
    """With one NaN for all."""
    x = torch.where(x.isnan(), torch.tensor(torch.nan, dtype=x.dtype), x)
    return x.view(torch.int32 if x.dtype == torch.float32 else torch.int16)


@pytest.mark.parametrize("dtype", SHORT)
def test_every_short_float(isa: str, dtype: torch.dtype) -> None:
    x = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    assert torch.equal(bits(convert(x, torch.float32)), bits(x.float()))


@pytest.mark.parametrize("dtype", SHORT)
def test_between_short_floats(isa: str, dtype: torch.dtype) -> None:
    """Those that lie halfway are rounded to even, and those beside them to the nearest."""
    short = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    known = short[short.isfinite()].float().unique()
    halfway = ((known[1:].double() + known[:-1].double()) / 2).float()
    infinity = torch.tensor(torch.inf)
    near = [halfway, torch.nextafter(halfway, infinity), torch.nextafter(halfway, -infinity)]
    some = torch.randint(-(2**31), 2**31, (100_003,)).to(torch.int32).view(torch.float32)
    ends = torch.tensor([65519.99, 65520.0, 65536.0, 1e38, torch.inf, -torch.inf, torch.nan, 0.0, -0.0])
    x = torch.cat([*near, some, ends])
    assert torch.equal(bits(convert(x, dtype)), bits(x.to(dtype)))


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("sizes", [(), (0,), (1,), (15,), (33,), (3, 0, 2), (2, 3, 5, 7)])
def test_shapes_and_orders(isa: str, dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    x = torch.randn(sizes)
    for given in (x, x.contiguous(memory_format=torch.channels_last)) if x.dim() == 4 else (x,):
        short = convert(given, dtype)
        assert torch.equal(bits(short), bits(given.to(dtype)))
        assert torch.equal(convert(given.to(dtype), torch.float32), given.to(dtype).float())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers(isa: str, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    for low, high in ((limits.min, limits.max), (max(limits.min, -(2**26)), min(limits.max, 2**26))):
        x = torch.randint(low, high, (3, 67, 51), dtype=dtype)
        x[0, 0, :2] = torch.tensor([limits.min, limits.max], dtype=dtype)
        assert torch.equal(convert(x, torch.float32), x.float())
    assert torch.equal(convert(x[0, :0], torch.float32), x[0, :0].float())
    image = x[None].contiguous(memory_format=torch.channels_last)
    assert torch.equal(convert(image, torch.float32), image.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wide", [torch.int32, torch.int64])
def test_floats_as_integers(isa: str, dtype: torch.dtype, wide: torch.dtype) -> None:
    """Towards zero; what is NaN or out of range is the lowest number."""
    limits = torch.iinfo(wide)
    edges = torch.tensor([limits.min, -(2.0**24) - 2, -1.5, -0.5, -0.0, 0.7, 2.5, 2.0**24 - 1], dtype=dtype)
    below = torch.nextafter(
        torch.tensor(2.0 ** (limits.bits - 1), dtype=dtype), torch.tensor(0.0, dtype=dtype)
    )
    far = torch.tensor([torch.nan, torch.inf, -torch.inf, 2.0 ** (limits.bits - 1), 1e30, -1e30], dtype=dtype)
    for count in (*range(1, 20), 1000):
        x = torch.randn(count, dtype=dtype) * 1e6
        assert torch.equal(convert(x, wide), x.to(wide))
    x = torch.cat([edges, below[None], torch.randn(5, dtype=dtype), far])
    want = torch.cat([x[: -len(far)].to(wide), torch.full(far.shape, limits.min, dtype=wide)])
    assert torch.equal(convert(x, wide), want)


UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
OTHERS = (*SHORT, torch.float32, torch.float64, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64)


@pytest.mark.parametrize("other", (*OTHERS, torch.uint8, *UNSIGNED))
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_integers(dtype: torch.dtype, other: torch.dtype) -> None:
    top = torch.iinfo(dtype).max
    numbers = [0, 1, 2, 200, 255, 256, top // 3, top // 2, top // 2 + 1, top - 1, top, *range(300, 370)]
    x = torch.tensor(numbers, dtype=torch.uint64).to(dtype)
    (got,) = run_op(TO_COPY, [x], {"dtype": other}, x.to(other), "portable")
    assert torch.equal(got, x.to(other))
    # Back, as far as the other has them: what is beyond its limits is not defined.
    fits = 255 if other.itemsize == 1 else 2048 if other in SHORT else top // 2
    small = torch.tensor([n for n in numbers if n <= fits], dtype=torch.uint64).to(other)
    (back,) = run_op(TO_COPY, [small], {"dtype": dtype}, small.to(dtype), "portable")
    assert torch.equal(back, small.to(dtype))


def test_large_floats_as_unsigned_integers() -> None:
    for dtype, number in ((torch.uint32, 4e9), (torch.uint64, 1.8e19)):
        x = torch.tensor([number, 3.7, 0.0], dtype=torch.float64)
        (got,) = run_op(TO_COPY, [x], {"dtype": dtype}, x.to(dtype), "portable")
        assert torch.equal(got, x.to(dtype))
