"""Commands about keeping and forgetting: cleanup, stats, curve, policy, pin, unpin, recover."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.text import Text

from shared_core.cli.app import (
    App,
    AsJson,
    Embedder,
    Schema,
    Uri,
    User,
    app,
    console,
    malformed,
    open_memory,
    tell,
)
from shared_core.core.domain import MemoryKind, Scope
from shared_core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from shared_core.core.retention_policy import RetentionPolicy
    from shared_core.engine import MemoryEngine

AnApp = Annotated[
    str | None, typer.Option("--app", help="Only users of an application. [default: of all]")
]
AUser = Annotated[str | None, typer.Option(help="Only a user of --app.")]
Keys = Annotated[list[str], typer.Argument(help="Keys as recall shows them, or memory ids.")]


def _whose(app_name: str | None, user: str | None) -> tuple[Scope | None, str | None]:
    if user is None:
        return None, app_name
    if app_name is None:
        raise InvalidInput("--user needs --app: a user is one of an application")
    return Scope(app_name, user), None


@app.command()
def cleanup(
    uri: Uri = None,
    schema: Schema = None,
    app_name: AnApp = None,
    user: AUser = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go and why, and write nothing.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="How many to list in a dry run.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Forget what has faded, of all applications unless --app is given, by the stored policies.

    It is demoted, archived or erased, one stage in each run. A worker does the same every
    HIPPOCAMPUS_CLEANUP_HOURS, where that is set.
    """
    from shared_core.cli import show_retention as show

    scope, of_app = _whose(app_name, user)
    of = show.whose(scope, of_app)

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            with show.progress_bar(console(stderr=True), "Forgetting") as progress:
                report = await memory.forget_faded(
                    scope, app=of_app, dry_run=dry_run, limit=limit,
                    progress=None if dry_run else progress,
                )  # fmt: skip
        if as_json:
            typer.echo(json.dumps(show.report_json(report, of), ensure_ascii=False))
            return
        console().print(Text(f"Of {of}:"))
        if report.listed:
            console().print(show.fading_table(report))
        console().print(show.report_lines(report))

    asyncio.run(run())


@app.command()
def stats(
    uri: Uri = None,
    schema: Schema = None,
    app_name: AnApp = None,
    user: AUser = None,
    days: Annotated[
        list[float] | None, typer.Option(help="So many days ahead; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how memories are kept: scores, stages, and what will be forgotten when."""
    from shared_core.cli import show_retention as show
    from shared_core.retention.statistics import HORIZONS

    scope, of_app = _whose(app_name, user)

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            found = await memory.retention_stats(scope, app=of_app, days=days or HORIZONS)
        if as_json:
            typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
            return
        for piece in show.stats_tables(found):
            console().print(piece)

    asyncio.run(run())


@app.command()
def curve(
    app_name: App,
    user: User,
    key: Annotated[str, typer.Argument(help="Key of a memory, or its id.")],
    uri: Uri = None,
    schema: Schema = None,
    days: Annotated[float | None, typer.Option(help="So many days ahead.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Draw it to a .png or .svg file (extra [plot]).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how the retention of one memory went, and will go if nobody reads it."""
    from shared_core.cli import show_retention as show
    from shared_core.retention.statistics import draw

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False, track_access=False) as memory:
            scope = Scope(app_name, user)
            try:
                found = await memory.retention_curve(scope, key, days_ahead=days)
            except NotFound as error:
                raise NotFound(
                    f"there is no memory {key!r} of {scope}: hippocampus timeline {app_name} {user}"
                    " --json shows keys"
                ) from error
        if out is not None:
            drawn = str(draw(found, out))
            tell(drawn, {"file": drawn}, as_json)
        elif as_json:
            typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
        else:
            for line in show.curve_text(found):
                console().print(line, soft_wrap=True)

    asyncio.run(run())


@app.command()
def policy(
    name: Annotated[
        str | None,
        typer.Argument(
            help="default, high-interaction, low-interaction, sensitive or knowledge; 'inherit'"
            " for what holds above. Left out: show what holds."
        ),
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    app_name: AnApp = None,
    user: AUser = None,
    never: Annotated[
        list[str] | None, typer.Option(help="A kind that never fades; may be repeated.")
    ] = None,
    erase_after: Annotated[
        float | None,
        typer.Option(help="Erase so many days after the stage before; below 0: never."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how memories fade, or set it: for all, an application, or one of its users."""
    from shared_core.cli import show_retention as show
    from shared_core.core.retention_policy import POLICIES
    from shared_core.retention.policies import kinds_named, policy_named

    scope, of_app = _whose(app_name, user)
    wanted: str | RetentionPolicy | None = None if name == "inherit" else name
    with malformed():
        if isinstance(wanted, str):
            policy_named(wanted)
        kinds = kinds_named(cast(Sequence[MemoryKind], never or ()))
    if wanted in POLICIES and erase_after is not None:
        stored = POLICIES[str(wanted)]
        wanted = (
            replace(stored, erase_threshold=None)
            if erase_after < 0
            else replace(stored, erase_threshold=1.0, erase_after_days=erase_after)
        )

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            if name is not None:
                changed = await memory.set_retention_policy(wanted, scope, app=of_app, never=kinds)
                typer.echo(f"{changed} memories are timed anew.", err=True)
            rules = await memory.retention_policy(scope, app=of_app)
        if as_json:
            typer.echo(json.dumps(show.rules_json(rules)))
        else:
            console().print(show.rules_table(rules))

    asyncio.run(run())


def each_key(
    memory: MemoryEngine,
    scope: Scope,
    keys: Sequence[str],
    done: str,
    verb: Callable[[Scope, Sequence[str]], Awaitable[int]],
    as_json: bool,
) -> None:
    """Do what a verb does with memories, say how many, and name unknown keys: exit code 1."""

    async def run() -> tuple[int, Sequence[str]]:
        async with memory:
            unknown = await memory.unknown_keys(scope, keys)
            return await verb(scope, keys), unknown

    count, unknown = asyncio.run(run())
    told = f"{count} {'memory' if count == 1 else 'memories'} {done}"
    tell(told, {"memories": count, "done": done, "unknown": list(unknown)}, as_json)
    for key in unknown:
        typer.echo(
            f"Error: {scope.app} / {scope.user} has no memory {key!r}; `hippocampus timeline"
            " APP USER --json` shows keys", err=True,
        )  # fmt: skip
    raise typer.Exit(0 if count and not unknown else 1)


@app.command()
def pin(
    app_name: App, user: User, keys: Keys, uri: Uri = None, schema: Schema = None,
    embedder: Embedder = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Never forget some memories, whatever their score. Exit code 1 if a key is unknown."""
    memory = open_memory(uri, schema=schema, embedder=embedder, worker=False)
    each_key(memory, Scope(app_name, user), keys, "pinned", memory.pin, as_json)


@app.command()
def unpin(
    app_name: App, user: User, keys: Keys, uri: Uri = None, schema: Schema = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Let memories fade again. Exit code 1 if a key is unknown, or none was pinned."""
    memory = open_memory(uri, schema=schema, worker=False)
    each_key(memory, Scope(app_name, user), keys, "no longer pinned", memory.unpin, as_json)


@app.command()
def recover(
    app_name: App, user: User, keys: Keys, uri: Uri = None, schema: Schema = None,
    embedder: Embedder = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Bring demoted and archived memories back into recall.

    Exit code 1 if a key is unknown, or none came back.
    """
    memory = open_memory(uri, schema=schema, embedder=embedder, worker=False)
    each_key(memory, Scope(app_name, user), keys, "restored", memory.restore_memory, as_json)


@app.command()
def forget(
    app_name: App, user: User, keys: Keys, uri: Uri = None, schema: Schema = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Forget memories and what was drawn from them alone. Exit code 1 if a key is unknown."""
    memory = open_memory(uri, schema=schema)
    each_key(memory, Scope(app_name, user), keys, "forgotten", memory.forget, as_json)


@app.command()
def faded(
    app_name: App,
    user: User,
    uri: Uri = None,
    schema: Schema = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List what has faded out of recall and can be restored, what left it last first."""
    from shared_core.cli import show_retention as show

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            found = await memory.list_faded(Scope(app_name, user), limit=limit)
        if as_json:
            for one in found:
                typer.echo(json.dumps(show.kept_json(one), ensure_ascii=False))
        elif found:
            console().print(show.kept_table(found))
        else:
            typer.echo("Nothing has faded.")

    asyncio.run(run())
