"""Every error this project raises on purpose.

MemoryCoreError
├── InvalidInput            the caller's value; also a ValueError
├── NotFound                what must exist does not; also a ValueError
├── Conflict                someone else changed it first; read again, then retry
├── SchemaOutOfDate         the database needs `hippocampus migrate`, or a newer library
├── CapabilityMissing       this engine cannot do it; never less data in silence
├── EmbeddingMismatch       stored vectors and the embedder do not fit together
├── StorageUnavailable      retryable: the database cannot be reached or used
│   └── StorageReadOnly     it can be read and not written: a standby, or a role that only reads
├── ModelUnavailable        retryable: an embedder or a language model failed
│   └── ModelOutputInvalid  it answered, and the answer cannot be used
└── BatchError              some operations of a batch failed, the others are done
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


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


class StorageReadOnly(StorageUnavailable):
    """The database can be read and not written: a hot standby, or a role that only reads."""


class ModelUnavailable(MemoryCoreError):
    """An embedder or a language model failed; the call may be retried."""


class ModelQuotaExceeded(ModelUnavailable):
    """A model takes no more for now: too many requests, or a quota is used up. Wait, then retry.

    retry_after_s: after so many seconds, if the model said so.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelOutputInvalid(ModelUnavailable):
    """An embedder or a language model answered with something that cannot be used."""


class BatchError(ExceptionGroup[Exception], MemoryCoreError):
    """Some operations of a batch failed; every other one is done, and its result is here.

    errors: position in the batch to what went wrong there. results: one for each operation, in
    order, None where it failed. As an exception group it also works with `except*`.
    """

    errors: Mapping[int, Exception]
    results: Sequence[object]

    def __new__(cls, errors: Mapping[int, Exception], results: Sequence[object]) -> BatchError:
        shown = "; ".join(f"[{place}] {error}" for place, error in sorted(errors.items())[:3])
        more = "; ..." if len(errors) > 3 else ""
        message = f"{len(errors)} of {len(results)} operations failed, the others are done: "
        made = super().__new__(cls, message + shown + more, [errors[n] for n in sorted(errors)])
        made.errors, made.results = dict(errors), list(results)
        return made

    def __init__(self, errors: Mapping[int, Exception], results: Sequence[object]) -> None:
        super().__init__(self.message, list(self.exceptions))

    def __reduce__(self) -> tuple[type[BatchError], tuple[Mapping[int, Exception], object]]:
        return type(self), (self.errors, self.results)
