"""Runs benchmarks at tiny sizes in the process of the tests, which has imported and loaded all."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import pytest
from embedded_users import copied_clusters

__all__ = ["Run", "copied_clusters", "refused", "run"]

Run: TypeAlias = Callable[..., Any]


@pytest.fixture
def run(monkeypatch, capsys, copied_clusters):
    """Runs a benchmark with arguments; returns the object in its last line.

    as_json: False for a table before that line, None for a benchmark that prints no object.
    """

    def report(name: str, *arguments: object, as_json: bool | None = True) -> Any:
        options = ["--json"] if as_json else []
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments), *options])
        import_module(f"benchmarks.{name}").main()
        printed = capsys.readouterr().out.splitlines()
        assert as_json is None or as_json == (len(printed) == 1)
        return None if as_json is None else json.loads(printed[-1])

    return report


@pytest.fixture
def refused(run, capsys):
    """Runs a benchmark with arguments that it refuses; returns the last line of its complaint."""

    def complaint(name: str, *arguments: object) -> str:
        with pytest.raises(SystemExit) as ended:
            run(name, *arguments)
        assert 2 == ended.value.code
        return capsys.readouterr().err.splitlines()[-1]

    return complaint
