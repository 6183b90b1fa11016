"""The command `hippocampus import`: our exports, and memories of other products."""

from __future__ import annotations

import dataclasses
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.record_import import RecordImport, run_record_import, telling_interruption
from shared_core.cli.store_import import MAX_BATCH, USER_LABEL, StoreImport, run_store_import
from shared_core.cli.transfer import langgraph_fields
from shared_core.core.locale import t
from shared_core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.transfer.service import ImportedLines


class Product(StrEnum):
    """What wrote the source."""

    HIPPOCAMPUS = "hippocampus"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    GRAPHITI = "graphiti"
    LANGMEM = "langmem"
    LETTA = "letta"
    MEM0 = "mem0"
    POSTGRES_STORE = "postgres-store"
    ZEP = "zep"


STORES = (Product.POSTGRES_STORE, Product.LANGMEM)
"""Products that are read from a database alone."""
DSN = ("postgresql://", "postgres://")
OURS = b'"hippocampus_export"'
"""Is in the first line of every export of this memory."""
FIRST = 4096
"""Number of bytes that are looked at for it."""

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help=both(
            "A file, or the DSN of a database: postgresql://...",
            "文件，或数据库的 DSN：postgresql://...",
        ),
    ),
]
From = Annotated[
    Product | None,
    typer.Option(
        "--from",
        metavar="PRODUCT",
        help=both(
            f"What wrote the source: {', '.join(Product)}.", f"来源由谁写成：{'、'.join(Product)}。"
        ),
        show_default=both("a file shows it", "从文件看出"),
    ),
]
AppName = Annotated[
    str | None,
    typer.Option("--app", help=both("Application that gets the memories.", "得到这些记忆的应用。")),
]
UserName = Annotated[
    str | None,
    typer.Option(
        "--user",
        help=both("User who gets the memories.", "得到这些记忆的用户。"),
        show_default=both("the one whom the source names", "来源中指明的用户"),
    ),
]
SourceUser = Annotated[
    str | None,
    typer.Option(
        metavar="USER",
        help=both("Only memories of this user of the source.", "只导入来源中这个用户的记忆。"),
    ),
]
Later = Annotated[
    bool,
    typer.Option(
        "--later",
        help=both(
            "Leave embedding and facts of turns to a worker.",
            "向量和对话中的事实留给 worker 处理。",
        ),
    ),
]
TableName = Annotated[
    str, typer.Option("--table", help=both("mem0: the collection.", "mem0：集合的名称。"))
]
NamespaceOption = Annotated[
    str,
    typer.Option(
        "--namespace",
        metavar="LABELS",
        help=both(
            f"langmem: its labels; {USER_LABEL} is the user.",
            f"langmem：它的标签；{USER_LABEL} 是用户。",
        ),
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        help=both(
            "postgres-store: only namespaces below a.b.",
            "postgres-store：只导入 a.b 之下的命名空间。",
        )
    ),
]
Batch = Annotated[
    int,
    typer.Option(
        min=1, max=MAX_BATCH, help=both("Stores: items in one read.", "存储：每次读取的条数。")
    ),
]
VectorsFrom = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help=both(
            "Stores: keep the vectors there, made by this model.",
            "存储：保留其中由这个模型生成的向量。",
        ),
    ),
]
Reembed = Annotated[
    bool,
    typer.Option(
        "--reembed", help=both("Stores: embed every item again.", "存储：重新计算全部向量。")
    ),
]
Restore = Annotated[
    bool,
    typer.Option(
        "--restore",
        help=both(
            "Also write what was deleted or forgotten here.", "也写入在这里删除或遗忘过的内容。"
        ),
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help=both("Read everything and write nothing.", "全部读取，但不写入任何内容。")
    ),
]


@cli.app.command("import")
@cli.chinese(
    """导入 hippocampus 的导出文件，或其他产品的记忆。

    文件：ChatGPT、Claude、Letta、mem0、Zep 和 Graphiti 的导出。数据库：mem0（pgvector），以及
    LangGraph 的 PostgresStore，可带 langmem。来源只被读取，并在写入之前读到末尾。已有数据保持不变，
    中断后再运行一次即可继续。有内容无法保存时，退出码为 1。
    """
)
def import_(
    source: Source,
    product: From = None,
    app_name: AppName = None,
    user: UserName = None,
    source_user: SourceUser = None,
    later: Later = False,
    table: TableName = "mem0",
    namespace: NamespaceOption = f"memories.{USER_LABEL}",
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    prefix: Prefix = "",
    batch: Batch = 500,
    vectors_from: VectorsFrom = None,
    reembed: Reembed = False,
    restore: Restore = False,
    dry_run: DryRun = False,
    as_json: cli.AsJson = False,
) -> None:
    """Import an export of hippocampus, or memories of another product.

    Files: exports of ChatGPT, Claude, Letta, mem0, Zep and Graphiti. Databases: mem0 (pgvector),
    and LangGraph's PostgresStore, with or without langmem. The source is only read, and read to its
    end before anything is written. Existing data stays unchanged, so run it again after an
    interruption to import the rest. Exit code 1 if something could not be stored.
    """
    found = _product(source, product)
    if found in STORES:
        _refuse(found, user=user, source_user=source_user, later=later)
        if found is Product.LANGMEM:
            app_name = _app(app_name, found)
        elif app_name:
            _refuse(found, app=app_name)
        task = StoreImport(
            dsn=source, uri=uri, schema=schema, embedder=embedder, prefix=prefix, batch=batch,
            vectors_from=vectors_from, reembed=reembed, restore=restore, app=app_name,
            namespace=namespace,
        )  # fmt: skip
        with telling_interruption(lambda: _interrupted(dry_run)):
            run_store_import(task, dry_run=dry_run, as_json=as_json)
        return
    _refuse(found, prefix=prefix, vectors_from=vectors_from, reembed=reembed)
    if found is Product.HIPPOCAMPUS:
        _refuse(found, app=app_name, user=user, source_user=source_user, later=later)
        where = (uri, schema, embedder)
        with telling_interruption(lambda: _interrupted(dry_run)):
            _run_import(Path(source), where, restore=restore, dry_run=dry_run, as_json=as_json)
        return
    records = _record_import(
        source, found, table, app=_app(app_name, found), user=user, source_user=source_user,
        later=later, restore=restore,
    )  # fmt: skip
    records = dataclasses.replace(records, uri=uri, schema=schema, embedder=embedder)
    run_record_import(records, dry_run=dry_run, as_json=as_json)


def _interrupted(dry_run: bool) -> str:
    if dry_run:
        return t("Interrupted: nothing was written.", "已中断：没有写入任何内容。")
    return t(
        "Interrupted: the same command imports the rest.",
        "已中断：再次运行同一命令即可导入其余内容。",
    )


def _is_database(source: str) -> bool:
    return source.startswith(DSN) or ("dbname=" in source and not Path(source).exists())


def _product(source: str, given: Product | None) -> Product:
    """Return what wrote the source. Raises Malformed if it cannot come from a given product."""
    is_database = _is_database(source)
    if given is None and not is_database:
        return _product_of_file(Path(source))
    if given is None or (is_database and given not in (*STORES, Product.MEM0)):
        raise cli.Malformed(
            t(
                "a database holds memories of mem0, langmem or postgres-store: say which with"
                f" --from, got {given or 'none'}",
                "数据库中的记忆属于 mem0、langmem 或 postgres-store：请用 --from 指明，"
                f"收到的是 {given or '空'}",
            )
        )
    return given


def _product_of_file(file: Path) -> Product:
    from shared_core.transfer.lines import opened
    from shared_core.transfer.sources import open_source

    with opened(file) as readable:
        start = readable.read(FIRST)
    if OURS in start:
        return Product.HIPPOCAMPUS
    return Product(open_source(file).product)


def _refuse(product: Product, **options: object) -> None:
    """Raise Malformed for an option that is set and does not belong to a product."""
    for name, value in options.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise cli.Malformed(
                t(
                    f"{option} does not go with a source of {product}: leave it out",
                    f"{option} 不适用于 {product} 的来源：请去掉",
                )
            )


def _app(app_name: str | None, product: Product) -> str:
    if app_name is None:
        raise cli.Malformed(
            t(
                f"memories of {product} need --app: name the application that gets them",
                f"{product} 的记忆需要 --app：请指明得到它们的应用",
            )
        )
    return app_name


def _record_import(source: str, product: Product, table: str, **options: Any) -> RecordImport:
    from shared_core.transfer.record_import import RecordOptions
    from shared_core.transfer.sources import Mem0Store, RecordSource, open_source

    opened: RecordSource
    if _is_database(source):
        from shared_core.storage.postgres.mem0_table import Mem0Table

        opened = Mem0Store(Mem0Table(source, table))
    else:
        opened = open_source(source, product)
    dsn = source if _is_database(source) else None
    return RecordImport(source=opened, options=RecordOptions(**options), dsn=dsn)


def _run_import(
    file: Path,
    where: tuple[str | None, str | None, str | None],
    *,
    restore: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import an export of hippocampus. where: uri, schema and embedder of the memory."""
    if dry_run:
        _check_file(file, as_json)
        return
    uri, schema, embedder = where
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, worker=False)
    done = cli.with_memory(
        memory, lambda memory: _import_file(memory, file, restore=restore, silent=as_json)
    )
    if as_json:
        cli.print_json(dataclasses.asdict(done))
    else:
        cli.say(_imported_line(done))


def _check_file(file: Path, as_json: bool) -> None:
    """Check an export to its end, and print its owner and its number of rows."""
    from shared_core.transfer.lines import LineReader, lines_of, opened

    reader = LineReader(file.name)
    tables: Counter[str] = Counter()
    with opened(file) as readable:
        for batch in reader.batches(lines_of(readable, file.name)):
            tables[batch.table] += len(batch.lines)
    assert reader.header is not None
    owner, model = reader.header.export_scope, reader.header.model
    if as_json:
        found = {"app": owner.app, "user": owner.user, "vectors": model}
        cli.print_json(found | {"rows": tables.total(), "tables": dict(tables)})
        return
    rows = f"{tables.total():,}"
    user = f"user {owner.user!r} of " if owner.user else ""
    vectors = f"with vectors of {model!r}" if model else "without vectors"
    of_user = f" 的用户 {owner.user!r}" if owner.user else ""
    with_vectors = f"含 {model!r} 的向量" if model else "不含向量"
    cli.say(
        t(
            f"{user}application {owner.app!r}: {rows} rows, {vectors}; all checked.",
            f"应用 {owner.app!r}{of_user}：{rows} 行，{with_vectors}；全部检查通过。",
        )
    )


async def _import_file(
    memory: MemoryEngine, file: Path, *, restore: bool, silent: bool
) -> ImportedLines:
    """Import an export and show the progress."""
    from shared_core.transfer.lines import opened

    try:
        with opened(file) as lines:
            total = sum(part.count(b"\n") for part in iter(lambda: lines.read(1 << 20), b""))
    except (OSError, NotFound, InvalidInput):  # the import itself reports it
        total = None
    with cli.progress_bar(silent=silent) as progress:
        bar = progress.add_task(t("Importing", "正在导入"), total=total)
        return await memory.import_lines(
            file,
            restore=restore,
            text_of_field=langgraph_fields(),
            progress=lambda line: progress.update(bar, completed=line),
        )


def _imported_line(done: ImportedLines) -> str:
    counts = [
        t(f"{done.written:,} rows written", f"写入 {done.written:,} 行"),
        t(f"{done.here:,} were here already", f"{done.here:,} 行原已存在"),
    ]
    if done.differ:
        counts.append(
            t(
                f"{done.differ:,} of them with other values, which stay",
                f"其中 {done.differ:,} 行的值不同，保持不变",
            )
        )
    if done.embedded:
        counts.append(t(f"{done.embedded:,} vectors made", f"计算 {done.embedded:,} 个向量"))
    if done.unembedded:
        counts.append(
            t(
                f"{done.unembedded:,} fields without their vectors",
                f"{done.unembedded:,} 个字段没有向量",
            )
        )
    return t(", ".join(counts) + ".", "，".join(counts) + "。")
