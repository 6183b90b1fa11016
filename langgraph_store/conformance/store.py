"""The whole suite for a LangGraph store."""

from __future__ import annotations

from langgraph_store.conformance.batches import Batching
from langgraph_store.conformance.filters import Filtering
from langgraph_store.conformance.items import Keeping
from langgraph_store.conformance.lifetimes import Expiring
from langgraph_store.conformance.loops import Serving
from langgraph_store.conformance.meaning import MeaningSearching
from langgraph_store.conformance.namespaces import Naming


class StoreSuite(Keeping, Batching, Naming, Filtering, MeaningSearching, Expiring, Serving):
    """What BaseStore promises, and what its users rely on, as tests.

    Give it a fixture `store`: an empty store of yours, made with `index=INDEX`, and, if it knows
    times to live, so that reads omit what has expired.
    """
