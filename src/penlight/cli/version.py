from __future__ import annotations

from penlight.cli.console import Json, out, print_json


def version(json: Json = False) -> None:
    """Print the version."""
    import penlight

    if json:
        print_json({"version": penlight.__version__})
    else:
        out.print(penlight.__version__)
