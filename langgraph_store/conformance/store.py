"""StoreSuite: all tests of a LangGraph store."""

from __future__ import annotations

from langgraph_store.conformance.batches import Batching
from langgraph_store.conformance.filters import Filtering
from langgraph_store.conformance.items import Keeping
from langgraph_store.conformance.lifetimes import Expiring
from langgraph_store.conformance.loops import Serving
from langgraph_store.conformance.meaning import MeaningSearching
from langgraph_store.conformance.namespaces import Naming


class StoreSuite(Keeping, Batching, Naming, Filtering, MeaningSearching, Expiring, Serving):
    """Tests the contract of BaseStore, and the behaviour that its users rely on.

    A subclass provides the fixture `factory`: a function that makes an empty store, with `index`
    and `ttl` as its configuration. Or it provides the fixture `store`: an empty store with
    `index=INDEX`. If it supports times to live, its reads must omit expired items.
    """
