"""Defines every error that this project raises on purpose.

MemoryCoreError
├── InvalidInput            a value of the caller cannot be used; also a ValueError
├── NotFound                a required object does not exist; also a ValueError
├── Conflict                another writer changed it first: read again, then retry
├── SchemaOutOfDate         the database needs `hippocampus migrate`, or a newer library
├── CapabilityMissing       this engine cannot do it; it never silently returns less
├── EmbeddingMismatch       the embedder does not fit the stored vectors
├── StorageUnavailable      retryable: the database cannot be reached or used
│   ├── StorageReadOnly     reads work and writes fail: a standby, or a read-only role
│   └── PermissionDenied    the database user lacks a right: run the GRANT of the message
├── ModelUnavailable        retryable: an embedder or a language model failed
│   ├── ModelQuotaExceeded  too many requests, or a used-up quota: wait, then retry
│   ├── ModelKeyRefused     the provider refuses the key: mend it, then retry
│   └── ModelOutputInvalid  the model answered, and the answer cannot be used
├── ServerUnavailable       retryable: the HTTP server cannot be reached, or did not answer
├── AccessDenied            the HTTP server refuses the token, or its lack
├── TooManyRequests         retryable: the token sends too many requests
├── UnexpectedAnswer        an HTTP answer that is not of this API, or not of this version
├── ExtraMissing            an optional package is not installed; also a ModuleNotFoundError
└── BatchError              some operations of a batch failed, the others are done
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class MemoryCoreError(Exception):
    """Base of every error raised on purpose."""


class InvalidInput(MemoryCoreError, ValueError):
    """A value of the caller cannot be used; the message names it and what is allowed."""


class NotFound(MemoryCoreError, ValueError):
    """An object that a call needs does not exist."""


class Conflict(MemoryCoreError):
    """Another writer changed the same object first."""


class SchemaOutOfDate(MemoryCoreError):
    """The database schema does not fit this version of the library."""


class CapabilityMissing(MemoryCoreError):
    """The storage engine in use does not support the call."""


class EmbeddingMismatch(MemoryCoreError):
    """The embedder in use does not fit the stored vectors."""


class StorageUnavailable(MemoryCoreError):
    """The database cannot be reached or used now; the call may be retried."""


class StorageReadOnly(StorageUnavailable):
    """The database accepts reads only: a hot standby, or a read-only role."""


class PermissionDenied(StorageUnavailable):
    """The database user lacks a right. The message names the GRANT to run as an administrator."""


class ExtraMissing(MemoryCoreError, ModuleNotFoundError):
    """An optional package is not installed; the message names the extra that brings it."""


class ModelUnavailable(MemoryCoreError):
    """An embedder or a language model failed; the call may be retried."""


class ModelQuotaExceeded(ModelUnavailable):
    """A model refuses requests for now: too many of them, or a used-up quota. Wait, then retry.

    Attributes:
        retry_after_s: seconds to wait, or None if the model did not say.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ModelKeyRefused(ModelUnavailable):
    """The provider of a model refuses its key (status 401 or 403), or there is none: mend it."""


class ModelOutputInvalid(ModelUnavailable):
    """An embedder or a language model gave an answer that cannot be used."""


class ServerUnavailable(MemoryCoreError):
    """The HTTP server cannot be reached or used now; the call may be retried.

    may_be_done: whether the request may have been carried out. retry_after_s: seconds to wait, or
    None if the server did not say.
    """

    def __init__(
        self, message: str, *, may_be_done: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.may_be_done = may_be_done
        self.retry_after_s = retry_after_s


class AccessDenied(MemoryCoreError):
    """The HTTP server needs a token, or another one: for this application and this user."""


class TooManyRequests(MemoryCoreError):
    """The HTTP server refuses a token for now: too many requests. Wait, then retry.

    retry_after_s: seconds to wait, or None if the server did not say.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class UnexpectedAnswer(MemoryCoreError):
    """An HTTP answer is not one of this API: another program answers, or another version."""


class BatchError(ExceptionGroup[Exception], MemoryCoreError):
    """Some operations of a batch failed; all others are done.


    Works with `except*`.

    Attributes:
        errors: the error of each failed operation, by its index in the batch.
        results: one result for each operation, in order, None where it failed.
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
