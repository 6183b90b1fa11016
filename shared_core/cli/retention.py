"""Commands of retention: cleanup, stats, curve, policy, pin, unpin, recover, forget, faded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import JsonValue, MemoryKind, Scope
from shared_core.core.retention_policy import FATES, POLICIES, STAGES, RetentionPolicy, Rules
from shared_core.errors import NotFound

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.retention import Kept
    from shared_core.retention.cleanup import RetentionReport
    from shared_core.retention.statistics import RetentionCurve, RetentionStats

Keys = Annotated[list[str], typer.Argument(help="Keys as recall prints them, or memory ids.")]

MAX_SHOWN = 48
"""Characters of a memory's text that a table shows."""


@cli.app.command()
def cleanup(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would fade and why; change nothing.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=0, help="Maximum number of memories that a dry run lists.")
    ] = 20,
    as_json: cli.AsJson = False,
) -> None:
    """Demote, archive or erase faded memories by the stored policies, one stage per run.

    A worker does the same every HIPPOCAMPUS_CLEANUP_HOURS hours if that is set.
    """
    scope, of_app = cli.scope_options(app_name, user)
    of = f"{scope.app} / {scope.user}" if scope else of_app or "all applications"

    async def run(memory: MemoryEngine) -> RetentionReport:
        with cli.progress_bar(cli.console(stderr=True)) as progress:
            bar = progress.add_task("Forgetting", total=None)

            def on_batch(done: int, total: int) -> None:
                progress.update(bar, completed=done, total=max(done, total))

            return await memory.retention.forget_faded(
                scope, app=of_app, dry_run=dry_run, limit=limit,
                progress=None if dry_run else on_batch,
            )  # fmt: skip

    done = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json(_cleanup_json(done, of))
        return
    cli.console().print(Text(f"Of {of}:"))
    if done.listed:
        cli.console().print(_fading_table(done))
    cli.console().print(_cleanup_line(done))


@cli.app.command()
def stats(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    days: Annotated[
        list[float] | None, typer.Option(help="Days to look ahead; repeatable.")
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show retention statistics: scores, stages, and what fades within the next days."""
    from shared_core.retention.statistics import HORIZONS

    scope, of_app = cli.scope_options(app_name, user)
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.retention.stats(scope, app=of_app, days=days or HORIZONS),
    )
    if as_json:
        cli.print_json(found.to_dict())
    else:
        cli.print_all(_stats_tables(found))


@cli.app.command()
def curve(
    app_name: cli.App,
    user: cli.User,
    key: Annotated[str, typer.Argument(help="Key or id of a memory.")],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    days: Annotated[float | None, typer.Option(help="Days to look ahead.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw the curve to a .png or .svg file (needs the extra plot)."),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show the retention score of a memory over time, and its future if nobody reads it."""
    from shared_core.retention.statistics import draw

    async def run(memory: MemoryEngine) -> RetentionCurve:
        scope = Scope(app_name, user)
        try:
            return await memory.retention.curve(scope, key, days_ahead=days)
        except NotFound as error:
            raise NotFound(
                f"there is no memory {key!r} of {scope}: hippocampus timeline {app_name} {user}"
                " --json shows keys"
            ) from error

    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False, track_access=False), run
    )
    if out is not None:
        drawn = str(draw(found, out))
        cli.report(drawn, {"file": drawn}, as_json)
    elif as_json:
        cli.print_json(found.to_dict())
    else:
        cli.print_all(_curve_lines(found))


@cli.app.command()
def policy(
    name: Annotated[
        str | None,
        typer.Argument(
            help="default, high-interaction, low-interaction, sensitive or knowledge; inherit to"
            " use the policy of the level above.",
            show_default="show the policy",
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    never: Annotated[
        list[str] | None, typer.Option(help="Kind of memory that never fades; repeatable.")
    ] = None,
    erase_after: Annotated[
        float | None, typer.Option(help="Days in the last stage before erasure; below 0 for never.")
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show or set the retention policy: for everyone, an application or one of its users."""
    from shared_core.retention.service import kinds_named, policy_named

    scope, of_app = cli.scope_options(app_name, user)
    chosen: str | RetentionPolicy | None = None if name == "inherit" else name
    with cli.malformed():
        if isinstance(chosen, str):
            policy_named(chosen)
        kinds = kinds_named(cast(Sequence[MemoryKind], never or ()))
    if chosen in POLICIES and erase_after is not None:
        stored = POLICIES[str(chosen)]
        chosen = (
            replace(stored, erase_threshold=None)
            if erase_after < 0
            else replace(stored, erase_threshold=1.0, erase_after_days=erase_after)
        )

    async def run(memory: MemoryEngine) -> Rules:
        if name is not None:
            changed = await memory.retention.set_policy(chosen, scope, app=of_app, never=kinds)
            typer.echo(f"{changed} memories have a new time to fade.", err=True)
        return await memory.retention.policy(scope, app=of_app)

    rules = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json({kind: _rule_json(rule) for kind, rule in rules.items()})
    else:
        cli.console().print(_rules_table(rules))


def _each_key(
    memory: MemoryEngine,
    scope: Scope,
    keys: Sequence[str],
    done: str,
    verb: Callable[[Scope, Sequence[str]], Awaitable[int]],
    as_json: bool,
) -> None:
    """Apply a verb to memories, report their number, and name each unknown key.

    The exit code is 1 if a key is unknown or no memory changed.
    """

    async def run(memory: MemoryEngine) -> tuple[int, Sequence[str]]:
        unknown = await memory.retention.unknown_keys(scope, keys)
        return await verb(scope, keys), unknown

    count, unknown = cli.with_memory(memory, run)
    text = f"{count} {'memory' if count == 1 else 'memories'} {done}"
    cli.report(text, {"memories": count, "done": done, "unknown": list(unknown)}, as_json)
    for key in unknown:
        typer.echo(
            f"Error: {scope.app} / {scope.user} has no memory {key!r}; `hippocampus timeline"
            " APP USER --json` shows keys", err=True,
        )  # fmt: skip
    raise typer.Exit(0 if count and not unknown else 1)


@cli.app.command()
def pin(
    app_name: cli.App, user: cli.User, keys: Keys, uri: cli.Uri = None, schema: cli.Schema = None,
    embedder: cli.Embedder = None, as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Protect memories from fading, whatever their score. Exit code 1 if a key is unknown."""
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, worker=False)
    _each_key(memory, Scope(app_name, user), keys, "pinned", memory.retention.pin, as_json)


@cli.app.command()
def unpin(
    app_name: cli.App, user: cli.User, keys: Keys, uri: cli.Uri = None, schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Let pinned memories fade again. Exit code 1 if a key is unknown or none was pinned."""
    memory = cli.open_memory(uri, schema=schema, worker=False)
    _each_key(
        memory, Scope(app_name, user), keys, "no longer pinned", memory.retention.unpin, as_json
    )


@cli.app.command()
def recover(
    app_name: cli.App, user: cli.User, keys: Keys, uri: cli.Uri = None, schema: cli.Schema = None,
    embedder: cli.Embedder = None, as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Bring demoted and archived memories back into recall.

    Exit code 1 if a key is unknown or no memory came back.
    """
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, worker=False)
    _each_key(memory, Scope(app_name, user), keys, "restored", memory.retention.revive, as_json)


@cli.app.command()
def forget(
    app_name: cli.App,
    user: cli.User,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys or ids of memories.")] = None,
    about: Annotated[
        str | None, typer.Option(help="Set aside what is about a name or a thing.")
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Remove memories and everything derived from them alone. Exit code 1 if a key is unknown.

    With --about, memories about a topic leave recall now and are erased after 30 days; until then
    `hippocampus runs APP USER --undo RUN` brings them back.
    """
    if bool(keys) == bool(about):
        raise cli.Malformed("name keys to forget, or a topic with --about, one of both")
    memory, scope = cli.open_memory(uri, schema=schema), Scope(app_name, user)
    if about is None:
        _each_key(memory, scope, keys or [], "forgotten", memory.forget, as_json)
        return
    gone = cli.with_memory(memory, lambda memory: memory.forget_about(scope, about))
    undo = f"hippocampus runs {app_name} {user} --undo {gone.done.run_id}"
    text = (
        f"{gone.done.memories} memories about {gone.topic} are set aside until"
        f" {cli.day(gone.done.until)}. To bring them back: {undo}"
        if gone.done.run_id and gone.done.until
        else f"Nothing is about {gone.topic}."
    )
    cli.report(text, gone.to_dict(), as_json)


@cli.app.command()
def faded(
    app_name: cli.App,
    user: cli.User,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of memories.")] = 20,
    as_json: cli.AsJson = False,
) -> None:
    """List memories that faded out of recall and can be recovered, latest first."""
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.retention.list_faded(Scope(app_name, user), limit=limit),
    )
    if as_json:
        for one in found:
            cli.print_json(_kept_json(one))
    elif found:
        table = cli.plain_table("stage", "since", "kind", "memory", "key")
        for one in found:
            table.add_row(one.stage, cli.day(one.staged_at), one.kind, _short(one), Text(one.key))
        cli.console().print(table)
    else:
        typer.echo("Nothing has faded.")


def _cleanup_json(done: RetentionReport, of: str) -> dict[str, JsonValue]:
    """Return a cleanup or its dry run as JSON values. of: the application or user it was for."""
    return {
        "of": of,
        "dry_run": done.dry_run,
        "total": done.total,
        "not_listed": done.not_listed,
        "counts": {fate: _str_keys(done.counts.get(fate, {})) for fate in FATES},
        "along": _str_keys(done.along),
        "retimed": done.retimed,
        "batches": done.batches,
        "duration_s": round(done.duration_s, 4),
        "memories": [
            {**_kept_json(one.kept), "fate": one.fate, "score": one.score, "why": one.why}
            for one in done.listed
        ],
    }


def _str_keys(counts: Mapping[MemoryKind, int]) -> dict[str, JsonValue]:
    return {kind: count for kind, count in counts.items()}


def _kept_json(kept: Kept) -> dict[str, JsonValue]:
    return {
        "app": kept.namespace[0] if kept.namespace else "",
        "user": kept.namespace[1] if len(kept.namespace) > 1 else "",
        "key": kept.key,
        "memory_id": str(kept.memory_id),
        "kind": kept.kind,
        "stage": kept.stage,
        "text": kept.text,
        "forget_at": cli.iso(kept.forget_at),
    }


def _cleanup_line(done: RetentionReport) -> str:
    """Return in one line what a cleanup did, or what a dry run would do."""
    counted = []
    for fate in FATES:
        if kinds := done.counts.get(fate, {}):
            each = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
            counted.append(f"{sum(kinds.values()):,} {fate} ({each})")
    what = ", ".join(counted) or "nothing has faded"
    if along := sum(done.along.values()):
        what += f", and with them {along:,} that had ended"
    if done.dry_run and done.listed and done.not_listed:
        what += f"; {done.not_listed:,} are not listed (--limit lists more)"
    if done.dry_run:
        return f"Would be: {what}."
    return f"{what[0].upper()}{what[1:]}. {done.duration_s:.1f} s in {done.batches} batches."


def _fading_table(done: RetentionReport) -> Table:
    table = cli.plain_table("", "app / user", "kind", "memory", "why")
    for one in done.listed:
        kept = one.kept
        owner = Text(" / ".join(kept.namespace[:2]))
        table.add_row(one.fate, owner, kept.kind, _short(kept), one.why)
    return table


def _short(kept: Kept) -> Text:
    text = " ".join(kept.text.split())
    return Text(text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…")


def _stats_tables(found: RetentionStats) -> Iterator[RenderableType]:
    """Yield statistics: the kinds, the distribution of scores, and what fades when."""
    yield Text(
        f"{found.total.count:,} memories: {found.high:,} score 0.7 or more, {found.medium:,} 0.3 or"
        f" more, {found.low:,} less."
    )
    table = cli.plain_table()
    for name in ("kind", "memories", "average", *STAGES, "pinned", "fade"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    for kind, one in found.kinds.items():
        average = "" if one.average_score is None else f"{one.average_score:.2f}"
        table.add_row(kind, f"{one.count:,}", average, *(f"{one.stages[s]:,}" for s in STAGES),
                      f"{one.pinned:,}", f"{one.fades:,}")  # fmt: skip
    yield table
    most = max(found.total.buckets, default=0) or 1
    bars = Table(box=None, show_header=False, pad_edge=False)
    for number, count in enumerate(found.total.buckets):
        low = number / 10
        bars.add_row(f"{low:.1f}–{low + 0.1:.1f}", "█" * round(30 * count / most), f"{count:,}")
    yield bars
    for days, fates in found.ahead.items():
        fading = ", ".join(f"{count:,} {fate}" for fate, count in fates.items() if count)
        yield Text(f"Within {days:g} days unread: {fading or 'nothing'}.")


def _curve_lines(found: RetentionCurve) -> Iterator[Text]:
    """Yield a memory, its state, its curve and its coming stages."""
    from shared_core.retention.statistics import lines

    kept = found.kept
    yield Text(_short(kept).plain, style="bold")
    reads = f"{kept.access_count} read{'' if kept.access_count == 1 else 's'}"
    pinned = ", pinned" if kept.pinned else ""
    yield Text(
        f"{kept.kind}, {kept.stage}{pinned}: score {found.score:.3f}, {reads}, last"
        f" {'read' if kept.last_accessed_at else 'written'} {kept.used_at:%Y-%m-%d %H:%M} UTC"
    )
    yield from map(Text, lines(found))
    ahead = "; ".join(f"{fate} {at:%Y-%m-%d}" for at, fate in found.stages)
    yield Text(f"Unread: {ahead}." if ahead else "It will not be forgotten.")


def _rule_json(rule: RetentionPolicy | None) -> dict[str, JsonValue] | None:
    """Return the rule of a kind as JSON values, or None for a kind that never fades."""
    return (
        None if rule is None else {name: getattr(rule, name) for name in RetentionPolicy.__slots__}
    )


def _rules_table(rules: Rules) -> Table:
    table = cli.plain_table("kind", "policy", "λ a day", "demoted below", "archived", "erased")
    for kind, rule in rules.items():
        if rule is None:
            table.add_row(kind, "never fades", "", "", "", "")
            continue
        name = next((name for name, known in POLICIES.items() if known == rule), "own")
        table.add_row(
            kind,
            name,
            f"{rule.decay_rate:g}",
            f"{rule.threshold:g}, {rule.min_age_days:g} days old",
            _stage(rule.archive_threshold, rule.archive_after_days),
            _stage(rule.erase_threshold, rule.erase_after_days),
        )
    return table


def _stage(threshold: float | None, days: float) -> str:
    return "never" if threshold is None else f"below {threshold:g}, {days:g} days later"
