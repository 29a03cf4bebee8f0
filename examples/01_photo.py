"""A pretrained network, compiled into one small file, recognises a photo.

    python examples/01_photo.py [PHOTO...]          needs `make models`

The first run compiles EfficientNet-Lite0; later ones find the file and import
neither torch nor the compiler.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.fresh import ROOT, is_fresh

import penlight

FILE = ROOT / "build" / "models" / "efficientnet_lite0.pte"


def compile_network() -> None:
    from benchmarks.models import load

    model = load("efficientnet_lite0")
    program = penlight.compile(model.methods["forward"], model.example("forward"))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    program.save(FILE)


def pixels(path: str | Path, size: int = 224) -> np.ndarray[Any, Any]:
    """The middle of a photo as float32 [1, 3, size, size] in -1..1, as the network was trained."""
    from PIL import Image

    with Image.open(path) as opened:
        image = opened.convert("RGB")
    scale = size / 0.875 / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    middle = np.asarray(image.crop((left, top, left + size, top + size)), np.float32)
    return np.ascontiguousarray((middle / 127.5 - 1).transpose(2, 0, 1)[None])


def main() -> None:
    if not is_fresh(FILE):
        start = time.perf_counter()
        print("compiling EfficientNet-Lite0, once ...", file=sys.stderr)
        compile_network()
        print(f"wrote {FILE.relative_to(ROOT)} in {time.perf_counter() - start:.1f} s", file=sys.stderr)

    model = penlight.load(FILE)
    from benchmarks.packages import class_names, photo_path

    names = class_names()
    for photo in sys.argv[1:] or [photo_path("chelsea.png")]:
        image = pixels(photo)
        model(image)  # the first run also prepares the method
        start = time.perf_counter()
        scores = model(image)[0]
        ms = 1e3 * (time.perf_counter() - start)
        odds = np.exp(scores - scores.max())
        odds /= odds.sum()
        print(f"{Path(photo).name}, {ms:.1f} ms")
        for index in odds.argsort()[::-1][:5]:
            print(f"  {odds[index]:6.1%}  {names[index]}")
    sizes = FILE.stat().st_size / 1e6, model.program_size / 1e3, sum(model["forward"].arena_sizes) / 1e6
    print("file {:.1f} MB, of it program {:.1f} KB; arena {:.1f} MB".format(*sizes))


if __name__ == "__main__":
    main()
