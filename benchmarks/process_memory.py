"""Measures process_memory, end to end, in a store that many users fill.

    python -m benchmarks.process_memory [--items 100000] [--per-user 1000] [--calls 200] [--json]

Half of the users write English, half Chinese. Each has --per-user memories: templates filled with
words by Zipf's law. Memories have random vectors of the model's dimensions, so that filling takes
seconds; the bundled model embeds inputs. The measured users have named themselves and their family
in a consolidated session, so they have a graph. They alternate. Two thirds of the inputs are
statements, the others questions with pronouns. The parts of a call are timed as well: hear (the
session, one round trip), embed, recall (with embed).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recall import BATCH, HalfRandomVectors
from benchmarks.report import load_average
from shared_core import MemoryEngine, Scope, open_memory

APP = "benchmark"
MEASURED = 20
WARM_UP = 20
LONGEST_S = 600.0

ENGLISH = (
    "My colleague {0} told me about the {1} {2} in {3}.",
    "I bought a {1} {2} when I was in {3} with {0}.",
    "Last year {0} and I saw a {1} {2} near {3}.",
    "I think the {2} that {0} brought from {3} is {1}.",
)
CHINESE = (
    "我和{0}在{3}看到了{1}{2}",
    "我在{3}买了一个{1}{2}送给{0}",
    "{0}告诉我{3}的{2}很{1}",
    "我觉得{0}从{3}带来的{2}是{1}",
)
ENGLISH_TURNS = (
    "I went to {3} with {0} last week",
    "We bought a {1} {2} there",
    "Do you like it?",
    "{0} is my friend",
    "I am learning to cook {2}",
    "How old is she?",
)
CHINESE_TURNS = (
    "我上周和{0}去了{3}",
    "我们买了{1}{2}",
    "你喜欢这个吗？",
    "我最近在学做{2}",
    "我喜欢吃{2}",
    "她今年几岁了？",
)
OWN = {
    "en": ("My name is Ana", "My daughter is called Mia", "She is 5", "She loves drawing"),
    "zh": ("我叫小朱", "我女儿叫灿灿", "她今年5岁", "她喜欢画画"),
}
LATIN = ("ba", "ko", "ri", "mu", "ten", "sal", "vor", "lin", "dap", "fe")
HAN = "山水花草木石金银云雨风雷星月日海江河湖泉林竹松梅兰菊桃李杏梨茶米豆瓜桥塔楼亭城镇村街"


def words_of(language: str, count: int) -> list[str]:
    chooser = random.Random(f"words {language}")
    if language == "en":
        return ["".join(chooser.choices(LATIN, k=3)) for _ in range(count)]
    return ["".join(chooser.choices(HAN, k=2)) for _ in range(count)]


WORDS = {language: words_of(language, 3_000) for language in ("en", "zh")}
FREQUENCIES = list(accumulate(1 / (rank + 1) for rank in range(3_000)))


def sentence(template: str, language: str, chooser: random.Random) -> str:
    """Return a template filled with words of a language."""
    chosen = chooser.choices(WORDS[language], cum_weights=FREQUENCIES, k=4)
    return template.format(chosen[0].capitalize(), *chosen[1:])


def language_of(user: int) -> str:
    return "zh" if user % 2 else "en"


async def measure(items: int, per_user: int, calls: int) -> dict[str, Any]:
    """Return milliseconds of the call and of its parts, at p50 and p95."""
    embedder = HalfRandomVectors()
    users = max(1, items // per_user)
    measured = range(min(MEASURED, users))
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=embedder) as memory:
            for user in range(users):
                await _fill(memory, user, min(per_user, items))
            embedder.is_bundled = True
            for user in measured:
                for text in OWN[language_of(user)]:
                    await memory.process_memory(text, str(user), app=APP)
                await memory.end_session(str(user), app=APP)
            if not await memory.flush(LONGEST_S):
                raise RuntimeError("sessions were not consolidated in time")
            parts = _timed(memory, embedder)
            inputs = list(_inputs(measured, WARM_UP + calls))
            whole = []
            for user, text in inputs:
                begun = time.perf_counter()
                await memory.process_memory(text, str(user), app=APP)
                whole.append(time.perf_counter() - begun)
    shown = {name: _figures(taken[-calls:]) for name, taken in parts.items()}
    return {
        "items": items,
        "users": users,
        "calls": calls,
        "process_memory": _figures(whole[WARM_UP:]),
        **shown,
    }


async def _fill(memory: MemoryEngine, user: int, size: int) -> None:
    language, chooser = language_of(user), random.Random(f"user {user}")
    templates = CHINESE if language == "zh" else ENGLISH
    texts = [sentence(chooser.choice(templates), language, chooser) for _ in range(size)]
    for first in range(0, size, BATCH):
        await memory.remember(Scope(APP, str(user)), texts[first : first + BATCH])


def _inputs(users: Sequence[int], count: int) -> Iterator[tuple[int, str]]:
    chooser = random.Random("inputs")
    for call in range(count):
        user, number = users[call % len(users)], call // len(users)
        language = language_of(user)
        turns = CHINESE_TURNS if language == "zh" else ENGLISH_TURNS
        yield user, sentence(turns[number % len(turns)], language, chooser)


def _timed(memory: MemoryEngine, embedder: HalfRandomVectors) -> dict[str, list[float]]:
    """Wrap the parts of a call; return the lists that collect their seconds."""
    times: dict[str, list[float]] = defaultdict(list)
    service: Any = memory.conversations

    def timed(owner: Any, method: str, name: str) -> None:
        inner: Callable[..., Awaitable[object]] = getattr(owner, method)

        async def outer(*args: object, **kwargs: object) -> object:
            begun = time.perf_counter()
            found = await inner(*args, **kwargs)
            times[name].append(time.perf_counter() - begun)
            return found

        setattr(owner, method, outer)

    timed(service, "hear", "hear")
    timed(embedder, "embed_query", "embed")
    timed(service._recall, "find", "recall")
    return times


def _figures(times_s: Sequence[float]) -> dict[str, float]:
    p50, p95 = np.percentile(np.array(times_s) * 1_000, [50, 95])
    return {"p50_ms": round(float(p50), 1), "p95_ms": round(float(p95), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of process_memory in a large store.")
    parser.add_argument("--items", type=int, default=100_000, help="memories in the store")
    parser.add_argument("--per-user", type=int, default=1_000, help="memories of a user")
    parser.add_argument("--calls", type=int, default=200, help="measured calls")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if min(arguments.items, arguments.per_user, arguments.calls) < 1:
        parser.error("--items, --per-user and --calls must be at least 1")
    found = asyncio.run(measure(arguments.items, arguments.per_user, arguments.calls))
    found["load_average"] = load_average()
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"{found['items']:,} memories of {found['users']:,} users, {found['calls']} calls")
    for name in ("process_memory", "hear", "embed", "recall"):
        times = found[name]
        print(f"{name:>16}  p50 {times['p50_ms']:>6} ms   p95 {times['p95_ms']:>6} ms")


if __name__ == "__main__":
    main()
