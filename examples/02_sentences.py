"""How alike are two sentences? all-MiniLM-L6-v2 answers, from one file.

python examples/02_sentences.py          needs `make models`
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.models.compiled import compiled
from benchmarks.models.minilm import tokens

import penlight

SENTENCES = ["A man is eating food.", "A man is having a meal.", "The stock market crashed today."]


def main() -> None:
    model = penlight.load(compiled("minilm"))
    vectors = []
    for sentence in SENTENCES:
        ids, mask = (part.numpy() for part in tokens(sentence))
        vectors.append(model(ids, mask)[0])
    first, *others = vectors
    print(SENTENCES[0])
    for sentence, vector in zip(SENTENCES[1:], others, strict=True):
        print(f"  {float(np.dot(first, vector)):5.2f}  {sentence}")


if __name__ == "__main__":
    main()
