"""`opavnic seed`: the number that the random streams of a running lab come from."""

from __future__ import annotations

from opavnic.cli.base.common import AsJson, LabOption, lab_client
from opavnic.cli.base.output import print_json, print_line


def seed(lab: LabOption = None, as_json: AsJson = False) -> None:
    """Print what the random streams of a running lab come from.

    \b
    Example:
      opavnic seed
    """
    from opavnic.state.fabric import SeedState

    found = lab_client(lab).read(SeedState, "/seed")
    if as_json:
        print_json(found.as_json())
    else:
        print_line(f"seed {found.seed}")
