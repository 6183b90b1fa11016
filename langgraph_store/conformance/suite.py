"""What the parts of the suite share: how a store says where it differs, and how that is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import pytest
from langgraph.store.base import BaseStore

from langgraph_store.conformance.samples import MODES, Face

Test = TypeVar("Test", bound=Callable[..., Any])

OPTIONAL = frozenset({"index", "operators", "ttl"})
"""What a store may leave out: search by meaning, operators beyond BaseStore's six, and times to
live."""


class StoreTests:
    """The base of the suite: its tests, minus what a store says of itself.

    divergences: name of a test, or of one of its cases as `test_name[case]`, or of a test in one
    mode as `test_name[sync]` or `test_name[async]`, to the reason why the store does not pass it.
    Such a test is a strict xfail: once it passes, the entry has to go. unsupported: "index",
    "operators" or "ttl" to the reason why the store does without; those tests are skipped.

    An entry that names no test of the suite, or nothing optional, is an error.
    """

    divergences: ClassVar[Mapping[str, str]] = {}
    unsupported: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        unknown = [*(cls.divergences.keys() - _names(cls)), *(cls.unsupported.keys() - OPTIONAL)]
        if unknown:
            raise ValueError(f"{cls.__name__} names what the suite does not have: {unknown}")

    @pytest.fixture(params=MODES)
    def face(self, request: pytest.FixtureRequest, store: BaseStore) -> Face:
        """The store by its sync methods, then by its async ones."""
        return Face(store, request.param)

    @pytest.fixture(autouse=True)
    def _known(self, request: pytest.FixtureRequest) -> None:
        """Skip what the store does not support; expect to fail where it is known to differ."""
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
    """Mark a test of something that a store may leave out."""

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
