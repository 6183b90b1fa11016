"""An example of every command, shown at the end of its help."""

from __future__ import annotations

from typing import Final

import typer

EXAMPLES: Final = {
    "cleanup": "hippocampus cleanup --app my_app --dry-run",
    "context": "hippocampus context my_app ana session-1 'Where do I live?' --explain",
    "curve": "hippocampus curve my_app ana cello --days 90",
    "demo": "hippocampus demo --language zh",
    "doctor": "hippocampus doctor --json",
    "erase": "hippocampus erase my_app ana --yes --json",
    "erasures": "hippocampus erasures --app my_app",
    "export": "hippocampus export my_app ana --out ana.jsonl",
    "extract": "hippocampus extract --conversation < turns.txt",
    "facts": "hippocampus facts my_app ana employer --history",
    "faded": "hippocampus faded my_app ana --limit 50",
    "forget": "hippocampus forget my_app ana cello",
    "graph": "hippocampus graph my_app ana Mia --depth 1",
    "import": "hippocampus import ana.jsonl --uri postgresql://user@host/db",
    "index": "hippocampus index --dry-run",
    "jobs": "hippocampus jobs --status failed",
    "mcp": "hippocampus mcp --app my_app --user ana",
    "copy": "hippocampus copy --from embedded --to seekdb:///data/memory",
    "migrate": "hippocampus migrate --uri postgresql://user@host/db",
    "pin": "hippocampus pin my_app ana cello",
    "policy": "hippocampus policy sensitive --app my_app --user ana",
    "profile diff": "hippocampus profile diff my_app ana 1 2",
    "profile rollback": "hippocampus profile rollback my_app ana 1",
    "profile show": "hippocampus profile show my_app ana",
    "profile update": "hippocampus profile update my_app ana < talk.txt",
    "profile versions": "hippocampus profile versions my_app ana --json",
    "recall": "hippocampus recall my_app ana 'Where do I live?' --explain",
    "recover": "hippocampus recover my_app ana cello",
    "reembed": "hippocampus reembed --embedder e5",
    "remember": "hippocampus remember my_app ana 'Ana plays the cello.'",
    "restore": "hippocampus restore my_app ana 0198f2c4",
    "retract": "hippocampus retract my_app ana 0198f2c4 --at 2026-05-01",
    "runs": "hippocampus runs my_app ana --undo 0198f2c4",
    "serve": "hippocampus serve --port 8420",
    "state": "hippocampus state my_app ana employer Zenith --since 2026-05-01",
    "stats": "hippocampus stats --app my_app",
    "timeline": "hippocampus timeline my_app ana 'last Tuesday' --by day",
    "token create": "hippocampus token create --app my_app --user ana --expires 30d",
    "token list": "hippocampus token list --app my_app",
    "token revoke": "hippocampus token revoke 0123456789abcdef",
    "unpin": "hippocampus unpin my_app ana cello",
    "worker": "hippocampus worker --once",
}


def show_examples(group: typer.Typer, above: str = "") -> None:
    """Let the help of every command of a group end with its example, where there is one."""
    for command in group.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        example = EXAMPLES.get(above + name)
        shown = "Example:" in (getattr(command.callback, "__doc__", None) or "")
        if example is not None and not shown:
            command.epilog = f"Example: {example}"
    for below in group.registered_groups:
        if below.typer_instance is not None:
            show_examples(below.typer_instance, f"{above}{below.name} ")
