"""find_package(penlight): a project of its own builds against the sources that Penlight ships."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = ROOT / "cmake"


def cmake_program() -> str:
    found = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    if found is None:
        pytest.skip("no cmake on this machine")
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("no C++ compiler on this machine")
    return found


def cmake(*arguments: str | Path, code: int = 0) -> str:
    """What it prints; on one line, because CMake breaks lines where it likes."""
    command = [cmake_program(), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == (code != 0), said
    return " ".join(said.split())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gives project::twice and project::half of its input of four numbers."""
    from penlight.ir.dtypes import DType
    from penlight.program import Contents
    from penlight.program.structs import Allocation, KernelCall, Method, Operator, Tensor
    from penlight.program.writer import to_bytes

    tensors = [Tensor(DType.float32, (4,), (0,), allocation=Allocation(1, 16 * i)) for i in range(3)]
    method = Method(
        name="forward",
        values=[*tensors],
        inputs=[0],
        outputs=[1, 2],
        instructions=[KernelCall(0, (0, 1, 1)), KernelCall(1, (0, 2, 2))],
        operators=[Operator("project::twice", "out"), Operator("project::half", "out")],
        arenas=[48],
    )
    path = tmp_path_factory.mktemp("model") / "both.pte"
    path.write_bytes(to_bytes(Contents(methods=[method])))
    return path


@pytest.fixture(params=["checkout", "installed"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[str]]:
    """The folder of penlight-config.cmake, and options for CMake."""
    if request.param == "checkout":
        return PACKAGE, []
    native = ROOT / "build" / "native"
    if not (native / "penlight-runner").exists():
        pytest.skip("not built (make build)")
    # What a wheel has, laid out as where it is installed.
    cmake("--install", native, "--prefix", tmp_path / "site")
    shutil.copy(ROOT / "src" / "penlight" / "__init__.py", tmp_path / "site" / "penlight")
    share = tmp_path / "site" / "penlight" / "share"
    assert not list(share.rglob("*.o")) and not list(share.rglob("*.py"))
    # Without Python: the tables of kernels are in the package.
    return share / "cmake", ["-DCMAKE_DISABLE_FIND_PACKAGE_Python=ON"]


def test_core_with_operators_and_a_model(
    package: tuple[Path, list[str]], model: Path, tmp_path: Path
) -> None:
    build = tmp_path / "build"
    folder, options = package
    cmake("-S", HERE / "project", "-B", build, f"-Dpenlight_DIR={folder}", f"-DMODEL={model}", *options)
    cmake("--build", build, "--parallel", "2")
    printed = subprocess.run([build / "app"], capture_output=True, text=True)
    assert printed.stdout == "2 4 6 8 0.5 1 1.5 2 aligned 0\n"
    assert (build / "beside.pte").read_bytes() == model.read_bytes()

    # A changed model gets into the binary, and beside it, when the project is built again.
    model.write_bytes(model.read_bytes().replace(b"forward", b"froward"))
    cmake("--build", build)
    printed = subprocess.run([build / "app"], capture_output=True, text=True)
    assert "the program has no method forward" in printed.stdout
    assert (build / "beside.pte").read_bytes() == model.read_bytes()
    model.write_bytes(model.read_bytes().replace(b"froward", b"forward"))


def test_libraries_of_the_build_of_another_project(model: Path, tmp_path: Path) -> None:
    """They lie in its folder `penlight`, and what they were configured with in its own cache."""
    native, other = ROOT / "build" / "native", tmp_path / "other"
    if not (native / "penlight-runner").exists():
        pytest.skip("not built (make build)")
    (other / "penlight").mkdir(parents=True)
    for archive in native.glob("libpenlight_*.a"):
        (other / "penlight" / archive.name).symlink_to(archive)
    shutil.copy(native / "CMakeCache.txt", other)
    configure = ("-S", HERE / "project", "-B", tmp_path, f"-Dpenlight_DIR={PACKAGE}", f"-DMODEL={model}")
    cmake(*configure, f"-DPENLIGHT_BUILT={other / 'penlight'}")
    cmake("--build", tmp_path)
    printed = subprocess.run([tmp_path / "app"], capture_output=True, text=True)
    assert printed.stdout == "2 4 6 8 0.5 1 1.5 2 aligned 0\n"
    said = cmake(*configure, f"-DPENLIGHT_BUILT={tmp_path / 'nothing' / 'here'}", code=1)
    assert "PENLIGHT_BUILT: there is no build of Penlight in" in said


MISTAKES = {
    "too new": 'version "99.0"',
    "no file": "penlight_add_model: no such file: ",
    "no program": "is neither a program (.pte) nor a data file (.ptd)",
    "no target": "penlight_add_model: there is no target nothing",
    "no identifier": "penlight_add_model: NAME 2-nets is no identifier of C++; _2_nets would be",
    "unknown word": "penlight_add_model takes EMBED and NAME, not: EMBEDDED",
    "beside an archive": "penlight_add_model: archive has no binary to put ",
    "other folder": "misuse, which makes the target app",
    "no operators": "penlight_add_operators: name the C++ files of the operators of app",
    "no operator file": "penlight_add_operators: no such file: ",
}


def test_mistakes_are_answered(model: Path, tmp_path: Path) -> None:
    # One build folder, so that the compiler is looked for once.
    for case, message in MISTAKES.items():
        said = cmake(
            "-S", HERE / "misuse", "-B", tmp_path, f"-Dpenlight_DIR={PACKAGE}", f"-DMODEL={model}",
            f"-DCASE={case}", code=1,
        )  # fmt: skip
        assert message in said, case
