"""Reads the configurations that LangGraph's stores take: index, times to live, pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from langchain_core.embeddings import Embeddings
from langgraph.store.base import IndexConfig, TTLConfig, ensure_embeddings

from langgraph_store.operations import Paths, field_paths
from shared_core import run_sync
from shared_core.core import shown
from shared_core.errors import InvalidInput
from shared_core.models import BUNDLED, resolve_embedder
from shared_core.ports import Distance, Embedder

_INDEX_KEYS: Final = ("dims", "embed", "fields", "distance_type", "ann_index_config")
_ANN_KEYS: Final = ("kind", "vector_type", "m", "ef_construction", "nlist")
_TTL_KEYS: Final = tuple(TTLConfig.__annotations__)
_POOL_KEYS: Final = ("min_size", "max_size", "kwargs")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """What an index configuration says.

    config: the configuration as given, or None. embedder: of the items, as open_memory() takes it.
    embeddings: the same as LangChain's object. fields: paths to embed; None embeds all texts.
    """

    config: IndexConfig | None = None
    embedder: object = None
    embeddings: Embeddings | None = None
    fields: Paths | None = None
    distance: Distance = "cosine"


def index_settings(index: IndexConfig | Literal[False] | None, *, later: bool) -> IndexSettings:
    """Return the settings of a configuration. Raises InvalidInput for one that cannot be used.

    later: a job embeds items, in whichever process, by what the database knows.
    """
    if index is False:
        return IndexSettings(fields={})
    if index is None:
        return IndexSettings()
    if later and (own := [name for name in ("embed", "fields") if index.get(name) is not None]):
        raise InvalidInput(
            f"embed_later and index[{own[0]!r}] exclude each other, because the worker that embeds"
            " knows no store: give the model to open_memory(embedder=...) or HIPPOCAMPUS_EMBEDDER,"
            " and fields to put(index=[...])"
        )
    _check_keys(index, "index", _INDEX_KEYS)
    given = cast("Mapping[str, Any]", index)
    if given.get("ann_index_config") is not None:
        _check_keys(given["ann_index_config"], "index['ann_index_config']", _ANN_KEYS)
    distance = given.get("distance_type", "cosine")
    if distance not in get_args(Distance):
        raise InvalidInput(
            f"index['distance_type'] {shown(distance)} is not known: take one of"
            f" {', '.join(get_args(Distance))}"
        )
    dims = given.get("dims")
    if dims is not None and (isinstance(dims, bool) or not isinstance(dims, int) or dims < 1):
        raise InvalidInput(f"index['dims'] must be a whole number above 0, got {shown(dims)}")
    fields = given.get("fields")
    embedder, embeddings = _embedders(given.get("embed"), dims, distance)
    return IndexSettings(
        config=index,
        embedder=embedder,
        embeddings=embeddings,
        fields=None
        if fields is None
        else field_paths([fields] if isinstance(fields, str) else fields),
        distance=distance,
    )


def _embedders(
    embed: object, dims: int | None, distance: Distance
) -> tuple[object, Embeddings | None]:
    """Return the embedder for open_memory(), and LangChain's object for it."""
    if embed is None and dims is not None:
        raise InvalidInput(
            f"index['dims'] {dims} needs 'embed': without it the model of the database decides"
        )
    if embed is None:
        return None, None
    if isinstance(embed, str) and embed not in BUNDLED and not embed.startswith("google:"):
        embed = _by_name(embed)
    embedder = resolve_embedder(embed, normalised=distance == "cosine")
    bundled = BUNDLED.get(embed) if isinstance(embed, str) else None
    if bundled is not None and dims not in (None, bundled.dimensions):
        raise _wrong_dims(dims, embed, bundled.dimensions)
    embeddings = embed if isinstance(embed, Embeddings) else MemoryEmbeddings(embedder)
    if bundled is None and dims is not None:
        embedder = SizedEmbedder(embedder, dims)
    return embedder, embeddings


def _by_name(name: str) -> Embeddings:
    """Return LangChain's embeddings by their name "provider:model"."""
    known = f"{', '.join(BUNDLED)}, 'google:MODEL'"
    if ":" not in name:
        raise InvalidInput(
            f"index['embed'] {shown(name)} is not known: take one of {known}, a model of LangChain"
            " as 'provider:model', LangChain's Embeddings, or a function"
        )
    try:
        return ensure_embeddings(name)
    except Exception as error:  # foreign code may raise anything
        raise InvalidInput(
            f"index['embed'] {shown(name)} cannot be loaded by LangChain: {error}; without it take"
            f" one of {known}"
        ) from error


def _wrong_dims(dims: int | None, model: object, found: int) -> InvalidInput:
    return InvalidInput(
        f"index['dims'] is {dims}, but vectors of {shown(model)} have {found} dimensions: set"
        f" 'dims' to {found}, or leave it out"
    )


class SizedEmbedder:
    """An embedder whose vectors must have as many dimensions as its caller said."""

    def __init__(self, embedder: Embedder, dims: int) -> None:
        self._embedder = embedder
        self._dims = dims

    @property
    def model(self) -> str:
        """The name of the vectors."""
        return self._embedder.model

    async def embed_passages(self, texts: Sequence[str]) -> Any:
        """Return the vectors of texts. Raises InvalidInput for another size than expected."""
        return self._checked(await self._embedder.embed_passages(texts))

    async def embed_query(self, text: str) -> Any:
        """Return the vector of a query, shape (1, dims). Raises as embed_passages() does."""
        return self._checked(await self._embedder.embed_query(text))

    def _checked(self, vectors: Any) -> Any:
        if vectors.shape[1] != self._dims:
            raise _wrong_dims(self._dims, self.model, int(vectors.shape[1]))
        return vectors


class MemoryEmbeddings(Embeddings):
    """An embedder of a memory, as an object of LangChain."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts that are stored."""
        return run_sync(self.aembed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return run_sync(self.aembed_query(text))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Do as embed_documents() from async code."""
        vectors = await self._embedder.embed_passages(texts)
        return cast("list[list[float]]", vectors.tolist())

    async def aembed_query(self, text: str) -> list[float]:
        """Do as embed_query() from async code."""
        return cast("list[float]", (await self._embedder.embed_query(text))[0].tolist())


def checked_ttl(ttl: TTLConfig | None) -> TTLConfig | None:
    """Return a configuration of times to live. Raises InvalidInput for an unknown key."""
    if ttl is not None:
        _check_keys(ttl, "ttl", _TTL_KEYS)
    return ttl


def checked_pool(pool_config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a pool configuration. Raises InvalidInput for one that cannot be used."""
    if pool_config is None:
        return {}
    _check_keys(pool_config, "pool_config", _POOL_KEYS)
    for name in ("min_size", "max_size"):
        size = pool_config.get(name)
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            raise InvalidInput(f"pool_config[{name!r}] must be a whole number, got {shown(size)}")
    if not isinstance(pool_config.get("kwargs") or {}, Mapping):
        raise InvalidInput("pool_config['kwargs'] must be a dict of connection options")
    return pool_config


def _check_keys(given: object, name: str, known: Sequence[str]) -> None:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{name} must be a dict, got {shown(given)}")
    if unknown := [key for key in given if key not in known]:
        raise InvalidInput(
            f"{name} has unknown keys {', '.join(map(shown, unknown))}: known are"
            f" {', '.join(known)}"
        )
