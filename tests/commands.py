"""Runs commands of `hippocampus` in this process."""

import functools
from typing import Any

import typer.testing
from typer.testing import CliRunner, Result

from shared_core.cli.main import app

# To build the tree of commands takes 80 ms, and no command changes it.
typer.testing._get_command = functools.cache(typer.testing._get_command)


def run(*arguments: object, **options: Any) -> Result:
    """Return what a command printed and how it ended. options: of CliRunner.invoke."""
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


def succeed(*arguments: object, code: int = 0) -> str:
    """Return the output of a command that ends with this code."""
    ran = run(*arguments)
    assert code == ran.exit_code, ran.output
    return ran.stdout
