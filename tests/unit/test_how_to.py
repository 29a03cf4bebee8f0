"""What the pages under docs/ show works: their programs run, in order, as a reader would run them.

Every block of code is in BLOCKS, executed here or with the test that does the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
HERE = "here"

BLOCKS: dict[str, list[tuple[str, str]]] = {
    "README.md": [
        ("python", "test_readme"),
        ("text", "test_readme"),
        ("cpp", "test_readme"),
        ("text", "test_readme"),
        ("text", "CI begins with a clone"),
    ],
    "docs/errors.md": [("text", "test_documents")],
    "docs/flow.md": [("text", "a picture")],
    "docs/how-to/build.md": [
        ("sh", "tests/build, for another machine tests/targets"),
        ("sh", "tests/build"),
        ("cmake", "tests/build/test_formats.py, examples/08_cmake_project.py"),
        ("cpp", "tests/build/test_formats.py"),
        ("text", "sizes differ between compilers; tests/build/test_build.py reads such a table"),
    ],
    "docs/how-to/cmake.md": [
        ("cmake", "tests/cmake/test_package.py"),
        ("sh", "tests/cmake/test_package.py"),
        ("cpp", "tests/cmake/project"),
    ],
    "docs/how-to/custom-op.md": [
        ("cpp", HERE),
        ("python", HERE),
        ("python", "tests/ops/test_sizes_of_data.py loads such an operator"),
        ("cpp", "tests/ops/test_backward_rule.py loads such operators"),
        ("python", HERE),
        ("python", HERE),
    ],
    "docs/how-to/fast.md": [("text", "tests/pipeline/test_explained.py reads such a report")],
    "docs/how-to/plugins.md": [("cpp", HERE), ("python", HERE), ("text", HERE)],
    "docs/how-to/targets.md": [
        ("sh", "tests/targets/test_run_elsewhere.py"),
        ("text", "tests/targets/test_run_elsewhere.py"),
        ("cpp", "tests/targets/test_run_elsewhere.py"),
        ("sh", "tests/targets/machines.py"),
        ("js", "tests/targets/machines.py makes the same calls"),
    ],
    "docs/how-to/yaml.md": [
        ("text", HERE),
        ("sh", HERE),
        ("cpp", "tests/unit/test_yaml_run.py"),
        ("yaml", HERE),
        ("yaml", HERE),
        ("cpp", HERE),
        ("text", HERE),
        ("sh", "tests/unit/test_yaml_sources.py"),
        ("sh", "tests/build/test_user_libraries.py"),
        ("yaml", HERE),
        ("python", HERE),
    ],
}
compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="no C++ compiler"
)


def blocks(page: str) -> list[str]:
    return [text for _, text in BLOCK.findall((ROOT / page).read_text())]


def run(folder: Path, *command: str, code: int = 0) -> str:
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = {**os.environ, "PATH": place, "PENLIGHT_CACHE": str(folder / "cache"), "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def python(folder: Path, *parts: str) -> str:
    return run(folder, sys.executable, "-c", "\n".join(parts))


def penlight(folder: Path, words: Sequence[str], code: int = 0) -> str:
    return run(folder, sys.executable, "-m", "penlight", *words, code=code)


def test_every_block_is_accounted_for() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {
        str(path.relative_to(ROOT)): [kind for kind, _ in BLOCK.findall(path.read_text())] for path in pages
    }
    assert {page: kinds for page, kinds in found.items() if kinds} == {
        page: [kind for kind, _ in known] for page, known in BLOCKS.items()
    }


def test_tests_that_stand_in_for_blocks_exist() -> None:
    named = {
        name for known in BLOCKS.values() for _, why in known for name in re.findall(r"tests/[\w/.]+", why)
    }
    assert [name for name in sorted(named) if not (ROOT / name.rstrip(".")).exists()] == []


def test_links_lead_somewhere() -> None:
    pages = [path for path in ROOT.rglob("*.md") if not {".venv", "build", ".venv-peers"} & set(path.parts)]
    dead = []
    for page in pages:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, part = link.partition("#")
            target = page.parent / file if file else page
            if link.startswith("http"):
                continue
            if not target.exists():
                dead.append(f"{page.relative_to(ROOT)}: {link}")
            elif part:
                heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
                if part not in anchors:
                    dead.append(f"{page.relative_to(ROOT)}: {link}")
    assert pages and dead == []


@compiler
def test_operator_of_your_own(tmp_path: Path) -> None:
    kernel, use, _, _, more, alone = blocks("docs/how-to/custom-op.md")
    (tmp_path / "custom_linear.cpp").write_text(kernel)
    (tmp_path / "plain.cpp").write_text(kernel.replace("(myop,", "(plain,"))
    (tmp_path / "custom_linear.py").write_text("import penlight, torch\n" + more)
    before = """
import torch
weight, x, bias = torch.randn(5, 4), torch.randn(3, 4), torch.randn(5)
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.myop.custom_linear(weight, x, bias)
model_that_uses_it = Model()
"""
    after = """
want = torch.nn.functional.linear(x, weight, bias)
torch.testing.assert_close(y, want)
torch.testing.assert_close(penlight.load(program)(x), want)
plain = penlight.ops.load("plain.cpp")  # without its Python, which declares a dtype
for given in ((weight.double(), x, bias), (weight, x.double(), bias), (weight, x, bias.double())):
    try:
        plain(*given)
    except ValueError as error:
        assert "weight, input and bias are of one dtype" in str(error)
    else:
        raise AssertionError("dtypes that differ were taken")
weight.requires_grad_()
op(weight, x, bias).sum().backward()
torch.testing.assert_close(weight.grad, x.sum(0).expand(5, 4))
"""
    swish = """
torch.testing.assert_close(swish(x, 2.0), x * torch.sigmoid(2.0 * x))
class Swish(torch.nn.Module):
    def forward(self, x):
        return torch.ops.myop.swish(x, 0.5)
torch.testing.assert_close(penlight.load(penlight.compile(Swish(), (x,)))(x), x * torch.sigmoid(0.5 * x))
"""
    python(tmp_path, before, use, after, alone, swish)
    penlight(tmp_path, ["op", "build", "custom_linear.cpp", "--test"])


@compiler
def test_plug_in(tmp_path: Path) -> None:
    kernel, load, commands = blocks("docs/how-to/plugins.md")
    (tmp_path / "scale.cpp").write_text(kernel)
    model = """
import penlight, torch
penlight.ops.load("scale.cpp")
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.ops.myop.scale(x, 3.0)
penlight.compile(Model(), (torch.ones(4),)).save("model.pte")
"""
    use = """
import numpy, penlight, shutil, sys
assert "torch" not in sys.modules
assert (penlight.load("model.pte")(numpy.ones(4, "float32")) == 3).all()
shutil.copy(plugin, "libscale.so")
"""
    python(tmp_path, model)
    python(tmp_path, load, use)
    for line in commands.splitlines():
        words = line.partition("#")[0].split()
        if words[0] == "penlight":
            assert "3 3 3 3" in penlight(tmp_path, [*words[1:], "--fill", "ones"])
        elif shutil.which(words[0]) or (Path(sys.executable).parent / words[0]).exists():
            assert "first 3 3 3 3" in run(tmp_path, *words, "--ones")


def test_kernels_by_yaml(tmp_path: Path) -> None:
    files, check, _, functions, operators, kernels, error, *_, compact, register = blocks(
        "docs/how-to/yaml.md"
    )
    folder = tmp_path / "mylib"
    folder.mkdir()
    assert re.findall(r"^mylib/(\S+)", files, re.MULTILINE) == [
        "functions.yaml",
        "custom_ops.yaml",
        "kernels.cpp",
    ]
    (folder / "functions.yaml").write_text(functions)
    (folder / "custom_ops.yaml").write_text(operators)
    others = """
namespace mylib {
Tensor& add_in_rows_out(KernelContext&, const Tensor&, const Tensor&, const Scalar&, Tensor& out) {
  return out;
}
Tensor& custom_linear_out(KernelContext&, const Tensor& weight, const Tensor& input,
                          const Optional<Tensor>& bias, Tensor& out) {
  return out;
}
Tensor& twice_out(KernelContext&, const Tensor&, Tensor& out) { return out; }
}  // namespace mylib
"""
    (folder / "kernels.cpp").write_text(kernels + others)
    for line in check.splitlines():
        penlight(tmp_path, line.partition("#")[0].split()[1:])
    assert "mylib::add_in_rows_out" in (tmp_path / "mylib_table.cpp").read_text()
    (folder / "functions.yaml").write_text(functions + compact)
    python(tmp_path, register, "assert len(library.rows) >= 3, library.rows")
    # The fault that the page shows: `alpha` is missing in the kernel.
    (folder / "functions.yaml").write_text(functions)
    (folder / "kernels.cpp").write_text((kernels + others).replace("const Scalar& alpha, ", ""))
    said = penlight(tmp_path, ["ops", "check", "mylib/functions.yaml"], code=1)
    first, schema, found, expected, _ = error.splitlines()
    for part in (first, schema.strip(), found.partition("(mylib")[0].strip(), expected.strip()):
        assert " ".join(part.split()) in " ".join(said.split())
