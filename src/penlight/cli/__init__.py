"""The command `penlight`: one file a command; each parses, calls, prints.

Results go to standard output, progress and errors to standard error. Exit code
0 is done, 1 failed, 2 misused.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line of this process."""
    if sys.stdout is None:  # as it is where a process is begun without
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    from penlight.cli.app import app
    from penlight.cli.console import show_error
    from penlight.errors import InvalidInput, MethodNotFound, PenlightError, WriteFailed

    try:
        try:
            app(prog_name="penlight")
        finally:
            sys.stdout.flush()
    except PenlightError as error:
        show_error(error, as_json="--json" in sys.argv)
        raise SystemExit(2 if isinstance(error, (InvalidInput, MethodNotFound)) else 1) from None
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        _drop_output()
        raise SystemExit(1) from None
    except OSError:
        try:
            print(flush=True)  # is it standard output that takes no more?
        except OSError as error:
            _drop_output()
            failed = WriteFailed(
                "the results cannot be written", where="standard output", got=error.strerror,
                do="make room, or send them somewhere else",
            )  # fmt: skip
            show_error(failed, as_json=False)
            raise SystemExit(1) from None
        raise  # it was another file
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _drop_output() -> None:
    """What is still to be written goes nowhere, so that the end of the process does not try again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
