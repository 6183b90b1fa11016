"""How well secrets are told from what only looks like one, on labelled sentences.

    python -m benchmarks.redaction [--data FILE.json] [--misses] [--json]

FILE holds {"EN": [{"form", "text", "secret"}], "ZH": [...]}: secret is the part that must go, null
where all of it must stay; form says what it is or looks like (pin, code, password, key, card, id).
Without --data it is benchmarks/data/redaction.json, our own. Redaction runs with the default modes
of shared_core.privacy. A masked text is right when the secret went and nothing else did, the stop
of the sentence aside: one that lost more or less counts as wrong and as missed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from shared_core.privacy.redaction import PRESETS

OWN_DATA: Final = Path(__file__).parent / "data" / "redaction.json"
FORMS: Final = ("pin", "code", "password", "key", "card", "id")
DEFAULT: Final = PRESETS["default"]


@dataclass(slots=True)
class Tally:
    """Counts of texts: masked as they must be, masked otherwise, and with a secret left."""

    counts: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)

    def add(self, text: str, secret: str | None) -> None:
        """Count one text; secret: what must go, None for nothing."""
        self.counts["secrets" if secret else "harmless"] += 1
        done = DEFAULT.redact(text)
        right = secret is not None and any(
            done.text.rstrip(".!") == text.replace(secret, f"[REDACTED: {kind}]").rstrip(".!")
            for kind in done.found
        )
        self.counts["right"] += right
        self.counts["wrong"] += bool(done.found) and not right
        if right or (secret is None and not done.found):
            return
        self.misses.append(f"{'missed' if secret else 'wrong'}  {text} -> {done.text}")

    def figures(self) -> dict[str, float]:
        """Return the figures by name; precision and recall from 0 to 1."""
        right, secrets = self.counts["right"], self.counts["secrets"]
        return {
            "secrets": secrets,
            "harmless": self.counts["harmless"],
            "precision": round(right / max(1, right + self.counts["wrong"]), 3),
            "recall": round(right / max(1, secrets), 3),
        }


def score(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tally]:
    """Return the counts by form, and of all under "all"."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for row in rows:
        tallies["all"].add(row["text"], row["secret"])
        tallies[row["form"]].add(row["text"], row["secret"])
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description="Precision and recall of redaction.")
    parser.add_argument("--data", type=Path, default=OWN_DATA)
    parser.add_argument("--misses", action="store_true", help="list what is wrong or missed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_file():
        parser.error(f"no such file: {arguments.data}")
    data = json.loads(arguments.data.read_text(encoding="utf-8"))
    tallies = {name: score(rows) for name, rows in data.items()}
    figures = {
        name: {form: tally.figures() for form, tally in forms.items()}
        for name, forms in tallies.items()
    }
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, forms in figures.items():
        for form, one in forms.items():
            print(name, form, " ".join(f"{key}={value}" for key, value in one.items()))
        if arguments.misses:
            print("".join(f"  {miss}\n" for miss in tallies[name]["all"].misses), end="")


if __name__ == "__main__":
    main()
