"""The entry point of the command `hippocampus`, and the commands demo, doctor and migrate.

A command imports the engine, a driver or a framework inside its function, so that --help is fast.
"""

from __future__ import annotations

import asyncio
import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from shared_core import __version__
from shared_core.cli import (  # noqa: F401 # each registers its commands
    adk,
    app as cli,
    erase,
    extraction,
    facts,
    graph,
    imports,
    index,
    mcp,
    memories,
    profile,
    retention,
    runs,
    serve,
    transfer,
    ui,
    work,
)
from shared_core.cli.app import app, both
from shared_core.cli.help import arrange_help
from shared_core.core.locale import speaking, t

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine

MARKS = {"ok": ("✓", "green"), "note": ("-", "yellow"), "problem": ("✗", "red")}
"""Mark and colour of a finding of the doctor, by its status."""


class DemoLanguage(StrEnum):
    """The conversations that the demo plays."""

    ENGLISH = "en"
    CHINESE = "zh"
    BOTH = "both"


class DemoEngine(StrEnum):
    """The database engine of the demo."""

    POSTGRES = "postgres"
    SEEKDB = "seekdb"


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"hippocampus {__version__}")
        raise typer.Exit


@app.callback()
@cli.chinese("AI 智能体的长期记忆，Google ADK 与 LangGraph 共用。")
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help=both("Show the version.", "显示版本号。"),
        ),
    ] = False,
) -> None:
    """Long-term memory for AI agents, shared by Google ADK and LangGraph."""


@app.command()
@cli.chinese(
    """现场演示：通过 ADK 学习两段对话，再通过 LangGraph 和 ADK 提问。

    在临时文件夹中运行，结束后删除；使用 --keep 或 --uri 时写入你自己的记忆。
    """
)
def demo(
    language: Annotated[
        DemoLanguage,
        typer.Option(
            help=both(
                "Language of the conversations: en, zh or both.",
                "对话的语言：en、zh 或 both（两者）。",
            )
        ),
    ] = DemoLanguage.BOTH,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help=both(
                "Write to your own memory, and leave the data there.",
                "写入你自己的记忆，并保留数据。",
            ),
        ),
    ] = False,
    engine: Annotated[
        DemoEngine,
        typer.Option(
            help=both(
                "Engine of the database in the temporary folder: postgres or seekdb.",
                "临时文件夹中数据库的引擎：postgres 或 seekdb。",
            )
        ),
    ] = DemoEngine.POSTGRES,
    as_json: cli.AsJson = False,
) -> None:
    """See it work: learn two conversations, then ask about them.

    They are learned through ADK, and asked about through LangGraph and ADK. Runs in a temporary
    folder that is removed at the end; with --keep or --uri in your own memory.
    """
    from shared_core.cli.demo.script import LANGUAGES
    from shared_core.cli.demo.tour import Tour

    if engine is not DemoEngine.POSTGRES and (uri or keep):
        raise cli.Malformed(
            t(
                "--engine is for the temporary folder: give the engine in --uri instead",
                "--engine 只用于临时文件夹：请改在 --uri 中指明引擎",
            )
        )
    chosen = [one for one in LANGUAGES if language in (one, DemoLanguage.BOTH)]
    tour = Tour(languages=chosen, uri=uri, schema=schema, keep=keep, engine=engine.value)
    results = asyncio.run(tour.run(cli.console(stderr=as_json)))
    if as_json:
        cli.print_json([result.to_dict() for result in results])


@app.command()
@cli.chinese(
    """检查记忆和数据库，并说明如何解决每个问题。

    有问题时退出码为 1。
    """
)
def doctor(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    start: Annotated[
        bool,
        typer.Option(
            "--start", help=both("First create what does not exist yet.", "先创建还不存在的内容。")
        ),
    ] = False,
    as_json: cli.AsJson = False,
) -> None:
    """Check the memory and its database, and tell how to fix problems.

    Exit code 1 if there is a problem.
    """
    from shared_core.cli.doctor import check_name, examine

    with speaking("en" if as_json else None):
        findings = examine(uri, schema=schema, embedder=embedder, start=start)
    well = all(finding.status != "problem" for finding in findings)
    if as_json:
        found = [dataclasses.asdict(finding) for finding in findings]
        cli.print_json({"ok": well, "findings": found}, indent=2)
    else:
        rows = []
        for finding in findings:
            mark, style = MARKS[finding.status]
            text = Text(finding.found)
            if finding.advice:
                text.append(f"\n→ {finding.advice}", style=style)
            rows.append((Text(mark, style=style), check_name(finding.check), text))
        names = ("", t("check", "检查"), t("found, and what to do", "结果与办法"))
        verdict = t("All is well.", "一切正常。")
        if not well:
            verdict = t("There are problems: see the ✗ lines.", "有问题：见标 ✗ 的行。")
        cli.print_all([cli.Grid(names=names, rows=rows), verdict])
    raise typer.Exit(0 if well else 1)


@app.command()
@cli.chinese("把数据库升级到本版本的结构。首次使用时会自动升级。")
def migrate(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    distribute: Annotated[
        bool,
        typer.Option(
            "--distribute",
            help=both(
                "Then spread the tables over the nodes of Citus.",
                "然后把数据表分布到 Citus 的节点上。",
            ),
        ),
    ] = False,
    backup_role: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE",
            help=both(
                "Then let this role read all rows, for pg_dump --enable-row-security.",
                "然后允许这个角色读取所有行，用于 pg_dump --enable-row-security。",
            ),
        ),
    ] = None,
    as_json: cli.AsJson = False,
) -> None:
    """Upgrade the database to this version; the first use does the same."""

    async def run(memory: MemoryEngine) -> dict[str, Any]:
        report = await memory.report()
        found = dataclasses.asdict(report)
        if distribute:
            from shared_core.storage.postgres.connection.citus import spread

            tables = await asyncio.to_thread(spread, await memory.dsn(), report.schema)
            found["tables"] = [dataclasses.asdict(table) for table in tables]
        if backup_role is not None:
            from shared_core.storage.postgres.connection.backup import allow_backup

            found["tables_for_backup"] = await asyncio.to_thread(
                allow_backup, await memory.dsn(), report.schema, backup_role
            )
        return found

    found = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json(found)
        return
    vectors = "pgvector" if "PostgreSQL" in found["engine"] else t("vectors", "向量")
    server = f"{found['engine']} {found['server_version']}, {vectors} {found['extension_version']}"
    name, version, where = found["schema"], found["schema_version"], found["location"]
    lines = [
        t(
            f"Schema {name!r} is at version {version}: {server}, role {found['role']}, in {where}",
            f"模式 {name!r} 是第 {version} 版：{server}，角色 {found['role']}，位于 {where}",
        )
    ]
    for table in found.get("tables", ()):
        moved = t(", moved", "，已移动") if table["moved"] else ""
        lines.append(f"{table['table']}: {table['place']}{moved}")
    if backup_role is not None:
        count = found["tables_for_backup"]
        lines.append(
            t(
                f"Role {backup_role!r} may read {count} tables.",
                f"角色 {backup_role!r} 可以读取 {count} 个数据表。",
            )
        )
    cli.print_all(lines)


arrange_help(app)
if __name__ == "__main__":
    app()
