"""Converts LangGraph's operations and items to those of the core, and back. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from langgraph_store.labels import check_labels, from_label, from_labels, to_labels, with_label_hint
from shared_core.core import MEMORIES, Namespace, check_json, shown
from shared_core.errors import InvalidInput
from shared_core.ports import (
    Distance,
    FindItems,
    Item as StoredItem,
    ItemOp,
    ItemResult,
    NamespaceQuery,
    ReadItem,
    Search,
    WriteItem,
)

SECONDS_PER_MINUTE = 60.0

Paths = Mapping[str, list[str]]
"""Field paths with their tokens."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a store reads: the kind of search, the distance of vectors, and expired items or not.

    search: None is "hybrid" in the shared memories namespace, and "vector" elsewhere.
    """

    search: Search | None
    distance: Distance
    with_expired: bool


class ScoredItem(SearchItem):
    """A search result with the parts of its score (shared_core.core.domain.Hit)."""

    __slots__ = ("score_parts",)

    def __init__(self, *, score_parts: Mapping[str, float], **fields: Any) -> None:
        super().__init__(**fields)
        self.score_parts = dict(score_parts)

    def dict(self) -> dict[str, Any]:
        """Return the item as JSON-compatible values, with its score_parts."""
        return {**super().dict(), "score_parts": self.score_parts}


def field_paths(fields: object) -> Paths:
    """Return LangGraph's field paths with their tokens. Raises InvalidInput for other values."""
    if isinstance(fields, str) or not isinstance(fields, list | tuple):
        raise InvalidInput(f"index must be False or a list of field paths, got {shown(fields)}")
    for path in fields:
        if not isinstance(path, str) or not path:
            raise InvalidInput(f"a field path must be a text that is not empty, got {shown(path)}")
    return {path: [] if path == "$" else tokenize_path(path) for path in fields}


def core_op(op: Op, fields: Paths | None, reading: Reading, *, later: bool = False) -> ItemOp:
    """Return the core's operation for an operation of LangGraph.

    fields: paths to embed if a put has none; None embeds all texts of a value. later: a job does,
    unless the put names paths.
    Raises InvalidInput or InvalidNamespaceError for an invalid operation.
    """
    labels: object = getattr(op, "namespace", getattr(op, "namespace_prefix", ()))
    check_labels(labels, "a namespace")
    try:
        validate_op_namespace(_with_tuples(op))
    except InvalidNamespaceError as error:
        raise with_label_hint(error) from None
    if isinstance(op, GetOp):
        return ReadItem(
            address=_address(op), refresh=op.refresh_ttl, with_expired=reading.with_expired
        )
    if isinstance(op, SearchOp):
        prefix = from_labels(op.namespace_prefix)
        return FindItems(
            prefix=prefix,
            query=op.query,
            filter={} if op.filter is None else op.filter,
            limit=op.limit,
            offset=op.offset,
            refresh=op.refresh_ttl,
            search=reading.search or ("hybrid" if prefix[2:3] == (MEMORIES,) else "vector"),
            distance=reading.distance,
            with_expired=reading.with_expired,
        )
    if isinstance(op, ListNamespacesOp):
        return _namespace_query(op, reading.with_expired)
    if isinstance(op, PutOp):
        return _write(op, fields, later=later)
    raise InvalidInput(f"{type(op).__name__} is not an operation of a LangGraph store")


def _address(op: GetOp | PutOp) -> tuple[Namespace, str]:
    key: object = op.key
    if not isinstance(key, str):
        raise InvalidInput(f"the key of an item must be a string, got {shown(key)}")
    return from_labels(op.namespace), key


def _write(op: PutOp, fields: Paths | None, *, later: bool) -> WriteItem:
    address = _address(op)
    if op.value is None:
        return WriteItem(address=address, value=None)
    if not address[0]:
        raise InvalidInput("an item needs a namespace of at least one label")
    ttl: object = op.ttl
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int | float)):
        raise InvalidInput(
            f"the time to live of {op.key!r} must be a number of minutes, got {shown(ttl)}"
        )
    paths = fields
    if op.index is not None:
        paths = {} if op.index is False else field_paths(op.index)
    return WriteItem(
        address=address,
        value=op.value,
        texts=None if paths is None else _texts(op, paths),
        ttl_s=None if op.ttl is None else _seconds(op.ttl),
        later=later,
    )


def _seconds(minutes: float) -> float:
    try:
        return minutes * SECONDS_PER_MINUTE
    except OverflowError:  # a whole number that no float can hold; the core refuses it
        return math.inf


def _texts(op: PutOp, tokens: Paths) -> dict[str, str]:
    try:
        return {
            f"{path}.{position}" if position else path: text
            for path, parts in tokens.items()
            for position, text in enumerate(get_text_at_path(op.value, parts))
        }
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        check_json(op.value, f"the value of {op.key!r} in {op.namespace}")
        raise InvalidInput(
            f"index {shown(list(tokens))} does not fit the value of {op.key!r}: name fields as"
            " 'title' or 'parts[*].text'"
        ) from error


def text_of_field(value: Mapping[str, Any], name: str) -> str | None:
    """Return the text that PostgresStore embedded for a vector.

    name: the field's path, or "path.0", "path.1", ... if the path has several texts.
    """
    found = get_text_at_path(value, tokenize_path(name))
    if len(found) == 1:
        return found[0]
    path, _, place = name.rpartition(".")
    if path and place.isdecimal():
        found = get_text_at_path(value, tokenize_path(path))
        if len(found) > 1 and int(place) < len(found):
            return found[int(place)]
    return None


def _with_tuples(op: Op) -> Op:
    """Return op with the bare strings in its match conditions as one-label paths."""
    if isinstance(op, ListNamespacesOp) and op.match_conditions:
        conditions = tuple(
            MatchCondition(condition.match_type, cast(Any, _path(condition)))
            for condition in op.match_conditions
        )
        return op._replace(match_conditions=conditions)
    return op


def _path(condition: MatchCondition) -> tuple[str, ...]:
    path: object = condition.path
    return (path,) if isinstance(path, str) else tuple(condition.path)


def _namespace_query(op: ListNamespacesOp, with_expired: bool) -> NamespaceQuery:
    paths: dict[str, list[tuple[str, ...]]] = {"prefix": [], "suffix": []}
    for condition in op.match_conditions or ():
        labels = tuple(label if label == "*" else from_label(label) for label in _path(condition))
        if condition.match_type not in paths:
            raise InvalidInput(
                f"match_type must be 'prefix' or 'suffix', got {shown(condition.match_type)}"
            )
        paths[condition.match_type].append(labels)
    return NamespaceQuery(
        prefixes=paths["prefix"],
        suffixes=paths["suffix"],
        max_depth=op.max_depth,
        limit=op.limit,
        offset=op.offset,
        with_expired=with_expired,
    )


def result_of(op: Op, result: ItemResult, *, score_parts: bool) -> Result:
    """Return LangGraph's result of an operation."""
    if isinstance(op, GetOp):
        return _item(result) if isinstance(result, StoredItem) else None
    if isinstance(op, SearchOp):
        items = cast("list[StoredItem]", result)
        return [_search_item(item, score_parts=score_parts) for item in items]
    if isinstance(op, ListNamespacesOp):
        return [to_labels(namespace) for namespace in cast("list[Namespace]", result)]
    return None


def _item(item: StoredItem) -> Item:
    return Item(
        value=dict(item.value),
        key=item.key,
        namespace=to_labels(item.namespace),
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _search_item(item: StoredItem, *, score_parts: bool) -> SearchItem:
    fields: dict[str, Any] = {
        "namespace": to_labels(item.namespace),
        "key": item.key,
        "value": dict(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "score": item.score,
    }
    if not score_parts:
        return SearchItem(**fields)
    parts = dict(item.parts)
    if item.similarity is not None:
        parts["similarity"] = item.similarity
    return ScoredItem(score_parts=parts, **fields)
