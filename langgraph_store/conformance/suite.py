"""The base of the suite: declares and checks the known differences of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import pytest
from langgraph.store.base import BaseStore

from langgraph_store.conformance.samples import MODES, Face

Test = TypeVar("Test", bound=Callable[..., Any])

OPTIONAL = frozenset({"index", "operators", "ttl"})
"""Optional features: search by meaning, operators beyond BaseStore's six, and times to live."""


class StoreTests:
    """The base of the suite, with the known differences of a store.

    divergences: maps a test to the reason for its failure. A key is `test_name`, one case as
    `test_name[case]`, or one mode as `test_name[sync]` or `test_name[async]`. Such a test is a
    strict xfail: remove the entry once it passes. unsupported: maps "index", "operators" or "ttl"
    to the reason for its absence; its tests are skipped.

    An entry with an unknown test or feature is an error.
    """

    divergences: ClassVar[Mapping[str, str]] = {}
    unsupported: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        unknown = [*(cls.divergences.keys() - _names(cls)), *(cls.unsupported.keys() - OPTIONAL)]
        if unknown:
            raise ValueError(
                f"divergences and unsupported of {cls.__name__} must name tests and features of the"
                f" suite, got {unknown}"
            )

    @pytest.fixture(params=MODES)
    def face(self, request: pytest.FixtureRequest, store: BaseStore) -> Face:
        """Return the store with its sync methods, then with its async methods."""
        return Face(store, request.param)

    @pytest.fixture(autouse=True)
    def _known(self, request: pytest.FixtureRequest) -> None:
        """Skip tests of unsupported features, and mark known divergences as xfail."""
        for feature in getattr(request.function, "needs", ()):
            if feature in self.unsupported:
                pytest.skip(f"no {feature}: {self.unsupported[feature]}")
        test = request.node.originalname
        case = request.node.name.removeprefix(test)[1:-1]
        bare = case
        for mode in MODES:
            bare = bare.removeprefix(f"{mode}-").removesuffix(f"-{mode}")
        modes = [mode for mode in MODES if mode in (case.split("-")[0], case.split("-")[-1])]
        for name in (test, f"{test}[{bare}]", *(f"{test}[{mode}]" for mode in modes)):
            if name in self.divergences:
                mark = pytest.mark.xfail(reason=self.divergences[name], strict=True)
                request.node.add_marker(mark)
                return


def needs(*features: str) -> Callable[[Test], Test]:
    """Mark a test of optional features."""

    def mark(test: Test) -> Test:
        test.needs = features  # type: ignore[attr-defined]
        return test

    return mark


def each(argument: str, cases: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test once for every case; its name is `test_name[case]`."""
    return pytest.mark.parametrize(argument, list(cases.values()), ids=list(cases))


def _names(suite: type[StoreTests]) -> set[str]:
    names = {name for name in dir(suite) if name.startswith("test_")}
    for name in list(names):
        names |= {f"{name}[{mode}]" for mode in MODES}
        for mark in getattr(getattr(suite, name), "pytestmark", []):
            names |= {f"{name}[{case}]" for case in mark.kwargs.get("ids", [])}
    return names
