"""LangChain's document compressors as rerankers of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from langchain_core.documents import BaseDocumentCompressor, Document

PLACE = "hippocampus_place"
"""Where a document says which text it is; compressors reorder, drop and copy documents."""
SCORE = "relevance_score"
"""Where LangChain's rerankers put the score of a document."""


class CompressorReranker:
    """A BaseDocumentCompressor as reranker, asked by its sync method, in a thread.

    Documents score as it tells in their metadata, or else by the place at which it returns them;
    one that it drops scores below all that it keeps.
    """

    def __init__(self, compressor: BaseDocumentCompressor) -> None:
        self._compressor = compressor

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each text."""
        documents = [
            Document(page_content=text, metadata={PLACE: place}) for place, text in enumerate(texts)
        ]
        kept = await asyncio.to_thread(self._compressor.compress_documents, documents, query)
        told = [document.metadata.get(SCORE) for document in kept]
        known = [float(score) for score in told if score is not None]
        if len(known) < len(kept):
            known = [float(len(kept) - place) for place in range(len(kept))]
        scores = [min(known, default=0.0) - 1.0] * len(texts)
        for document, score in zip(kept, known, strict=True):
            scores[document.metadata[PLACE]] = score
        return scores


def reranker(compressor: BaseDocumentCompressor) -> CompressorReranker:
    """Return a document compressor as reranker."""
    return CompressorReranker(compressor)
