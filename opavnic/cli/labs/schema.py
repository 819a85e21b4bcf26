"""`opavnic schema`: the JSON schemas of lab files and EM files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from opavnic.cli.base.output import print_json


class FileKind(StrEnum):
    """A kind of file that has a schema."""

    LAB = "lab"
    EM = "em"


def schema(
    kind: Annotated[FileKind, typer.Argument(help="The kind of file.")] = FileKind.LAB,
) -> None:
    """Print the JSON schema of lab files or EM files, for editors (also in docs/*.schema.json).

    \b
    Example:
      opavnic schema lab > lab.schema.json
      opavnic schema em > em.schema.json
    """
    if kind is FileKind.EM:
        from vema.em.desired.desired import EmConfig

        print_json(EmConfig.model_json_schema())
        return
    from opavnic.lab.file.parts import lab_model

    print_json(lab_model().model_json_schema())
