"""Embed stored texts and queries, and declare the model to the storage at first use."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from shared_core.core.failure_reason import reason
from shared_core.core.telemetry import EMBEDDED_TEXTS, Attributes, operation
from shared_core.errors import EmbeddingMismatch, ModelUnavailable
from shared_core.models.embedders import BundledEmbedder, default_embedder, embedder_of
from shared_core.nlp.text import Language
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.storage import Embedder, Storage
from shared_core.privacy.classifier import Prototypes, examples, prototypes_of

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors

log = logging.getLogger("hippocampus")


class Embedding:
    """An embedder bound to a storage. No connection is held while the model works.

    embedder: None takes the one whose vectors the database holds, and for a database without any
    the default of new ones. offered: instead of that default, and where the database names it.
    may_stand_beside: whether its vectors may stand beside those of the model in use, which then
    stays in use.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        storage: Storage,
        *,
        offered: Embedder | None = None,
        may_stand_beside: bool = False,
    ) -> None:
        self._embedder = embedder
        self._is_given = embedder is not None
        self._storage = storage
        self._offered = offered
        self._may_stand_beside = may_stand_beside
        self._dimensions: int | None = None
        self._stored_model: str | None = None
        self._prototypes: dict[Language, Prototypes] = {}

    async def model(self) -> str:
        """Return the name of the vectors. Raises EmbeddingMismatch as embedder() does."""
        return (await self.embedder()).model

    async def known_model(self) -> str | None:
        """Return the name of the vectors, or None where there are none yet. Loads no model."""
        if self._embedder is not None:
            return self._embedder.model
        if self._stored_model is None and (stored := await self._storage.active_model()):
            self._stored_model = stored[0]
        return self._stored_model

    async def embedder(self) -> Embedder:
        """Return the embedder in use; the first call may read its name in the open storage.

        Raises EmbeddingMismatch if the vectors are of a model that cannot be loaded by its name.
        """
        if self._embedder is None:
            stored = await self._storage.active_model()
            if stored is not None and (known := self._known_as(stored[0])):
                self._embedder, self._dimensions = known, stored[1]
                return known
            if stored is None and self._offered is not None:
                self._embedder = self._offered
                return self._embedder
            embedder = await default_embedder()
            if stored is not None:
                await self._replace(*stored, embedder)
            self._embedder = embedder
        return self._embedder

    def _known_as(self, model: str) -> Embedder | None:
        if self._offered is not None and self._offered.model == model:
            return self._offered
        return embedder_of(model)

    async def _replace(self, model: str, dimensions: int, embedder: BundledEmbedder) -> None:
        """Let another model take the place of a model that has no vectors yet."""
        try:
            await self._storage.use_model(embedder.model, embedder.dimensions)
        except EmbeddingMismatch as error:
            raise EmbeddingMismatch(
                f"the stored vectors were made by {model!r} ({dimensions} dimensions), a model that"
                " cannot be loaded by its name: open the memory with the embedder that made them,"
                " or change the model with 'hippocampus reembed'"
            ) from error

    async def has_changed(self) -> bool:
        """Tell whether the model of the database is another one by now, and follow it.

        Raises EmbeddingMismatch where the memory was opened with an embedder.
        """
        stored = await self._storage.active_model()
        if stored is None or self._embedder is None or stored[0] == self._embedder.model:
            return False
        if self._is_given:
            await self._storage.use_model(self._embedder.model, self._dimensions or 0)
            return False  # nothing holds the other model's vectors, so it has given way
        self._embedder = self._dimensions = self._stored_model = None
        return True

    async def adopt(self, model: str) -> None:
        """Take the model of imported vectors, if it is bundled and nothing else decides.

        An embedder that the memory was opened with decides, and vectors that are here already.
        """
        if self._embedder is None and await self._storage.active_model() is None:
            self._embedder = embedder_of(model)

    async def load(self, *, is_open: bool) -> None:
        """Load a model that runs in this process; other embedders have nothing to load.

        is_open: whether the storage is open. Before it is, a memory without an embedder of its own
        loads the model that it most likely has.
        """
        if self._embedder is None and not is_open:
            await default_embedder()
        elif isinstance(embedder := await self.embedder(), BundledEmbedder):
            await embedder.load()

    async def rows(
        self,
        texts: Sequence[tuple[ItemAddress, str, str]],
        embedded: dict[str, Vectors] | None = None,
    ) -> VectorRows | None:
        """Return the vectors of (address, field, text) triples in one batch, or None if there are
        none.

        Zero vectors are left out: they are near to nothing. embedded: vectors of earlier calls by
        text; new ones are added.
        """
        if not texts:
            return None
        vectors = await self.passages([text for _, _, text in texts], embedded)
        kept = [place for place, vector in enumerate(vectors) if vector.any()]
        if not kept:
            return None
        if len(kept) < len(texts):
            vectors, texts = vectors[kept], [texts[place] for place in kept]
        return VectorRows(
            model=await self.model(),
            addresses=[address for address, _, _ in texts],
            fields=[field for _, field, _ in texts],
            vectors=vectors,
        )

    async def passages(
        self, texts: Sequence[str], embedded: dict[str, Vectors] | None = None
    ) -> Vectors:
        """Return the vectors of texts as memories have them, shape (texts, dimensions).

        embedded: vectors of earlier calls by text; new ones are added.
        """
        embedded = {} if embedded is None else embedded
        if unknown := [text for text in dict.fromkeys(texts) if text not in embedded]:
            embedder = await self.embedder()
            vectors = await self._measured(embedder.embed_passages(unknown), len(unknown))
            await self._declare(vectors)
            embedded.update(zip(unknown, vectors, strict=True))
        import numpy as np

        return np.stack([embedded[text] for text in texts])

    async def query(self, text: str) -> Vectors | None:
        """Return the vector of a query, shape (1, dimensions), or None for a zero vector."""
        embedder = await self.embedder()
        vector = await self._measured(embedder.embed_query(text), 1)
        await self._declare(vector)
        return vector if vector.any() else None

    async def query_or_words(self, text: str) -> tuple[Vectors | None, bool]:
        """Return the vector of a query, and whether the embedder is down, so that only words can
        match."""
        try:
            return await self.query(text), False
        except ModelUnavailable as error:
            log.warning("recall uses words only, because the embedder failed: %s", error)
            return None, True

    async def prototypes(self, lang: Language) -> Prototypes | None:
        """Return the embedded examples of both privacy classes, or None with a warning on failure.

        They are embedded on first use and kept, those of a bundled model for the whole process;
        two concurrent first calls embed them twice.
        """
        try:
            embedder = await self.embedder()
            kept = self._prototypes
            if isinstance(embedder, BundledEmbedder):
                kept = _prototypes_of_bundled.setdefault(embedder.model, {})
            if lang not in kept:
                vectors = await embedder.embed_passages(examples(lang))
                kept[lang] = prototypes_of(lang, vectors)
        except Exception as error:  # noqa: BLE001 # code of a caller; it must not stop a run
            what = "every text counts as private: embedder %r failed on the examples: %s"
            log.warning(what, await self.known_model(), reason(error))
            return None
        return kept[lang]

    async def _measured(self, embedding: Awaitable[Vectors], texts: int) -> Vectors:
        model = {"gen_ai.request.model": await self.model()}
        about: Attributes = {
            **model, "gen_ai.operation.name": "embeddings", EMBEDDED_TEXTS.name: texts,
        }  # fmt: skip
        with operation("embed", about):
            vectors = await embedding
        EMBEDDED_TEXTS.add(texts, model)
        return vectors

    async def _declare(self, vectors: Vectors) -> None:
        dimensions = int(vectors.shape[1])
        if self._dimensions is None:
            try:
                await self._storage.use_model(await self.model(), dimensions)
            except EmbeddingMismatch:
                if not self._may_stand_beside:
                    raise
                model, stored = await self.model(), await self._storage.active_model()
                await self._storage.add_model(model, dimensions)
                log.warning(
                    "items have vectors of %r beside those of %r, the model of the database: what"
                    " was put with another model is not found by meaning until it is put again",
                    model, stored and stored[0],
                )  # fmt: skip
            self._dimensions = dimensions
        elif dimensions != self._dimensions:
            raise EmbeddingMismatch(
                f"embedder {await self.model()!r} returned {dimensions} dimensions after"
                f" {self._dimensions}: one name must stand for one model"
            )


_prototypes_of_bundled: dict[str, dict[Language, Prototypes]] = {}
