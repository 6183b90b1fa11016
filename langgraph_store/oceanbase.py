"""The store of LangGraph on SeekDB or OceanBase."""

from __future__ import annotations

from typing import Any

from langgraph_store.store import PgHippocampusStore
from shared_core.errors import InvalidInput
from shared_core.settings import load_settings, redacted


class OceanBaseHippocampusStore(PgHippocampusStore):
    """PgHippocampusStore's sibling: the same store, its items in SeekDB or OceanBase.

    with OceanBaseHippocampusStore("seekdb:///data/memory") as store:
        graph.compile(store=store)

    uri: "seekdb:///folder", or "oceanbase://user@tenant#cluster:password@host:2881/database";
    HIPPOCAMPUS_URI is the default. options: those of PgHippocampusStore.
    Raises InvalidInput for another uri.
    """

    def __init__(self, uri: str | None = None, **options: Any) -> None:
        chosen = load_settings(uri).uri
        if options.get("engine") is None and not chosen.startswith(("seekdb://", "oceanbase://")):
            raise InvalidInput(
                f"OceanBaseHippocampusStore keeps its items in OceanBase, not in"
                f" {redacted(chosen)!r}: give 'seekdb:///folder' or 'oceanbase://...', or take"
                " PgHippocampusStore for PostgreSQL"
            )
        super().__init__(uri, **options)
