"""The base of the suite: declares and checks the known differences of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar, TypeVar

import pytest
from langgraph.store.base import BaseStore

from langgraph_store.conformance.factories import Factory, opened
from langgraph_store.conformance.samples import INDEX, MODES, Face

Test = TypeVar("Test", bound=Callable[..., Any])

OPTIONAL = frozenset(
    {"async", "distances", "index", "operators", "sweeping", "sync", "sync_on_loop", "ttl"}
)
"""Optional features.

- sync, async: a way of calling the store.
- index: search by meaning. distances: by "l2" and "inner_product" as well.
- operators: of filters, beyond BaseStore's six.
- ttl: times to live. sweeping: without "omit_expired", items are read until sweep_ttl().
- sync_on_loop: sync calls on the event loop that opened the store. Without it they must raise
  asyncio.InvalidStateError, which is tested instead.
"""


class StoreTests:
    """The base of the suite, with the known differences of a store.

    divergences: maps a test to the reason for its failure. A key is `test_name`, one case as
    `test_name[case]`, or one mode as `test_name[sync]` or `test_name[async]`. Such a test is a
    strict xfail: remove the entry once it passes. unsupported: maps a feature of OPTIONAL to the
    reason for its absence; its tests are skipped.

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

    @pytest.fixture
    def factory(self) -> Factory | None:
        """Return a function that makes an empty store; `index` and `ttl` are its configuration.

        It may return a context manager or an async one, which yields the store. Without a factory
        the fixture `store` is needed, and tests of other configurations are skipped.
        """
        return None

    @pytest.fixture
    async def store(self, factory: Factory | None) -> AsyncIterator[BaseStore]:
        """Return an empty store with `index=INDEX` whose reads omit expired items."""
        if factory is None:
            raise TypeError("a subclass must have the fixture 'store' or 'factory'")
        async with opened(factory, BaseStore, index=INDEX, ttl={"omit_expired": True}) as store:
            yield store

    @pytest.fixture
    def configured(self, factory: Factory | None) -> Factory:
        """Return the factory, for an empty store with another configuration."""
        if factory is None:
            pytest.skip("the fixture 'factory' is missing")
        return lambda **options: opened(factory, BaseStore, **options)

    @pytest.fixture(params=MODES)
    def mode(self, request: pytest.FixtureRequest) -> str:
        """Return the way of calling the store."""
        mode = str(request.param)
        if mode in self.unsupported:
            pytest.skip(f"no {mode}: {self.unsupported[mode]}")
        return mode

    @pytest.fixture
    def face(self, mode: str, store: BaseStore) -> Face:
        """Return the store with its sync methods, then with its async methods."""
        return Face(store, mode)

    @pytest.fixture(autouse=True)
    def _known(self, request: pytest.FixtureRequest) -> None:
        """Skip tests of unsupported features, and mark known divergences as xfail."""
        for feature in getattr(request.function, "needs", ()):
            if feature in self.unsupported:
                pytest.skip(f"no {feature}: {self.unsupported[feature]}")
        instead = getattr(request.function, "instead_of", None)
        if instead is not None and instead not in self.unsupported:
            pytest.skip(f"{instead} is supported")
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


def instead_of(feature: str) -> Callable[[Test], Test]:
    """Mark a test of stores without an optional feature."""

    def mark(test: Test) -> Test:
        test.instead_of = feature  # type: ignore[attr-defined]
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
