"""Photos that ship in packages, and the names of ImageNet's classes. Needs no torch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PHOTOS = {
    "chelsea.png": "skimage/data",
    "coffee.png": "skimage/data",
    "astronaut.png": "skimage/data",
    "flower.jpg": "sklearn/datasets/images",
    "china.jpg": "sklearn/datasets/images",
}


class PackageMissing(RuntimeError):
    """A package with weights or photos is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"package {name} is not installed; `make models` installs all of them")


def folder(package: str) -> Path:
    """Where `package` is installed; the package is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise PackageMissing(package)
    return Path(next(iter(spec.submodule_search_locations)))


def photo_path(name: str) -> Path:
    package, *rest = _PHOTOS[name].split("/")
    return folder(package).joinpath(*rest, name)


def class_names() -> list[str]:
    """The 1,000 ImageNet classes in the order of a classifier's outputs."""
    data = folder("timm") / "data" / "_info"
    words = dict(
        line.split("\t", 1) for line in (data / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    )
    order = (data / "imagenet_synsets.txt").read_text().split()
    return [words[synset].split(",")[0] for synset in order]
