"""`opavnic completion`: scripts that let a shell complete commands, options, and names of running labs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from opavnic.cli.base.output import print_text

PROGRAM = "opavnic"
VARIABLE = "_OPAVNIC_COMPLETE"


class Shell(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print a script that completes commands, options, and the names of running labs, hosts and links.

    bash: ~/.local/share/bash-completion/completions/opavnic; zsh: _opavnic in a directory of $fpath; fish:
    ~/.config/fish/completions/opavnic.fish.

    \b
    Example:
      source <(opavnic completion bash)
      opavnic completion fish > ~/.config/fish/completions/opavnic.fish
    """
    import typer.completion as completion_scripts

    script: str = completion_scripts.get_completion_script(  # type: ignore[attr-defined]
        prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value
    )
    print_text(script.rstrip("\n") + "\n")
