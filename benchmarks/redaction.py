"""Measures precision and recall of secret redaction on labelled sentences.

    python -m benchmarks.redaction [--data FILE.json] [--misses] [--json]

FILE holds {"EN": [{"form", "text", "secret"}], "ZH": [...]}. secret: the part to mask, or null if
all must stay. form: what it is or looks like (pin, code, password, key, card, id). The default is
benchmarks/data/redaction.json, our own. Redaction has the default modes of shared_core.privacy. A
masked text is right if exactly its secret is masked, ignoring the final stop. A secret masked only
partly, or with more, counts as wrong and as missed.
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
    """Counts of texts: masked right, masked wrong, with a secret, and without one."""

    counts: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)

    def add(self, text: str, secret: str | None) -> None:
        """Count one text. secret: the part to mask, or None."""
        self.counts["secrets" if secret else "harmless"] += 1
        masked = DEFAULT.redact(text)
        right = secret is not None and any(
            masked.text.rstrip(".!") == text.replace(secret, f"[REDACTED: {kind}]").rstrip(".!")
            for kind in masked.found
        )
        self.counts["right"] += right
        self.counts["wrong"] += bool(masked.found) and not right
        if right or (secret is None and not masked.found):
            return
        self.misses.append(f"{'missed' if secret else 'wrong'}  {text} -> {masked.text}")

    def figures(self) -> dict[str, float]:
        """Return the figures by name; precision and recall are between 0 and 1."""
        right, secrets = self.counts["right"], self.counts["secrets"]
        return {
            "secrets": secrets,
            "harmless": self.counts["harmless"],
            "precision": round(right / max(1, right + self.counts["wrong"]), 3),
            "recall": round(right / max(1, secrets), 3),
        }


def score(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tally]:
    """Return the counts by form, and those of all texts as "all"."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for row in rows:
        tallies["all"].add(row["text"], row["secret"])
        tallies[row["form"]].add(row["text"], row["secret"])
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description="Precision and recall of redaction.")
    parser.add_argument("--data", type=Path, default=OWN_DATA)
    parser.add_argument("--misses", action="store_true", help="list wrong and missed texts")
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
