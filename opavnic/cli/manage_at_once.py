"""`opavnic em run` as people and unit files mostly call it, without the library that reads command lines.

What is not of this form is left to the command in `opavnic.cli.manage.em`, which knows all forms and says what is
wrong.
"""

from __future__ import annotations

import gc
import sys

from opavnic.base.null_device_file import open_standard_streams
from opavnic.manager.run_options import plain_run


def manage_at_once(words: list[str]) -> None:
    """Run the manager that `words` ask for, and end this process; return if the command line has to be read in full."""
    wanted = plain_run(words)
    if wanted is None:
        return
    open_standard_streams()
    from opavnic.manager.start_run import start

    try:
        import opavnic.manager.run

        assert opavnic.manager.run  # noqa: S101 - imported before garbage is looked for
        gc.freeze()
        gc.enable()
        code = start(wanted)
    except Exception as error:
        from opavnic.cli.main import explain

        code = explain(words, error)
    sys.exit(code)
