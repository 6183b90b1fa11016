"""Gives the rows of a run their privacy class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_core.core.domain import Privacy
from shared_core.knowledge.run_rows import RunRows
from shared_core.models.embedding import Embedding
from shared_core.nlp.text import language
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.privacy.classifier import class_by_example, private_by_words

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


async def add_privacy(embedding: Embedding, rows: RunRows, vectors: VectorRows | None) -> None:
    """Decide the class of each row that is not known to be private; unclear ones are private.

    vectors: of the rows, as they will be stored. The examples they are compared with are embedded
    at first need; hold no connection.
    """
    undecided = rows.undecided()
    classes: dict[ItemAddress, Privacy] = dict.fromkeys(undecided, "private")
    known: dict[ItemAddress, Vectors] = (
        dict(zip(vectors.addresses, vectors.vectors, strict=True)) if vectors else {}
    )
    unclear = {
        address: language(text)
        for address, text in undecided.items()
        if address in known and not private_by_words(text)
    }
    prototypes = {spoken: await embedding.prototypes(spoken) for spoken in set(unclear.values())}
    for address, spoken in unclear.items():
        classes[address] = class_by_example(known[address], prototypes[spoken])
    rows.classify(classes)
