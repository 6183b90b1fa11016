"""The help of every command: its place in the list of commands, and its example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Start": {
        "demo": "hippocampus demo --language zh",
        "ui": "hippocampus ui --read-only",
        "doctor": "hippocampus doctor --json",
        "migrate": "hippocampus migrate --uri postgresql://user@host/db",
        "adk": "",
        "adk init": "hippocampus adk init my_agents",
    },
    "Memories": {
        "remember": "hippocampus remember my_app ana 'Ana plays the cello.'",
        "recall": "hippocampus recall my_app ana 'Where do I live?' --explain",
        "timeline": "hippocampus timeline my_app ana 'last Tuesday' --by day",
        "context": "hippocampus context my_app ana session-1 'Where do I live?' --explain",
        "forget": "hippocampus forget my_app ana cello",
    },
    "Facts, graph and profiles": {
        "facts": "hippocampus facts my_app ana employer --history",
        "state": "hippocampus state my_app ana employer Zenith --since 2026-05-01",
        "retract": "hippocampus retract my_app ana 0198f2c4 --at 2026-05-01",
        "restore": "hippocampus restore my_app ana 0198f2c4",
        "graph": "hippocampus graph my_app ana Mia --depth 1",
        "profile": "",
        "profile diff": "hippocampus profile diff my_app ana 1 2",
        "profile rollback": "hippocampus profile rollback my_app ana 1",
        "profile show": "hippocampus profile show my_app ana",
        "profile update": "hippocampus profile update my_app ana < talk.txt",
        "profile versions": "hippocampus profile versions my_app ana --json",
    },
    "Consolidation": {
        "worker": "hippocampus worker --once",
        "jobs": "hippocampus jobs --status failed",
        "runs": "hippocampus runs my_app ana --undo 0198f2c4",
        "extract": "hippocampus extract --conversation < turns.txt",
    },
    "Retention": {
        "cleanup": "hippocampus cleanup --app my_app --dry-run",
        "faded": "hippocampus faded my_app ana --limit 50",
        "recover": "hippocampus recover my_app ana cello",
        "pin": "hippocampus pin my_app ana cello",
        "unpin": "hippocampus unpin my_app ana cello",
        "policy": "hippocampus policy sensitive --app my_app --user ana",
        "stats": "hippocampus stats --app my_app",
        "curve": "hippocampus curve my_app ana cello --days 90",
        "erase": "hippocampus erase my_app ana --yes --json",
        "erasures": "hippocampus erasures --app my_app",
    },
    "Whole databases": {
        "export": "hippocampus export my_app ana --out ana.jsonl",
        "import": "hippocampus import ana.jsonl --uri postgresql://user@host/db",
        "copy": "hippocampus copy --from embedded --to seekdb:///data/memory",
        "reembed": "hippocampus reembed --embedder use",
        "index": "hippocampus index --dry-run",
    },
    "Servers": {
        "serve": "hippocampus serve --port 8420",
        "mcp": "hippocampus mcp --app my_app --user ana",
        "token": "",
        "token create": "hippocampus token create --app my_app --user ana --expires 30d",
        "token list": "hippocampus token list --app my_app",
        "token revoke": "hippocampus token revoke 0123456789abcdef",
    },
}
"""The example of every command, by the panel that lists it. Groups of commands have none."""

EXAMPLES: Final = {
    name: example for panel in PANELS.values() for name, example in panel.items() if example
}
_PLACES: Final = [name for panel in PANELS.values() for name in panel]


def arrange_help(group: typer.Typer, above: str = "") -> None:
    """Order the commands of a group by panel, and end the help of each with its example."""
    named = {
        above + (one.name or getattr(one.callback, "__name__", "").replace("_", "-")): one
        for one in group.registered_commands
    }
    group.registered_commands = [named[name] for name in sorted(named, key=_PLACES.index)]
    for name, command in named.items():
        command.rich_help_panel = None if above else _panel_of(name)
        if "Example:" not in (getattr(command.callback, "__doc__", None) or ""):
            command.epilog = f"Example: {EXAMPLES[name]}"
    for below in group.registered_groups:
        if below.typer_instance is not None:
            below.rich_help_panel = _panel_of(f"{above}{below.name}")
            arrange_help(below.typer_instance, f"{above}{below.name} ")


def _panel_of(name: str) -> str:
    return next(panel for panel, commands in PANELS.items() if name in commands)
