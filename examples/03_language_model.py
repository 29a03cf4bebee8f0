"""A language model of 135 million parameters answers a question.

    python examples/03_language_model.py [QUESTION]          needs `make models`

`prefill` reads the whole question, whatever its length; `decode` adds one word
at a time. Both write the same cache of keys and values, which is state of the
program: nothing is passed back and forth.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.models.compiled import Loaded, compiled
from benchmarks.models.smollm2 import QUESTION, generate


def main() -> None:
    question = " ".join(sys.argv[1:]) or QUESTION
    model = Loaded(compiled("smollm2"))
    print(question)
    start, count = time.perf_counter(), 0
    for piece in generate(model, question):
        print(piece, end="", flush=True)
        count += 1
    seconds = time.perf_counter() - start
    print(f"\n{count} tokens in {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
