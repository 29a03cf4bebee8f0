"""The command `penlight`: one file a command; each parses, calls, prints.

Results go to standard output, progress and errors to standard error. Exit code
0 is done, 1 failed, 2 misused.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process."""
    from penlight.cli.app import app
    from penlight.cli.console import show_error
    from penlight.errors import InvalidInput, MethodNotFound, PenlightError

    try:
        app(prog_name="penlight")
    except PenlightError as error:
        show_error(error, as_json="--json" in sys.argv)
        raise SystemExit(2 if isinstance(error, (InvalidInput, MethodNotFound)) else 1) from None
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        sys.stderr.close()
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
