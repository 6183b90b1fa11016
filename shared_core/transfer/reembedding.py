"""Change the embedding model while others read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from shared_core.core.domain import JsonValue
from shared_core.ingest.events import TEXT_FIELD
from shared_core.nlp.text import has_words
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.transfer import Unembedded

if TYPE_CHECKING:
    from uuid import UUID

    from shared_core.lifecycle import Handle
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
    await storage.reembedding.activate_model(embedder.model, dimensions)
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
        await self._storage.reembedding.begin_model(self._embedder.model, len(vector))
        return len(vector)

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
        texts = [(one, field_text(one, self._text_of_field)) for one in page]
        with_words = [(one, text) for one, text in texts if has_words(text)]
        if with_words:
            vectors = await self._embedder.embed_passages([text for _, text in with_words])
            kept = [place for place, vector in enumerate(vectors) if vector.any()]
            fields = [with_words[place][0] for place in kept]
            made = await self._storage.reembedding.add_reembedded(
                self._embedder.model, fields, vectors[kept]
            )
            self.report.embedded += made
            self.report.left += len(page) - len(kept)
            if self._progress:
                self._progress(self.report.embedded)
        else:
            self.report.left += len(page)


def field_text(one: EmbeddedField | Unembedded, text_of_field: TextOfField | None) -> str:
    """Return the text of a field of a memory; "" if it is unknown."""
    if one.field == TEXT_FIELD:
        return one.text
    return (text_of_field(one.value, one.field) if text_of_field else None) or ""
