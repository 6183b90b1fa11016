"""Problem details of RFC 9457, and the error that each problem stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from shared_core import errors

MEDIA_TYPE: Final = "application/problem+json"
KIND_PREFIX: Final = "urn:hippocampus:problem:"


class FieldFault(BaseModel):
    """One invalid part of a request."""

    field: str = Field(description="Path of the part, e.g. body.memories.0.text")
    reason: str


class ProblemBody(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:hippocampus:problem:invalid-input",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "body.user_id: String should have at least 1 character",
                    "request_id": "0193f6f2c4d87e0f9a7d5e0c4b1a2f3e",
                    "errors": [
                        {
                            "field": "body.user_id",
                            "reason": "String should have at least 1 character",
                        }
                    ],
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[FieldFault] = Field(default_factory=list)


STATUS_OF: Final[Mapping[type[errors.MemoryCoreError], tuple[int, str]]] = {
    errors.InvalidInput: (422, "invalid-input"),
    errors.NotFound: (404, "not-found"),
    errors.Conflict: (409, "conflict"),
    errors.CapabilityMissing: (501, "not-supported"),
    errors.StorageReadOnly: (503, "read-only"),
    errors.StorageUnavailable: (503, "storage-unavailable"),
    errors.ModelUnavailable: (503, "model-unavailable"),
    errors.EmbeddingMismatch: (503, "embedding-mismatch"),
    errors.MemoryCoreError: (500, "internal"),
}
"""The HTTP status and the kind of problem of each error. The server maps errors to problems by the
nearest base class, and the client maps kinds back."""
