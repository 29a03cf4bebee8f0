"""The tree's one-way order, and what its parts may not need or say."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "penlight"
NATIVE = ROOT / "build" / "native"

# A folder imports only from folders before it.
PYTHON_LAYERS = [
    *(
        "errors",
        "ir",
        "program",
        "kernels",
        "passes",
        "dialects",
        "quant",
        "delegate",
        "flatten",
        "memory",
        "emitter",
    ),
    *("runtime", "pipeline", "backends", "build", "ops", "device", "devtools", "cli"),
]
CPP_LAYERS = ["core", "plugin", "program", "kernel", "backend", "exec", "trace", "platform", "hosted"]

# What the runtime asks of the C library; a bare-metal program brings its own.
CORE_SYMBOLS = {"memcpy", "memmove", "memset", "memcmp", "strlen", "strcmp", "_GLOBAL_OFFSET_TABLE_"}
ALLOCATION = re.compile(
    r"^_?(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|_Zn[wa].*|_Zd[la].*|__cxa_.*|__gxx_.*|_Unwind.*|_ZSt.*)$"
)


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, also inside functions, with its line."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    package = parts if path.name == "__init__.py" else parts[:-1]
    if path.name == "__init__.py":
        package = parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def layer_of(module: str) -> str | None:
    """The layer that `penlight.<layer>...` names; "" for the package itself."""
    parts = module.split(".")
    if parts[0] != "penlight":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in PYTHON_LAYERS else ""


def python_files() -> list[Path]:
    return [
        path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE or path.stem in PYTHON_LAYERS
    ]


def test_every_folder_of_the_package_has_a_place_in_the_order() -> None:
    names = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    names |= {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}
    assert names <= set(PYTHON_LAYERS)


def test_python_imports_point_one_way() -> None:
    wrong = []
    for path in python_files():
        relative = path.relative_to(PACKAGE)
        layer = relative.parts[0].removesuffix(".py")
        # The command line speaks for a user, who imports the package itself.
        allowed = set(PYTHON_LAYERS[: PYTHON_LAYERS.index(layer) + 1]) | ({""} if layer == "cli" else set())
        if layer == "runtime":
            allowed = {"errors", "runtime"}
        for line, module in imports_of(path):
            target = layer_of(module)
            if target is not None and target not in allowed:
                wrong.append(f"{relative}:{line}: {layer} imports {module}")
    assert wrong == []


@pytest.mark.parametrize("folder", ["runtime", "errors.py"])
def test_runtime_imports_no_torch(folder: str) -> None:
    place = PACKAGE / folder
    files = [place] if place.suffix else sorted(place.rglob("*.py"))
    found = [
        f"{path.name}:{line}: {module}"
        for path in files
        for line, module in imports_of(path)
        if module.split(".")[0] == "torch"
    ]
    assert found == []


def test_runtime_works_where_torch_is_not_installed() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import penlight\n"
        "assert 'numpy' not in sys.modules, 'import penlight alone imports numpy'\n"
        "import penlight.runtime\n"
        "heavy = {'yaml', 'typer', 'rich', 'flatbuffers', 'sympy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "penlight.load\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def cpp_files(*folders: str) -> list[Path]:
    return [p for f in folders for p in sorted((ROOT / f).rglob("*")) if p.suffix in (".h", ".cpp")]


def includes_of(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Each include with its line, and whether it was written with angle brackets."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line):
            yield number, match[2], match[1] == "<"


def owner_of(path: Path, included: str) -> str:
    """The folder an include with quotes comes from: "core", "kernels/common", ..."""
    for base in (path.parent, ROOT / "runtime", ROOT):
        if (base / included).exists():
            parts = (base / included).resolve().relative_to(ROOT).parts
            return parts[1] if parts[0] == "runtime" else "/".join(parts[:2])
    return f"nowhere ({included})"


def test_cpp_includes_point_one_way() -> None:
    wrong = []
    for path in cpp_files("runtime", "kernels"):
        relative = path.relative_to(ROOT)
        if relative.parts[1] == "compatible":
            continue  # other projects' headers, for files that use the C++ library themselves
        if relative.parts[0] == "kernels":
            allowed = {"kernels/common", "/".join(relative.parts[:2])}
        elif relative.parts[1] == "include":
            allowed = set()
        else:
            allowed = set(CPP_LAYERS[: CPP_LAYERS.index(relative.parts[1]) + 1])
        for line, included, angled in includes_of(path):
            if not angled and owner_of(path, included) not in allowed:
                wrong.append(f"{relative}:{line}: {included} is from {owner_of(path, included)}")
            # A header of the C++ library may not even exist on a bare-metal target.
            if angled and "." not in included and (relative.parts[1], included) != ("hosted", "new"):
                wrong.append(f"{relative}:{line}: <{included}> is of the C++ standard library")
    assert wrong == []


def built(name: str) -> Path:
    path = NATIVE / name
    if not path.exists():
        pytest.skip(f"{name} is not built (make build)")
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    return path


def symbols(*command: str | Path) -> set[str]:
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {
        line.split()[-1].split("@")[0] for line in printed.splitlines() if line and not line.endswith(":")
    }


def undefined(path: Path) -> set[str]:
    return symbols("nm", "-u", path) - symbols("nm", "--defined-only", path)


def is_sanitized() -> bool:
    cache = NATIVE / "CMakeCache.txt"
    return cache.exists() and "PENLIGHT_SANITIZE:BOOL=ON" in cache.read_text()


def test_core_asks_for_little_and_never_for_memory() -> None:
    if is_sanitized():
        pytest.skip("sanitizers add symbols of their own")
    needed = undefined(built("libpenlight_core.a"))
    if sys.platform == "darwin":
        needed = {name.removeprefix("_") for name in needed}
    assert needed <= CORE_SYMBOLS


@pytest.mark.parametrize(
    "library", ["libpenlight_portable.a", "libpenlight_optimized.a", "libpenlight_kernel_common.a"]
)
def test_kernels_never_allocate(library: str) -> None:
    assert [name for name in undefined(built(library)) if ALLOCATION.match(name)] == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF symbols")
def test_shared_library_shows_pl_only_and_needs_no_cpp_library() -> None:
    if is_sanitized():
        pytest.skip("sanitizers add symbols of their own")
    built("libpenlight_hosted.a")
    library = PACKAGE / "runtime" / "libpenlight.so"
    exported = symbols("nm", "-D", "--defined-only", library)
    assert exported
    assert [name for name in exported if not name.startswith("pl_")] == []
    needed = symbols("nm", "-D", "-u", library)
    assert [name for name in needed if name.startswith(("_Z", "__cxa_t", "__gxx"))] == []


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_large_file_is_tracked() -> None:
    large = [path.name for path in tracked_files() if path.stat().st_size > 1_000_000]
    assert large == []


def test_the_project_names_no_machine() -> None:
    place = re.compile(
        rb"(?<![\w.~}])/(?:work|root|home|opt)/\w|/tmp/penlight\b|pythonhosted|\bpypi\.org|download\.pytorch"
    )
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked_files()
        if path != Path(__file__).resolve() and (match := place.search(path.read_bytes()))
    ]
    assert found == []


def test_links_of_the_documents_lead_somewhere() -> None:
    broken = []
    for path in tracked_files():
        if path.suffix != ".md":
            continue
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if not link.startswith(("http:", "https:")) and not (path.parent / link).exists():
                broken.append(f"{path.relative_to(ROOT)}: {link}")
    assert broken == []
