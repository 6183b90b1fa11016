"""`python -m langgraph_store.conformance --store module:factory`: reports how a store conforms."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from langgraph.store.base import BaseStore

from langgraph_store.conformance import TESTED
from langgraph_store.conformance.command import (
    BadInput,
    CommandParser,
    add_options,
    named_features,
    refused,
    report,
)
from langgraph_store.conformance.factories import BadFactory, load, probe, takes
from langgraph_store.conformance.report import distribution_of
from langgraph_store.conformance.suite import OPTIONAL

DESCRIPTION = """
Run the conformance suite against a store of LangGraph, and report what passed. The factory returns
a new, empty BaseStore, or a context manager or async context manager that yields one. Its
parameters `index` and `ttl`, if it has them, are LangGraph's configurations.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if a test failed, 2 for bad input."""
    parser = CommandParser(prog="python -m langgraph_store.conformance", description=DESCRIPTION)
    parser.add_argument("--store", metavar="MODULE:FACTORY", required=True, help="what is tested")
    add_options(parser)
    try:
        given = parser.parse_args(arguments)
        unsupported = named_features(given.unsupported, OPTIONAL)
        factory = load(given.store, "--store")
        store_type, found, package = asyncio.run(probe(factory, BaseStore, "--store", _look))
        if not takes(factory, "index"):
            found["distances"] = "its factory takes no index"
        if not takes(factory, "ttl"):
            found["sweeping"] = "its factory takes no ttl"
        return report(
            given,
            suite=Path(__file__).with_name("reported.py"),
            title="Conformance of a store of LangGraph",
            name=store_type,
            factory=factory,
            unsupported={**found, **unsupported},
            rewritten=TESTED,
            packages=[*package, "langgraph", "langgraph-checkpoint", "pg-hippocampus"],
        )
    except (BadInput, BadFactory) as error:
        return refused(error)


async def _look(store: BaseStore) -> tuple[str, dict[str, str], list[str]]:
    """Return the name of a store, what it says that it cannot do, and its package."""
    unsupported = {}
    if not store.supports_ttl:
        unsupported["ttl"] = "supports_ttl is false"
    try:
        store.get(("conformance",), "probe")
    except asyncio.InvalidStateError:
        unsupported["sync_on_loop"] = "raises InvalidStateError"
    except NotImplementedError:
        unsupported["sync"] = unsupported["sync_on_loop"] = "raises NotImplementedError"
    try:
        await store.aget(("conformance",), "probe")
    except NotImplementedError:
        unsupported["async"] = "raises NotImplementedError"
    package = distribution_of(store)
    return type(store).__name__, unsupported, [package] if package else []


if __name__ == "__main__":
    sys.exit(main())
