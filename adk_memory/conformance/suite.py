"""The base of both suites: declares and checks the known differences of a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


class ServiceTests:
    """The base of a suite, with the known differences of a service.

    divergences: maps a test, or one of its cases as `test_name[case]`, to the reason for its
    failure. Such a test is a strict xfail: remove the entry once it passes. unsupported: maps an
    optional method to the reason for its absence. Its tests are skipped, and the method must raise
    NotImplementedError.

    An entry with an unknown test or method is an error.
    """

    divergences: ClassVar[Mapping[str, str]] = {}
    unsupported: ClassVar[Mapping[str, str]] = {}
    optional: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        unknown = [
            *(cls.divergences.keys() - _names(cls)),
            *(cls.unsupported.keys() - cls.optional),
        ]
        if unknown:
            raise ValueError(
                f"divergences and unsupported of {cls.__name__} must name tests and methods of the"
                f" suite, got {unknown}"
            )

    @pytest.fixture(autouse=True)
    def _known(self, request: pytest.FixtureRequest) -> None:
        """Skip tests of unsupported methods, and mark known divergences as xfail."""
        for method in getattr(request.function, "needs", ()):
            if method in self.unsupported:
                pytest.skip(f"no {method}: {self.unsupported[method]}")
        for name in (request.node.name, request.node.originalname):
            if name in self.divergences:
                mark = pytest.mark.xfail(reason=self.divergences[name], strict=True)
                request.node.add_marker(mark)
                return


def needs(*methods: str) -> Callable[[Test], Test]:
    """Mark a test that calls optional methods of a service."""

    def mark(test: Test) -> Test:
        test.needs = methods  # type: ignore[attr-defined]
        return test

    return mark


def each(argument: str, cases: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test once for every case; its name is `test_name[case]`."""
    return pytest.mark.parametrize(argument, list(cases.values()), ids=list(cases))


def _names(suite: type[ServiceTests]) -> set[str]:
    names = {name for name in dir(suite) if name.startswith("test_")}
    for name in list(names):
        for mark in getattr(getattr(suite, name), "pytestmark", []):
            names |= {f"{name}[{case}]" for case in mark.kwargs.get("ids", [])}
    return names
