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
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("batches", "filters", "items", "lifetimes", "loops", "meaning", "namespaces")
    )
)

from langgraph_store.conformance.samples import INDEX  # noqa: E402 # after the rewrite
from langgraph_store.conformance.store import StoreSuite  # noqa: E402

__all__ = ["INDEX", "StoreSuite"]
