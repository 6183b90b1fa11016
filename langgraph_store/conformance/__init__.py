"""A conformance suite for any implementation of LangGraph's BaseStore.

    from langgraph_store.conformance import INDEX, StoreSuite

    class TestMyStore(StoreSuite):
        divergences = {"test_a_zero_vector_scores_no_nan": "scores are NaN"}
        unsupported = {"ttl": "items never expire"}

        @pytest.fixture
        def store(self):
            with MyStore(index=INDEX) as store:
                yield store

Every test runs twice, with the sync and with the async methods. The suite needs langgraph, pytest,
and pytest-asyncio with `asyncio_mode = "auto"`. It loads nothing else of this project.

`python -m langgraph_store.conformance --store module:factory` runs it and writes a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from langgraph_store.conformance.samples import INDEX
    from langgraph_store.conformance.store import StoreSuite

TESTED = tuple(
    f"{__name__}.{name}"
    for name in ("batches", "filters", "items", "lifetimes", "loops", "meaning", "namespaces")
)
"""The modules with tests. pytest rewrites their assertions, so that failures explain themselves."""

pytest.register_assert_rewrite(*TESTED)

__all__ = ["INDEX", "StoreSuite"]


def __getattr__(name: str) -> object:
    # At first use: the command starts pytest before it imports the tests.
    if name == "INDEX":
        from langgraph_store.conformance.samples import INDEX

        return INDEX
    if name == "StoreSuite":
        from langgraph_store.conformance.store import StoreSuite

        return StoreSuite
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
