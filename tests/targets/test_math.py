"""The math functions of bare boards, against the C library's and numpy's long doubles.

They are compiled for this machine under other names; exp and log below them are then
the C library's own, on a board the toolchain's.
"""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest

from penlight.build.build import BuildOptions, build
from penlight.build.targets import find_target
from penlight.build.toolchain import zig_command

ROOT = Path(__file__).resolve().parents[2]
FREESTANDING = ROOT / "platforms" / "freestanding"
NAMES = ["expm1", "log1p", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
NAMES += [
    "atan",
    "asin",
    "acos",
    "atan2",
    "erf",
    "erfc",
    "pow",
    "hypot",
    "nearbyint",
    "lgamma",
    "nextafter",
    "copysign",
]
TWO = {"atan2", "pow", "hypot", "nextafter", "copysign"}
RNG = np.random.default_rng(0)
INF, NAN = float("inf"), float("nan")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    output = tmp_path_factory.mktemp("math") / "math.so"
    renames = [f"-D{name}{suffix}=own_{name}{suffix}" for name in NAMES for suffix in ("", "f")]
    sources = sorted(map(str, (FREESTANDING / "math").glob("*.cpp")))
    flags = ["-std=c++17", "-O2", "-fno-builtin", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    include = ["-I", str(FREESTANDING / "include")]
    subprocess.run(
        [compiler, *flags, *include, *renames, "-shared", "-fPIC", *sources, "-o", str(output), "-lm"],
        check=True,
    )
    return ctypes.CDLL(str(output))


def function(library: ctypes.CDLL, name: str, dtype: type) -> Callable[..., float]:
    found = getattr(library, f"own_{name}" + ("f" if dtype is np.float32 else ""))
    c_type = ctypes.c_float if dtype is np.float32 else ctypes.c_double
    found.restype, found.argtypes = c_type, [c_type] * (2 if name in TWO else 1)
    return found  # type: ignore[no-any-return]


def ulps(got: np.ndarray, want: np.ndarray, dtype: type) -> float:
    """The largest distance, in units in the last place of the exact value."""
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype)
        unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
        distance = np.abs(got.astype(np.longdouble) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return float(np.max(np.where(same & ~np.isfinite(rounded), 0, distance)))


def exact(name: str) -> Callable[..., np.ndarray]:
    numpy = {"atan": "arctan", "asin": "arcsin", "acos": "arccos", "asinh": "arcsinh"}
    numpy |= {"acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2", "pow": "power"}
    numpy["nearbyint"] = "rint"
    if name in ("erf", "erfc"):
        return lambda x: np.array([getattr(math, name)(float(v)) for v in x], dtype=np.longdouble)
    if name == "lgamma":
        return log_gamma
    if name == "nextafter":
        return np.nextafter
    return lambda *x: getattr(np, numpy.get(name, name))(*(v.astype(np.longdouble) for v in x))


def log_gamma(x: np.ndarray) -> np.ndarray:
    with mpmath.workdps(30):
        return np.array([np.longdouble(mpmath.nstr(mpmath.loggamma(float(v)).real, 25)) for v in x])


def span(low: float, high: float, count: int = 4000) -> np.ndarray:
    return RNG.uniform(low, high, count)


def sizes(low: float, high: float, count: int = 4000) -> np.ndarray:
    """Numbers of both signs with magnitudes 2^low to 2^high."""
    return np.exp2(RNG.uniform(low, high, count)) * RNG.choice([-1, 1], count)


# Function: arguments for double and float, largest error in units for each.
CASES: dict[str, tuple[Callable[[bool], list[np.ndarray]], float, float]] = {
    "expm1": (lambda f: [np.r_[sizes(-60, -1), span(-40, 80)]], 3, 3),
    "log1p": (lambda f: [np.r_[sizes(-60, -1.01), span(-0.99, 50)]], 3, 3),
    "sinh": (lambda f: [np.r_[sizes(-40, 0), span(-80, 80)]], 4, 4),
    "cosh": (lambda f: [np.r_[sizes(-40, 0), span(-80, 80)]], 3, 3),
    "tanh": (lambda f: [np.r_[sizes(-40, 0), span(-22, 22)]], 4, 4),
    "asinh": (lambda f: [np.r_[sizes(-40, 1), sizes(1, 60)]], 4, 4),
    "acosh": (lambda f: [np.r_[1 + np.abs(sizes(-20, 0)), np.abs(sizes(1, 60))]], 4, 4),
    "atanh": (lambda f: [np.r_[sizes(-40, -1), span(-0.999, 0.999)]], 4, 4),
    "atan": (lambda f: [np.r_[sizes(-40, 40), span(-3, 3)]], 3, 0.51),
    # atan of a quotient that is itself rounded: a square root within 1.25 units, a division.
    "asin": (lambda f: [np.r_[sizes(-40, -1), span(-1, 1)]], 4, 0.51),
    "acos": (lambda f: [span(-1, 1)], 4, 0.51),
    "atan2": (lambda f: [sizes(-20, 20), sizes(-20, 20)], 3, 0.51),
    "erf": (lambda f: [np.r_[sizes(-40, 0), span(-6.5, 6.5)]], 3, 0.51),
    "erfc": (lambda f: [span(-6, 9 if f else 26)], 24, 0.51),
    "pow": (lambda f: [np.abs(sizes(-10, 10)), span(-12, 12) if f else span(-80, 80)], 1, 0.51),
    "hypot": (lambda f: [sizes(-30, 30), sizes(-30, 30)], 2, 0.51),
    "lgamma": (
        lambda f: [np.r_[np.abs(sizes(-40, 1)), span(0, 3), span(0, 200), np.abs(sizes(7, 80))]],
        12,
        0.51,
    ),
    "copysign": (lambda f: [sizes(-140, 100), sizes(-3, 3)], 0, 0),
    "nextafter": (
        lambda f: [np.r_[sizes(-140, 100), np.zeros(9)], np.r_[sizes(-3, 3), sizes(-1, 1, 9)]],
        0,
        0,
    ),
    "nearbyint": (lambda f: [np.r_[span(-50, 50), np.arange(-20, 20) + 0.5, sizes(20, 60)]], 0, 0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_is_near_the_exact_value(library: ctypes.CDLL, name: str, dtype: type) -> None:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("this machine's long double is no wider than a double")
    make, double_bound, float_bound = CASES[name]
    arguments = [values.astype(dtype) for values in make(dtype is np.float32)]
    call = function(library, name, dtype)
    got = np.array([call(*map(float, row)) for row in zip(*arguments, strict=True)], dtype=dtype)
    worst = ulps(got, exact(name)(*arguments), dtype)
    print(f"{name} {np.dtype(dtype).name}: {worst:.2f} units")
    assert worst <= (float_bound if dtype is np.float32 else double_bound)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-310, 1e300, -1e300, INF, -INF, NAN]


@pytest.mark.parametrize("name", NAMES)
def test_special_values(library: ctypes.CDLL, name: str) -> None:
    """Zeros with their signs, infinities, NaN and the ends of domains are as the C library has them."""
    system = ctypes.CDLL(None)
    reference = getattr(system, name)
    two = name in TWO
    reference.restype, reference.argtypes = ctypes.c_double, [ctypes.c_double] * (2 if two else 1)
    call = function(library, name, np.float64)
    rows = [(x, y) for x in SPECIAL for y in SPECIAL] if two else [(x,) for x in SPECIAL]
    wrong = []
    for row in rows:
        got, want = call(*row), reference(*row)
        same = math.isnan(got) and math.isnan(want)
        same |= got == want and math.copysign(1, got) == math.copysign(1, want)
        same |= bool(want) and math.isfinite(want) and abs(got / want - 1) < 1e-14
        if not same:
            wrong.append((row, got, want))
    assert not wrong


def test_every_function_is_there_on_a_board(tmp_path: Path) -> None:
    """What math.h declares is defined: here, or in the library of zig's compiler."""
    if zig_command() is None:
        pytest.skip("ziglang is not installed")
    header = (FREESTANDING / "include" / "math.h").read_text()
    names = re.findall(r"^PENLIGHT_DECLARE_(\d)\((\w+)\)", header, re.MULTILINE)
    assert {"exp", "lgamma"} <= {name for _, name in names}
    kinds = {"1": "(*)(T)", "2": "(*)(T, T)"}
    rows = [
        f"(void*)static_cast<{type_}{kinds[count].replace('T', type_)}>({name}{suffix}),"
        for count, name in names
        for type_, suffix in (("double", ""), ("float", "f"))
    ]
    source = tmp_path / "everything.cpp"
    source.write_text(
        "#include <math.h>\n#include <penlight/kernel.h>\nusing namespace penlight;\n"
        "void* const volatile kEvery[] = {\n" + "\n".join(rows) + "\n};\n"
        "Tensor& all_out(KernelContext& ctx, const Tensor& x, Tensor& out) {\n"
        "  for (void* one : kEvery) if (!one) ctx.decline();\n  return ctx.resize(out, x.sizes()), out;\n}\n"
        'PENLIGHT_LIBRARY(everything, "all(Tensor x) -> Tensor", all_out)\n'
    )
    board = find_target("cortex-m4f")
    built = build(BuildOptions(sources=[source], target=board, output=tmp_path / "out"))
    assert built.files[0].exists()
