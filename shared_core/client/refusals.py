"""Turn what HTTPX raises and what the server refuses into errors of this project. Pure."""

from __future__ import annotations

from typing import Final

import httpx
from pydantic import ValidationError

from shared_core.errors import (
    AccessDenied,
    InvalidInput,
    MemoryCoreError,
    ServerUnavailable,
    TooManyRequests,
    UnexpectedAnswer,
)
from shared_core.wire import KIND_PREFIX, MEDIA_TYPE, STATUS_OF, ProblemBody

ERROR_OF: Final = {kind: error for error, (_, kind) in STATUS_OF.items()}
"""The error of each kind of problem that an error of the core causes."""
GATEWAY_STATUS: Final = frozenset({502, 503, 504})
SHOWN_CHARACTERS: Final = 200
"""Maximum number of characters that an error shows of an answer that is not of this API."""


def not_answered(error: httpx.RequestError, base_url: str, timeout_s: float | None) -> Exception:
    """Return the error for a request without a whole answer."""
    asked = f"{error.request.method} {error.request.url.path}"
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | httpx.ProxyError):
        return ServerUnavailable(
            f"{base_url} cannot be reached ({reason}): start the server with 'hippocampus serve',"
            " or correct the address"
        )
    within = "in time" if timeout_s is None else f"within {timeout_s:g} s"
    if isinstance(error, httpx.PoolTimeout):
        return ServerUnavailable(
            f"no connection to {base_url} became free {within}: send fewer requests"
            " at a time, or pass http_client= with a larger pool"
        )
    if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
        return InvalidInput(f"{asked} cannot be sent to {base_url} ({reason})")
    if isinstance(error, httpx.TimeoutException):
        return ServerUnavailable(
            f"{base_url} did not answer {asked} {within}: pass a longer timeout= to"
            f" HippocampusClient or to your http_client{_may_be_done(error.request)}",
            may_be_done=True,
        )
    if isinstance(error, httpx.DecodingError | httpx.TooManyRedirects):
        return UnexpectedAnswer(f"{base_url} answered {asked} with what cannot be read ({reason})")
    return ServerUnavailable(
        f"the connection to {base_url} ended before {asked} was answered ({reason}): see the log"
        f" of the server, and send it again{_may_be_done(error.request)}",
        may_be_done=True,
    )


def _may_be_done(request: httpx.Request) -> str:
    if request.method == "GET":
        return ""
    return (
        ". It may have been carried out; a turn with the same event_id, or a memory with the same"
        " key, is stored once"
    )


def refusal(answer: httpx.Response, base_url: str) -> MemoryCoreError:
    """Return the error for an answer that is not a success. Its body must have been read."""
    problem = _problem(answer)
    if problem is None:
        return _of_another_program(answer, base_url)
    error = _of_problem(problem, answer, base_url)
    request = answer.request
    error.add_note(f"{request.method} {base_url}{request.url.path}, request {problem.request_id}")
    return error


def not_understood(answer: httpx.Response, base_url: str, reason: str) -> UnexpectedAnswer:
    """Return the error for a success whose body is not an answer of this API."""
    request = answer.request
    return UnexpectedAnswer(
        f"{base_url} answered {request.method} {request.url.path} with what is no answer of this"
        f" API ({reason}): correct the address, or give client and server the same version"
    )


def first_fault(error: ValidationError) -> str:
    """Return the first reason why an answer does not fit its model, without its values."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"


def _problem(answer: httpx.Response) -> ProblemBody | None:
    if answer.headers.get("content-type", "").partition(";")[0] != MEDIA_TYPE:
        return None
    try:
        problem = ProblemBody.model_validate_json(answer.content)
    except ValidationError:
        return None
    return problem if problem.type.startswith(KIND_PREFIX) else None


def _of_problem(problem: ProblemBody, answer: httpx.Response, base_url: str) -> MemoryCoreError:
    kind, detail = problem.type.removeprefix(KIND_PREFIX), problem.detail
    if kind in ("unauthorized", "forbidden"):
        way_out = " Pass it as token= to HippocampusClient." if kind == "unauthorized" else ""
        return AccessDenied(f"{base_url} refuses the request: {detail}{way_out}")
    if kind == "too-many-requests":
        wait_s = retry_after_s(answer)
        after = "later" if wait_s is None else f"in {wait_s:g} s"
        return TooManyRequests(f"{base_url}: {detail} Try again {after}.", retry_after_s=wait_s)
    if kind == "busy":
        return ServerUnavailable(f"{base_url}: {detail}", retry_after_s=retry_after_s(answer))
    if kind == "too-large":
        return InvalidInput(f"{detail} Send less at a time, or start the server with --max-body.")
    if answer.status_code >= 500:
        known = ERROR_OF.get(kind, MemoryCoreError)
        return known(f"{base_url}: {detail} (request {problem.request_id})")
    if kind in ERROR_OF:
        return ERROR_OF[kind](detail)
    return UnexpectedAnswer(
        f"{base_url} refuses {answer.request.method} {answer.request.url.path}: {detail} Correct"
        " the address, or give client and server the same version."
    )


def _of_another_program(answer: httpx.Response, base_url: str) -> MemoryCoreError:
    asked = f"{answer.request.method} {answer.request.url.path}"
    status = f"{answer.status_code} {answer.reason_phrase}".strip()
    if answer.status_code in GATEWAY_STATUS:
        return ServerUnavailable(
            f"what stands in front of the server at {base_url} answered {asked} with {status}:"
            " try again later, and check that the server runs",
            may_be_done=True,
            retry_after_s=retry_after_s(answer),
        )
    if answer.has_redirect_location:
        there = answer.headers["location"][:SHOWN_CHARACTERS]
        return UnexpectedAnswer(
            f"{base_url} sends {asked} on to {there!r}: pass the address of the server itself"
        )
    shown = answer.text.strip()[:SHOWN_CHARACTERS]
    return UnexpectedAnswer(
        f"{base_url} answered {asked} with {status} and {shown!r}, which is no answer of this API:"
        " pass the address that 'hippocampus serve' shows"
    )


def retry_after_s(answer: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After, or None."""
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isascii() and given.isdecimal() else None
