"""Replays answers recorded from a real local server; see README.md beside this file."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RECORDING = os.environ.get("HIPPOCAMPUS_TEST_RECORD") == "1"
SECRET_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "cookie", "set-cookie")
NOISY_HEADERS = tuple(f"x-stainless-{name}" for name in (
    "arch", "async", "helper-method", "lang", "os", "package-version", "raw-response",
    "read-timeout", "retry-count", "runtime", "runtime-version", "timeout",
))  # fmt: skip


def same_json(recorded: Any, sent: Any) -> None:
    """Match requests by their bodies: a changed prompt must be recorded again."""
    assert json.loads(recorded.body or b"null") == json.loads(sent.body or b"null")


@pytest.fixture
def cassette(request, monkeypatch):
    """The recorded answers of a test, which must use all of them and no network."""
    from vcr import VCR

    vcr = VCR(
        record_mode="all" if RECORDING else "none",
        match_on=["method", "path", "query", "json"],
        filter_headers=[*SECRET_HEADERS, *NOISY_HEADERS, "user-agent", "x-goog-api-client"],
        filter_query_parameters=["key"],
        decode_compressed_response=True,
    )
    vcr.register_matcher("json", same_json)
    # The recordings are of httpx; google-genai takes aiohttp where another package brings it.
    monkeypatch.setattr("google.genai._api_client.has_aiohttp", False)
    if not RECORDING:
        monkeypatch.setattr(socket.socket, "connect", _no_network)
    with vcr.use_cassette(str(HERE / f"{request.node.originalname}.yaml")) as cassette:
        yield cassette
    if not RECORDING:
        assert cassette.all_played, f"{cassette.play_count} of {len(cassette)} answers were used"


def _no_network(self: socket.socket, address: Any) -> None:
    raise OSError(f"a replay must not connect to {address}")
