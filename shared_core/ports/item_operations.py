"""The operations of the key-value face, as values: a batch is a sequence of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shared_core.core.domain import JsonValue, Namespace
from shared_core.ports.items import Item, ItemAddress, NamespaceQuery

Search: TypeAlias = Literal["vector", "hybrid", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadItem:
    """Read one item. refresh: give it its full time to live again, if it has one."""

    address: ItemAddress
    refresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FindItems:
    """Find items below a namespace: best first for a query, newest first without one.

    search: by meaning ("vector"), by words ("text"), or by both ("hybrid", as recall does).
    """

    prefix: Namespace
    query: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    refresh: bool = True
    search: Search = "vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteItem:
    """Write one item, or delete it when value is None.

    texts: field name to the text that is embedded and whose words are searched; None takes what the
    value says in words, an empty mapping keeps the item out of every search with a query. words:
    what is searched by words where that is not the texts. ttl_s: seconds to live, from when it is
    written.
    """

    address: ItemAddress
    value: Mapping[str, JsonValue] | None
    texts: Mapping[str, str] | None = None
    words: str | None = None
    ttl_s: float | None = None


ItemOp: TypeAlias = ReadItem | FindItems | NamespaceQuery | WriteItem
ItemResult: TypeAlias = "Item | Sequence[Item] | Sequence[Namespace] | None"
