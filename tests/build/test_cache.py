"""What is kept of builds goes when it is long unused, and never under the hands of another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penlight.build import plugin
from penlight.build.cache import drop_unused, looking, mark_used
from penlight.build.plugin import build_plugin

SOURCE = """
#include <penlight/kernel.h>
using namespace penlight;
Tensor& same_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  (void)ctx.resize(out, x.sizes());
  return out;
}
PENLIGHT_LIBRARY(kept, "same(Tensor x) -> Tensor", same_out)
"""


def file(folder: Path, name: str, size: int, hours_ago: float) -> Path:
    path = folder / name
    path.write_bytes(b"x" * size)
    when = time.time() - hours_ago * 3600
    os.utime(path, (when, when))
    return path


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    old, older, newer = (
        file(tmp_path, name, 100, hours) for name, hours in (("b", 5.0), ("a", 9.0), ("c", 1.0))
    )
    assert drop_unused(tmp_path, 200) == 1 and not older.exists() and old.exists()
    with looking(tmp_path):
        mark_used([old])
    assert drop_unused(tmp_path, 100) == 1 and not newer.exists() and old.exists()
    assert drop_unused(tmp_path, 0) == 0, "what was just used may not have been opened yet"


def test_nothing_goes_while_another_process_looks(tmp_path: Path) -> None:
    path = file(tmp_path, "a", 100, 9)
    code = (
        "import sys\nfrom pathlib import Path\nfrom penlight.build.cache import looking\n"
        "with looking(Path(sys.argv[1])):\n    print('in', flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "in\n"
    with looking(tmp_path):  # it does not keep others from looking
        assert drop_unused(tmp_path, 0) == 0 and path.exists()
    other.communicate("")
    assert drop_unused(tmp_path, 0) == 1 and not path.exists()


def test_a_plug_in_that_went_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENLIGHT_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "kept.cpp"
    source.write_text(SOURCE)
    first = build_plugin(source)
    for path in first.parent.iterdir():
        os.utime(path, (1, 1))
    assert build_plugin(source) == first and first.stat().st_mtime > 1, "finding it marks it"
    other = tmp_path / "other.cpp"
    other.write_text(SOURCE.replace("kept", "other"))
    os.utime(first, (1, 1))
    monkeypatch.setattr(plugin, "_LIMIT", 0)
    second = build_plugin(other)
    assert second.exists() and not first.exists()
    assert build_plugin(source) == first and first.exists()
