"""Measures how long one user waits beside the worst accepted inputs of another one.

    python -m benchmarks.fairness [--seconds 4] [--rate 20] [--only WORDS] [--json]

A real server process on real sockets, with its worker. A quiet user asks POST /recall and
GET /health/live, each --rate times a second on a connection of its own: first alone, then beside
each of 30 inputs, which a busy user sends again and again for --seconds; its last answer is awaited
for ten seconds. Delays are in milliseconds. A delay counts from the moment at which the request was
due, so one answer that is held delays those behind it. `sent` counts the answers of the busy user.
The last line is one JSON object. It takes eight minutes at most; beside other programs the delays
are those of a processor that is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

from benchmarks.http import fill, serving, status_of
from benchmarks.report import load_average

Body: TypeAlias = dict[str, Any]
Bodies: TypeAlias = Callable[[int], Body]
"""Makes the body of a request from its number."""

LIMIT_MS: Final = 50
"""Maximum delay wanted at the 99th percentile."""
LAST_S: Final = 10
"""Seconds to wait for the last answer of the busy user."""
BYTES: Final = 99_000
"""Size of a long text; the server takes texts of 100,000 characters, and 1 MB in a body."""
REPEATED: Final = {
    "plain text": "Ana likes tea in the morning. ", "brackets": "<", "other brackets": "‹",
    "signs": "a.", "digits": "1 2 3 4 ", "pins": "pin ", "secrets": "The office alarm is 8817#. ",
    "Chinese": "我家大门的密码是八八一七。", "tags": "</history>",
}  # fmt: skip
"""What a long text repeats, by name."""


def _turns(text: str, turns: int, **more: object) -> Bodies:
    def body(number: int) -> Body:
        events = [
            {"event_id": f"{number}.{place}", "role": "user", "text": text,
             "occurred_at": "2026-03-01T12:00:00Z"}
            for place in range(turns)
        ]  # fmt: skip
        return {"thread_id": f"thread {number}", "events": events, **more}

    return body


def _same(**body: object) -> Bodies:
    return lambda _: body


def inputs() -> Iterator[tuple[str, str, Bodies]]:
    """Yield the name of each input, its path, and its bodies."""
    texts = {name: one * (BYTES // len(one.encode())) for name, one in REPEATED.items()}
    plain, asks = texts["plain text"], {"thread_id": "thread 0", "query": "tea " * 2_500}
    for name, text in texts.items():
        yield f"10 turns of {name}", "/events", _turns(text, 10)
    for name in ("plain text", "pins", "Chinese"):
        yield f"memory of {name}", "/remember", _same(memories=[texts[name]])
        yield f"message of {name}", "/process", _same(input=texts[name])
    for name in ("plain text", "brackets", "other brackets", "tags"):
        yield f"9 rules of {name}", "/context", _same(**asks, instructions=[texts[name]] * 9)
    yield "window of stored turns", "/context", _same(**asks, max_tokens=200_000)
    for name in ("plain text", "Chinese"):
        said = [{"role": "user", "content": texts[name]}] * 5
        yield f"profile of {name}", "/profile-update", _same(messages=said)
    yield "500 turns", "/events", _turns("I moved to Leeds in May. " * 60, 500)
    yield "turn read at once", "/events", _turns(plain[:9_000], 1, later=False)
    yield "100 memories", "/remember", _same(memories=[f"{n} likes tea." for n in range(100)])
    deep = {"text": "x", "key": "x", "metadata": {"a": [[1] * 100] * 2_900}}
    yield "metadata of 900 kB", "/remember", _same(memories=[deep])
    yield "question of words", "/recall", _same(query=asks["query"], explain=True)
    yield "question of brackets", "/recall", _same(query="<" * 10_000)
    yield "search in Chinese", "/search", _same(query="密码" * 5_000)
    yield "100 long hits", "/recall", _same(query="tea", limit=100)


class Connection:
    """A persistent connection of one user."""

    def __init__(self, user: int, token: str, port: int) -> None:
        self._user = f"user{user}"
        self._port = port
        self._head = f"Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: Body | None = None) -> int:
        """Send a request, GET without a body; return the status."""
        self._streams = self._streams or await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        sent = (
            json.dumps({"user_id": self._user} | body, ensure_ascii=False).encode() if body else b""
        )
        told = f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n" if body else ""
        head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\n{self._head}{told}\r\n"
        writer.write(head.encode() + sent)
        return await status_of(reader)


@dataclass(frozen=True)
class Delays:
    """Milliseconds of each answer that the quiet user waited for."""

    recall: list[float]
    live: list[float]

    def figures(self) -> dict[str, float]:
        """Return the median, the 99th percentile and the maximum of both."""
        return {
            f"{name}_{figure}": round(value, 1)
            for name, delays in (("recall", self.recall), ("live", self.live))
            for figure, value in (
                ("p50", statistics.median(delays)),
                ("p99", statistics.quantiles(delays, n=100, method="inclusive")[98]),
                ("worst", max(delays)),
            )
        }


async def _paced(ask: Callable[[], Any], seconds: float, rate: float) -> list[float]:
    """Call at a steady rate; return the delay of each answer since its call was due.

    Calls that are not sent when the time is over count with the delay that they have then.
    """
    begun, delays = time.perf_counter(), []
    for place in range(int(seconds * rate)):
        due = begun + place / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if (late := time.perf_counter()) > begun + seconds:
            delays.append(1000 * (late - due))
            continue
        status = await ask()
        assert status == 200, status
        delays.append(1000 * (time.perf_counter() - due))
    return delays


async def _beside(user: Callable[[], Connection], seconds: float, rate: float) -> Delays:
    asking, health = user(), user()  # new ones: the server closes a connection that is idle
    recalls, lives = await asyncio.gather(
        _paced(lambda: asking.ask("/recall", {"query": "What likes Ana?"}), seconds, rate),
        _paced(lambda: health.ask("/health/live"), seconds, rate),
    )
    return Delays(recalls, lives)


async def measure(
    tokens: list[str], port: int, seconds: float, rate: float, only: str
) -> dict[str, dict[str, object]]:
    """Return the figures beside nothing and beside each input, by name."""
    numbers = count()
    found: dict[str, dict[str, object]] = {}
    user = partial(Connection, 0, tokens[0], port)
    await user().ask("/health/ready")  # loads the model
    await _beside(user, 1.0, rate)
    found["nothing"] = {**(await _beside(user, seconds, rate)).figures(), "sent": {}}
    _show("nothing", found["nothing"])
    for name, path, body in inputs():
        if only in name:
            busy, statuses = Connection(1, tokens[1], port), Counter[str]()
            over = asyncio.Event()
            sending = asyncio.create_task(_send(busy, path, map(body, numbers), statuses, over))
            delays = await _beside(user, seconds, rate)
            over.set()
            # Its last request delays the quiet user beside the next input, if it takes longer.
            await asyncio.wait([sending], timeout=LAST_S)
            if sending.done():
                sending.result()  # an error ended it
            sending.cancel()
            found[name] = {**delays.figures(), "sent": dict(statuses)}
            _show(name, found[name])
    return found


async def _send(
    busy: Connection,
    path: str,
    requests: Iterator[Body],
    statuses: Counter[str],
    over: asyncio.Event,
) -> None:
    """Send one request after the other until it is over; count the answers by status."""
    while not over.is_set():
        one = next(requests)
        statuses[str(await busy.ask(path, one))] += 1


def _show(name: str, figures: Mapping[str, object]) -> None:
    *delays, sent = figures.values()
    print(f"{name:34}{''.join(f'{value:9}' for value in delays)}  {sent}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, each kind")
    parser.add_argument("--only", default="", help="only inputs with these words in their name")
    parser.add_argument("--json", action="store_true", help="print only the JSON line")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uri = f"embedded://{Path(folder)}"
        tokens = asyncio.run(fill(uri, 2, 100, "e5"))
        print(f"{'beside':34}recall p50  p99  worst   live p50  p99  worst  sent")
        with serving(uri) as port:
            found = asyncio.run(
                measure(tokens, port, arguments.seconds, arguments.rate, arguments.only)
            )
    print(json.dumps({"load_average": load_average(), "limit_ms": LIMIT_MS, "beside": found}))


if __name__ == "__main__":
    main()
