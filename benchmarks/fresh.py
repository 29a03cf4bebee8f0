"""Is a compiled file up to date? It is not when whatever decides its content changed later."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def newest_source() -> float:
    """When the compiler, the operator table or a model's code was last changed."""
    compiler = (
        path
        for path in (ROOT / "src" / "penlight").rglob("*.py")
        if path.parent.name not in ("cli", "runtime")
    )
    models = (ROOT / "benchmarks" / "models").glob("*.py")
    return max(path.stat().st_mtime for path in [*compiler, *models, ROOT / "kernels" / "ops.yaml"])


def is_fresh(path: Path) -> bool:
    return path.exists() and path.stat().st_mtime >= newest_source()
