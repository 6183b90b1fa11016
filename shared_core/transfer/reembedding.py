"""Change the embedding model while others read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from shared_core.core.domain import JsonValue
from shared_core.ingest.item_text import text_of
from shared_core.nlp.passages import without_data
from shared_core.nlp.text import has_words
from shared_core.policies.vectors import TEXT_FIELD, add_missing_vectors, passage_of
from shared_core.ports.indexes import EmbeddedField

if TYPE_CHECKING:
    from uuid import UUID

    from shared_core.lifecycle import Handle
    from shared_core.ports.indexes import Matrix
    from shared_core.ports.storage import Embedder, Storage

PAGE: Final = 200
DROPPED_AT_ONCE: Final = 5000

TextOfField: TypeAlias = Callable[[Mapping[str, JsonValue], str], str | None]


@dataclass(slots=True, kw_only=True)
class ReembedReport:
    """The result of a change of model.

    embedded: number of new vectors. left: fields without a vector, because their text is unknown
    or the model finds no meaning in it; words find them. dropped: deleted vectors of other models.
    """

    model: str
    embedded: int = 0
    left: int = 0
    dropped: int = 0


async def reembed(
    handle: Handle,
    embedder: Embedder,
    *,
    drop_old: bool,
    text_of_field: TextOfField | None,
    progress: Callable[[int], None] | None,
) -> ReembedReport:
    """Embed everything that has vectors with another model, then activate that model.

    engine.reembed() explains the arguments.
    """
    storage = await handle.storage()
    run = _Reembedding(storage, embedder, text_of_field, progress)
    dimensions = await run.begin()
    while await run.once_over():
        pass
    await storage.reembedding.set_model(embedder.model, dimensions, active=True)
    await run.once_over()  # memories stored between the last pass and the switch
    if drop_old:
        while dropped := await storage.reembedding.drop_old_vectors(
            embedder.model, DROPPED_AT_ONCE
        ):
            run.report.dropped += dropped
    return run.report


class _Reembedding:
    def __init__(
        self,
        storage: Storage,
        embedder: Embedder,
        text_of_field: TextOfField | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._storage = storage
        self._embedder = embedder
        self._text_of_field = text_of_field
        self._progress = progress
        self.report = ReembedReport(model=embedder.model)

    async def begin(self) -> int:
        """Register the model; return its dimensions."""
        [vector] = await self._embedder.embed_query("dimensions")
        await self._note(len(vector))
        return len(vector)

    async def _note(self, dimensions: int) -> None:
        model = self._embedder.model
        await self._storage.reembedding.set_model(model, dimensions, active=False)

    async def once_over(self) -> int:
        """Embed every field without a vector of the model; return the number of new vectors."""
        before, after = self.report.embedded, None
        self.report.left = 0
        while page := await self._page(after):
            await self._embed(page)
            after = page[-1].tenant, page[-1].memory_id
        return self.report.embedded - before

    async def _page(self, after: tuple[str, UUID] | None) -> Sequence[EmbeddedField]:
        return await self._storage.reembedding.embedded_otherwise(self._embedder.model, after, PAGE)

    async def _embed(self, page: Sequence[EmbeddedField]) -> None:
        texts = field_texts(page, self._text_of_field)
        with_words = [one for one in zip(page, texts, strict=True) if has_words(one[1])]
        if with_words:
            vectors = await self._embedder.embed_passages([text for _, text in with_words])
            kept = [place for place, vector in enumerate(vectors) if vector.any()]
            fields = [with_words[place][0] for place in kept]
            # Another process may have dropped the model as unused while it had no vector.
            await self._note(vectors.shape[1])
            made = await add_vectors(self._storage, self._embedder.model, fields, vectors[kept])
            self.report.embedded += made
            self.report.left += len(page) - len(kept)
            if self._progress:
                self._progress(self.report.embedded)
        else:
            self.report.left += len(page)


async def add_vectors(
    storage: Storage, model: str, fields: Sequence[EmbeddedField], vectors: Matrix
) -> int:
    """Add vectors of fields of any tenants as one transaction; return the number added.

    add_missing_vectors() tells which fields are left out.
    """
    places: dict[str, list[int]] = {}
    for place, one in enumerate(fields):
        places.setdefault(one.tenant, []).append(place)
    policies = {
        tenant: partial(add_missing_vectors, model, [fields[one] for one in own], vectors[own])
        for tenant, own in places.items()
    }
    return sum((await storage.transact_all(policies)).values())


def field_texts(fields: Sequence[EmbeddedField], text_of_field: TextOfField | None) -> list[str]:
    """Return the texts of fields of memories; "" for unknown ones."""
    whole: dict[UUID, str] = {}  # a file has up to 2,000 passages, which are cut from one text
    texts = []
    for one in fields:
        if one.field == TEXT_FIELD:
            texts.append(one.text)
        elif passage := passage_of(one.field):
            if one.memory_id not in whole:
                whole[one.memory_id] = without_data(text_of(one.value))
            texts.append(whole[one.memory_id][passage])
        else:
            texts.append((text_of_field(one.value, one.field) if text_of_field else None) or "")
    return texts
