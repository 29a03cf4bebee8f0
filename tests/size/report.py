"""Build the smallest program over the runtime and print its size against the bars."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "size"
KB = 1024
TEXT_BAR, FILE_BAR = 32 * KB, 40 * KB
PEER_TEXT, PEER_FILE = 35_096, 44_192  # ExecuTorch, its verification and logging off


def build() -> None:
    quiet = {"stdout": subprocess.DEVNULL}
    subprocess.run(["cmake", "-S", HERE, "-B", BUILD, "-DCMAKE_BUILD_TYPE="], check=True, **quiet)
    subprocess.run(["cmake", "--build", BUILD, "--parallel", "2"], check=True, **quiet)


def text_bytes(program: Path) -> int:
    """Bytes of code and constants, the first column that `size` prints."""
    printed = subprocess.run(["size", program], check=True, capture_output=True, text=True).stdout
    return int(printed.splitlines()[1].split()[0])


def main() -> int:
    build()
    rows = []
    for messages, label in ((0, "status codes alone"), (1, "with messages")):
        program = BUILD / f"size_{messages}"
        text = text_bytes(program) if shutil.which("size") else 0
        rows.append({"build": label, "text": text, "file": os.path.getsize(program)})
    if "--json" in sys.argv:
        print(json.dumps(rows))
    else:
        print("runtime without kernels, linked into a program that loads a file and executes a method,")
        print("all of the file verified, one loader, prim operators; -Os, stripped, in bytes\n")
        print(f"{'':24}{'text':>10}{'file':>10}")
        for row in rows:
            print(f"{row['build']:24}{row['text']:>10,}{row['file']:>10,}")
        print(f"{'bar':24}{TEXT_BAR:>10,}{FILE_BAR:>10,}")
        print(f"{'ExecuTorch 1.5.1':24}{PEER_TEXT:>10,}{PEER_FILE:>10,}   (logging and verification off)")
    return int(any(row["text"] > TEXT_BAR or row["file"] > FILE_BAR for row in rows))


if __name__ == "__main__":
    sys.exit(main())
