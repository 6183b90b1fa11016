"""Every error this project raises on purpose.

MemoryCoreError
├── InvalidInput            the caller's value; also a ValueError
├── NotFound                what must exist does not; also a ValueError
├── Conflict                someone else changed it first; read again, then retry
├── SchemaOutOfDate         the database needs `hippocampus migrate`, or a newer library
├── CapabilityMissing       this engine cannot do it; never less data in silence
├── EmbeddingMismatch       stored vectors and the embedder do not fit together
├── StorageUnavailable      retryable: the database cannot be reached or used
└── ModelUnavailable        retryable: an embedder or a language model failed
    └── ModelOutputInvalid  it answered, and the answer cannot be used
"""

from __future__ import annotations


class MemoryCoreError(Exception):
    """Base of every error raised on purpose."""


class InvalidInput(MemoryCoreError, ValueError):
    """A value given by the caller cannot be used; the message names it and the way out."""


class NotFound(MemoryCoreError, ValueError):
    """What a call builds on is not there."""


class Conflict(MemoryCoreError):
    """Someone else changed the same thing first."""


class SchemaOutOfDate(MemoryCoreError):
    """The database schema and this library do not fit together."""


class CapabilityMissing(MemoryCoreError):
    """The storage engine in use cannot do what was asked."""


class EmbeddingMismatch(MemoryCoreError):
    """The embedder in use does not fit the vectors that are stored."""


class StorageUnavailable(MemoryCoreError):
    """The database cannot be reached or used now; the call may be retried."""


class ModelUnavailable(MemoryCoreError):
    """An embedder or a language model failed; the call may be retried."""


class ModelOutputInvalid(ModelUnavailable):
    """An embedder or a language model answered with something that cannot be used."""
