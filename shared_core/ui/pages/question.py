"""A question with its options, as the address of the page says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from shared_core.core.domain import AsOf, MemoryKind, Scope
from shared_core.core.shown import shown
from shared_core.core.timestamps import moment_of
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.ports.recall import KINDS, Ranking, RecallResult

RANKINGS: Final[Sequence[Ranking]] = get_args(Ranking)
MOST_HITS: Final = 100
BUDGET: Final = 2_000
"""Default budget of the context window, in tokens."""
LEAST_TOKENS: Final = 64
"""The least that a context window takes."""
MOST_TOKENS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question and its options.

    as_of, known: ISO dates, "" for now. floor: the least relevance, 0 to 1. distinct: drop hits
    that say the same as a better one. thread: the conversation whose context window is shown, ""
    for a new one. budget: of the context window, in tokens. left_out, window: whether that part of
    the page is open.
    """

    text: str = ""
    limit: int = 10
    kinds: tuple[MemoryKind, ...] = ()
    ranking: Ranking = "linear"
    as_of: str = ""
    known: str = ""
    floor: float = 0.0
    distinct: bool = False
    thread: str = ""
    budget: int = BUDGET
    left_out: bool = False
    window: bool = False

    @classmethod
    def of(cls, params: Mapping[str, str]) -> AskedQuestion:
        """Return the question in the parameters of an address. Raises InvalidInput."""
        kinds = tuple(one for one in params.get("kinds", "").split(",") if one)
        if unknown := [one for one in kinds if one not in KINDS]:
            raise InvalidInput(f"kinds must be of {', '.join(KINDS)}, got {shown(unknown[0])}")
        ranking = params.get("ranking", "linear")
        if ranking not in RANKINGS:
            raise InvalidInput(
                f"ranking must be one of {', '.join(RANKINGS)}, got {shown(ranking)}"
            )
        return cls(
            text=params.get("q", "").strip(),
            limit=int(number_of(params.get("limit"), "limit", 1, MOST_HITS, 10)),
            kinds=cast("tuple[MemoryKind, ...]", kinds),
            ranking=cast("Ranking", ranking),
            as_of=params.get("as_of", ""),
            known=params.get("known", ""),
            floor=number_of(params.get("floor"), "floor", 0, 1, 0.0),
            distinct=params.get("distinct") == "1",
            thread=params.get("thread", ""),
            budget=int(
                number_of(params.get("budget"), "budget", LEAST_TOKENS, MOST_TOKENS, BUDGET)
            ),
            left_out=params.get("left_out") == "1",
            window=params.get("window") == "1",
        )

    @property
    def params(self) -> dict[str, str | None]:
        """Return the parameters of its address. A parameter with its default value is None."""
        return {
            "q": self.text or None,
            "limit": None if self.limit == 10 else str(self.limit),
            "kinds": ",".join(self.kinds) or None,
            "ranking": None if self.ranking == "linear" else self.ranking,
            "as_of": self.as_of or None,
            "known": self.known or None,
            "floor": f"{self.floor:g}" if self.floor else None,
            "distinct": "1" if self.distinct else None,
            "thread": self.thread or None,
            "budget": None if self.budget == BUDGET else str(self.budget),
            "left_out": "1" if self.left_out else None,
            "window": "1" if self.window else None,
        }

    @property
    def moment(self) -> AsOf | None:
        """The moments that it is asked as of. Raises InvalidInput for a text that is no date."""
        if not self.as_of and not self.known:
            return None
        return AsOf(
            valid=moment_of(self.as_of, "as_of") if self.as_of else None,
            known=moment_of(self.known, "known") if self.known else None,
        )

    async def ask(self, memory: MemoryEngine, user: Scope) -> RecallResult:
        """Return the memories that answer it. Looking is no use of them, so it is not counted."""
        return await memory.recall(
            user, self.text, limit=self.limit, kinds=self.kinds or None, ranking=self.ranking,
            as_of=self.moment, min_relevance=self.floor, distinct=self.distinct, counted=False,
        )  # fmt: skip

    async def ask_for_all(self, memory: MemoryEngine, user: Scope) -> RecallResult:
        """Return also memories that the options leave out: irrelevant ones, repeats, later ones."""
        return await memory.recall(
            user, self.text, limit=min(max(3 * self.limit, 30), 3 * MOST_HITS),
            ranking=self.ranking, as_of=self.moment, counted=False,
        )  # fmt: skip


def number_of(text: str | None, name: str, low: float, high: float, default: float) -> float:
    """Return the number that a parameter holds, or the default. Raises InvalidInput."""
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not low <= number <= high:
        raise InvalidInput(
            f"{name} must be a number between {low:,} and {high:,}, got {shown(text)}"
        )
    return number
