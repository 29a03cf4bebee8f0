from __future__ import annotations

from penlight.cli import main

main()
