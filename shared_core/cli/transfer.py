"""Commands that move memories: export, copy, reembed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO
from uuid import uuid4

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.core.domain import Scope
from shared_core.core.locale import t
from shared_core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from shared_core.copy import Copied, CopiedApplication, CopiedPolicies
    from shared_core.engine import MemoryEngine
    from shared_core.transfer.reembedding import ReembedReport, TextOfField

FRAME = 2
"""Number of lines of an export that are not rows: the first and the last."""
CHUNK = 500
"""Number of lines of an export in one write."""


@cli.app.command()
@cli.chinese(
    """把用户或应用的全部数据写成 JSON 行。

    导出是某一时刻的快照，顺序固定：同样的数据导出两次，结果相同。没有 --out 时写到标准输出。
    没有可导出的内容时，退出码为 1。
    """
)
def export(
    app_name: cli.App,
    user: Annotated[
        str | None,
        typer.Argument(
            metavar="USER",
            help=both("Only this user.", "只限这个用户。"),
            show_default=both("all users", "所有用户"),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE",
            help=both("File to write.", "要写入的文件。"),
            show_default=both("standard output", "标准输出"),
        ),
    ] = None,
    with_vectors: Annotated[
        bool,
        typer.Option(
            "--with-vectors",
            help=both(
                "Include vectors, so that an import need not embed.",
                "包含向量，导入时无需重新计算。",
            ),
        ),
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help=both("Print JSON; needs --out.", "以 JSON 输出；需要 --out。")),
    ] = False,
) -> None:
    """Write all data of a user or an application as lines of JSON.

    The export is a snapshot of one moment in a fixed order: two exports of the same data are equal.
    Without --out the lines go to standard output. Exit code 1 if there is nothing to export.
    """
    if out is not None and _is_standard_output(out):
        out = None
    memory = cli.open_memory(uri, schema=schema, worker=False, track_access=False, create=False)
    rows = cli.with_memory(
        memory,
        lambda memory: _export(memory, app_name, user, out, vectors=with_vectors, silent=as_json),
    )
    if out is None:
        return
    if as_json:
        cli.print_json({"rows": rows, "file": str(out)})
    else:
        cli.say(t(f"{rows:,} rows written to {out}.", f"已写入 {rows:,} 行到 {out}。"))


@cli.app.command()
@cli.chinese(
    """把全部数据从一个数据库复制到另一个，引擎不限，并比较两边。

    除非给出 --app，对所有应用的保留策略也会复制。目标中已有的行保持不变。中断后再运行一次即可
    继续。最后若有一行不同，或来源为空，退出码为 1。
    """
)
def copy(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URI",
            help=both("URI of the database to read.", "要读取的数据库的 URI。"),
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="URI",
            help=both("URI of the database to write.", "要写入的数据库的 URI。"),
        ),
    ],
    app_name: Annotated[
        list[str] | None,
        typer.Option(
            "--app",
            help=both("Only this application; repeatable.", "只限这个应用；可重复。"),
            show_default=both("all", "全部"),
        ),
    ] = None,
    embedder: cli.Embedder = None,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore",
            help=both("Also write what was forgotten in the target.", "也写入目标中已遗忘的内容。"),
        ),
    ] = False,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Copy all data to another database, of any engine; compare the two.

    Retention policies for all applications are copied too, unless --app is given. Existing rows in
    the target stay. Run it again after an interruption to copy the rest. Exit code 1 if a row
    differs in the end, or the source is empty.
    """
    there = cli.open_memory(source, schema=schema, worker=False, track_access=False, create=False)
    here = cli.open_memory(
        target, schema=schema, embedder=embedder, worker=False, track_access=False
    )

    async def run(there: MemoryEngine) -> Copied:
        from shared_core.copy import copy_memory

        async with here:
            with cli.progress_bar(silent=as_json) as progress:
                bar = progress.add_task(t("Copying", "正在复制"), total=None)
                return await copy_memory(
                    there,
                    here,
                    apps=app_name or (),
                    restore=restore,
                    text_of_field=langgraph_fields(),
                    progress=lambda app, what, lines: progress.update(
                        bar, description=f"{app}: {what}", completed=lines
                    ),
                )

    done = cli.with_memory(there, run)  # first the source: a wrong one must not make the target
    if as_json:
        cli.print_json(dataclasses.asdict(done) | {"complete": done.complete})
    else:
        cli.print_all(_copied_lines(done))
    raise typer.Exit(0 if done.complete and not done.found_nothing else 1)


@cli.app.command()
@cli.chinese(
    """更换嵌入模型：用新模型计算全部向量，然后切换。

    期间仍使用旧模型。之后若模型不是自带的，打开记忆时请用 --embedder 或 embedder= 指明。
    中断后再运行一次即可继续。有大用户时，最后请运行 `hippocampus index`。
    """
)
def reembed(
    embedder: Annotated[
        str,
        typer.Option(
            help=both(
                "The new model: use, e5 or google:MODEL.", "新模型：use、e5 或 google:MODEL。"
            )
        ),
    ],
    drop_old: Annotated[
        bool,
        typer.Option(
            "--drop-old",
            help=both("Delete the vectors of other models at the end.", "最后删除其他模型的向量。"),
        ),
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Change the embedding model: make all vectors anew, then switch.

    The old model stays in use meanwhile. Afterwards open the memory with --embedder or embedder= if
    the model is not bundled. Run it again after an interruption to embed the rest, and run
    `hippocampus index` at the end if there are large users.
    """

    async def run(memory: MemoryEngine) -> ReembedReport:
        from shared_core.models.embedders import resolve_embedder

        with cli.progress_bar(silent=as_json) as progress:
            bar = progress.add_task(t("Embedding", "正在计算向量"), total=None)
            return await memory.reembed(
                resolve_embedder(embedder),
                drop_old=drop_old,
                text_of_field=langgraph_fields(),
                progress=lambda count: progress.update(bar, completed=count),
            )

    done = cli.with_memory(cli.open_memory(uri, schema=schema, worker=False), run)
    if as_json:
        cli.print_json(dataclasses.asdict(done))
        return
    counts = [t(f"{done.embedded:,} vectors made", f"已计算 {done.embedded:,} 个向量")]
    if done.left:
        counts.append(
            t(f"{done.left:,} fields left without one", f"{done.left:,} 个字段仍没有向量")
        )
    if done.dropped:
        counts.append(
            t(f"{done.dropped:,} old vectors dropped", f"已删除 {done.dropped:,} 个旧向量")
        )
    cli.say(
        t(
            f"{', '.join(counts)}. The model in use is now {done.model!r}.",
            f"{'，'.join(counts)}。现在使用的模型是 {done.model!r}。",
        )
    )


async def _export(
    memory: MemoryEngine,
    app: str,
    user: str | None,
    out: Path | None,
    *,
    vectors: bool,
    silent: bool,
) -> int:
    """Write an export to a file or to standard output, and return its number of rows.

    A file appears only when it is complete. Raises NotFound if there is nothing to export.
    """
    scope = None if user is None else Scope(app, user)
    of_app = app if scope is None else None
    silent = silent or (out is None and cli.console().is_terminal)  # the lines go there
    with _written(out) as file, cli.progress_bar(silent=silent) as progress:
        bar = progress.add_task(t("Exporting", "正在导出"), total=None)
        count = 0
        async with aclosing(memory.export(scope, app=of_app, vectors=vectors)) as lines:
            chunk: list[str] = []
            async for line in lines:
                chunk.append(line)
                count += 1
                if count > FRAME and len(chunk) >= CHUNK:
                    _write(file, chunk)
                    progress.update(bar, completed=count)
        if count == FRAME:
            owner = f"user {user!r} in application {app!r}" if user else f"application {app!r}"
            of_user = f" 的用户 {user!r} " if user else " "
            raise NotFound(
                t(
                    f"{owner} has nothing to export: check the names, --uri and --schema",
                    f"应用 {app!r}{of_user}没有可导出的内容：请检查名称、--uri 和 --schema",
                )
            )
        _write(file, chunk)
    return count - FRAME


def _write(file: BinaryIO, lines: list[str]) -> None:
    file.writelines(f"{line}\n".encode() for line in lines)
    lines.clear()


@contextmanager
def _written(out: Path | None) -> Iterator[BinaryIO]:
    """Open what an export writes to. A file appears, or is replaced, when the block succeeds."""
    try:
        if out is None:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif out.exists() and not out.is_file():
            # A pipe or a device takes the lines itself: a rename would put a file in its place.
            with out.open("wb") as stream:
                yield stream
        else:
            yield from _replaced(out.resolve())
    except OSError as error:
        if out is None:  # Commands reports it
            raise
        name = repr(str(out))
        raise InvalidInput(
            t(
                f"{name} cannot be written: {error.strerror}. Name a file in a folder that exists,"
                " that you may write to, and that has room.",
                f"无法写入 {name}：{error.strerror}。"
                "请指定一个文件，所在文件夹须存在、可写且有空间。",
            )
        ) from error


def _replaced(target: Path) -> Iterator[BinaryIO]:
    """Yield a new file beside the target; it takes the target's place, and its mode, at the end."""
    part = target.with_name(f"{target.name}.{uuid4().hex[:8]}.part")
    with part.open("xb") as file:
        try:
            if target.exists():
                shutil.copymode(target, part)
            yield file
            file.flush()
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _is_standard_output(out: Path) -> bool:
    """Return whether a path leads to this process's standard output, as /dev/stdout does."""
    return out.exists() and os.path.samestat(out.stat(), os.fstat(1))


def _copied_lines(done: Copied) -> Sequence[str]:
    """Return the result of a copy: one line per application, and one for common policies."""
    lines = [t(*_copied_line(one)) for one in done.applications]
    if policies := _policies_line(done.policies):
        lines.append(
            t(
                f"Retention policies for all applications: {policies}.",
                f"对所有应用的保留策略：{policies}。",
            )
        )
    return lines or [t("There is nothing in the source.", "来源中没有内容。")]


def _copied_line(one: CopiedApplication) -> tuple[str, str]:
    """Return the result for one application, in English and in Chinese."""
    other = f", {one.differ:,} of them with other values, which stay" if one.differ else ""
    differ = f"，其中 {one.differ:,} 行的值不同，保持不变" if one.differ else ""
    source, target = f"{one.source.rows:,}", f"{one.target.rows:,}"
    return (
        f"{one.app}: {one.written:,} rows written, {one.here:,} were there already{other}."
        f" {source} rows in the source, {target} in the target:"
        f" {'they agree' if one.agrees else 'they differ'}.",
        f"{one.app}：写入 {one.written:,} 行，{one.here:,} 行原已存在{differ}。来源 {source} 行，"
        f"目标 {target} 行：{'一致' if one.agrees else '不一致'}。",
    )


def _policies_line(policies: CopiedPolicies) -> str:
    results = [
        (policies.written, t("written", "已写入")),
        (policies.here, t("were there already", "原已存在")),
        (
            policies.differ,
            t(
                "set otherwise in the target, which stays: they differ",
                "目标中另有设置，保持不变：不一致",
            ),
        ),
        (policies.only_there, t("set in the target alone: they differ", "只在目标中设置：不一致")),
        (policies.left, t("not copied with --app", "使用 --app 时不复制")),
    ]
    return "; ".join(f"{', '.join(kinds)} {result}" for kinds, result in results if kinds)


def langgraph_fields() -> TextOfField | None:
    """Return the function that finds the texts in an item's fields, or None without LangGraph."""
    try:
        from langgraph_store.operations import text_of_field
    except ModuleNotFoundError:
        return None
    return text_of_field
