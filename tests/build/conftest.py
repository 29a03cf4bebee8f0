"""Programs and binaries that the tests of selective builds share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.build.models import MODELS, Make

import penlight
from penlight.build.build import BuildOptions, Built, build


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The .pte file of a model of MODELS."""
    folder = tmp_path_factory.mktemp("programs")

    def compiled(name: str) -> Path:
        path = folder / f"{name}.pte"
        if not path.exists():
            torch.manual_seed(0)
            make, inputs = MODELS[name]
            penlight.compile(make().eval(), inputs, target="portable").save(path)
        return path

    return compiled


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """build(), into a folder of the test."""

    def run(*models: Path, **options: Any) -> Built:
        return build(BuildOptions(models=models, output=tmp_path / "out", **options))

    return run
