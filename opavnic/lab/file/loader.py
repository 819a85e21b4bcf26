"""Read a lab file and report all its mistakes at once, each with file, line and path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from hfi_sim.fabric.faults import parse_fault, spec_text
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.model import LabModel
from opavnic.lab.file.parts import lab_model, part_problems
from opavnic.lab.file.problems import CrossError, cross_problems
from opavnic.lab.file.spread import spread_lab
from opavnic.lab.file.yaml_source import YamlError, YamlSource, read_text
from vema.em.desired.problems import Problem, model_problems

MAX_FILE_BYTES: Final = 1 << 20
KIND: Final = "lab file"


def load_lab(file: Path) -> LabModel:
    """Read and check a lab file.

    Raises:  ConfigError: one line for each mistake.
    """
    return parse_lab(read_text(file, MAX_FILE_BYTES, KIND), str(file))


def parse_lab(
    text: str,
    source: str,
    environment: Mapping[str, str] | None = None,
    refuse: Callable[[Mapping[str, Any]], list[Problem]] | None = None,
) -> LabModel:
    """Check the text of a lab file.

    Args:    source: names it in messages. environment: what `${NAME}` stands for; None: that of this process.
             refuse: says what of its data is not allowed, before anything is made of them.
    Raises:  ConfigError: one line for each mistake.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ConfigError([f"{source}:{line}: not text: half of a surrogate pair"]) from error
    try:
        document = YamlSource(text, KIND, os.environ if environment is None else environment)
    except YamlError as error:
        raise ConfigError([f"{source}:{error.line}: {error.reason}"]) from error
    if not isinstance(document.data, dict):
        empty = "it is empty; " if document.data is None else ""
        raise ConfigError(
            [f"{source}:1: {empty}a lab file is a mapping with name, hosts and vesws; see examples/"]
        )
    if "vesws" in document.data and not document.data.keys() & {"name", "hosts"}:
        line = document.line(("vesws",))
        raise ConfigError(
            [
                f"{source}:{line}: this is an EM file: opavnic em apply {source}; a lab file has name and hosts as well"
            ]
        )
    spread = spread_lab(document.data)
    problems = [*document.problems, *spread.problems]
    if not document.is_sound or spread.problems:  # further checks would report names that were never spread
        raise ConfigError(document.lines(source, problems))
    if refuse is not None and (refused := refuse(spread.data)):
        raise ConfigError(document.lines(source, spread.place(refused)))
    model = None
    try:
        model = lab_model().model_validate(spread.data)
    except ValidationError as error:
        problems += spread.place(_problems(error, spread.data))
    if model is not None:
        problems += spread.place(part_problems(model, Path(source).parent))
    if problems or model is None:
        raise ConfigError(document.lines(source, problems))
    return model


def _problems(error: ValidationError, data: Any) -> list[Problem]:
    for item in error.errors(include_url=False):
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, CrossError):
            return cause.problems
    return [*model_problems(error, lab_model(), data), *cross_problems(data)]


def losses(model: LabModel) -> list[str]:
    """Return the faults that the `loss` of links stands for, written as those of a running lab are."""
    fabric = model.fabric
    found: list[str] = fabric.link.losses("* direction=tx", "* direction=rx", "*")
    for link in fabric.topology.links or ():
        near, far = (end if ":" in end else f"{end}:1" for end in link.ends)
        found += link.losses(f"{near}->{far}", f"{far}->{near}", f"{near}--{far}")
    return [spec_text(parse_fault(fault)) for fault in found]
