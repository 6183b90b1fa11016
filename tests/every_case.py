"""Checks a table of labelled cases as one test, which names every case that fails."""

import inspect
import reprlib
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import pytest

FAILURES = (Exception, pytest.fail.Exception)
SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlist = SHOWN.maxtuple = 300


def every_case(*cases: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test with each case, and fail with the list of all cases that failed.

    A case is the first argument of the test, or a tuple of its first arguments; those of a table
    above it follow, and fixtures come last.
    A table costs one test instead of thousands. Parametrize what takes seconds a case, and what
    needs fixtures of its own.
    """
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(test)
        def check(*given: Any, **fixtures: Any) -> None:
            failed = []
            for row in rows:
                try:
                    test(*row, *given, **fixtures)
                except FAILURES as error:
                    failed.append(_told(row, error))
            _report(failed, len(rows))

        @wraps(test)
        async def check_async(*given: Any, **fixtures: Any) -> None:
            failed = []
            for row in rows:
                try:
                    await test(*row, *given, **fixtures)
                except FAILURES as error:
                    failed.append(_told(row, error))
            _report(failed, len(rows))

        made = check_async if inspect.iscoroutinefunction(test) else check
        taken = inspect.signature(test)
        rest = list(taken.parameters.values())[len(rows[0]) if rows else 1 :]
        made.__signature__ = taken.replace(parameters=rest)  # type: ignore[union-attr]
        return made

    return decorate


def _told(row: tuple[Any, ...], error: BaseException) -> str:
    case = ", ".join(map(SHOWN.repr, row))
    return f"{case}\n{type(error).__name__}: {error}".replace("\n", "\n    ")


def _report(failed: Sequence[str], count: int) -> None:
    assert count, "the table is empty"
    if failed:
        pytest.fail("\n- ".join([f"{len(failed)} of {count} cases fail:", *failed]), pytrace=False)
