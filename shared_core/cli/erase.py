"""Commands that erase a user or a thread, and list the receipts."""

from __future__ import annotations

from typing import Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.core.domain import Scope
from shared_core.core.locale import t


@cli.app.command()
@cli.chinese(
    """彻底删除用户或一个会话线程的全部数据，并打印回执。

    所有数据表中的内容都会删除，包括会话日志，无法恢复。只属于这个用户的令牌也会吊销。
    """
)
def erase(
    app_name: cli.App,
    user: cli.User,
    thread: Annotated[
        str | None,
        typer.Option(
            help=both("Only this thread or ADK session.", "只删除这个会话线程（ADK session）。"),
            show_default=both("all", "全部"),
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help=both("Do not ask for confirmation.", "不再询问确认。"))
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Erase all data of a user, or of one thread; print the receipt.

    The data goes from every table, session logs too. This cannot be undone. Tokens for this user
    alone are revoked.
    """
    what = t(f"user {user!r} of application {app_name!r}", f"应用 {app_name!r} 的用户 {user!r}")
    if thread is not None:
        what = t(f"thread {thread!r} of {what}", f"{what} 的会话线程 {thread!r}")
    if not yes:
        if not cli.console().is_terminal:
            raise cli.Malformed(
                t(
                    f"this erases {what} for good: add --yes where nobody can confirm",
                    f"这会彻底删除{what} 的数据：在无人确认的地方请加上 --yes",
                )
            )
        if not cli.confirmed(t(f"Erase {what} for good?", f"彻底删除{what} 的数据？")):
            raise typer.Abort
    receipt = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False, track_access=False),
        lambda memory: memory.erase(Scope(app_name, user), thread),
    )
    counts = sorted(receipt.counts.items())
    english = ", ".join(f"{count:,} of {table}" for table, count in counts) or "there was nothing"
    chinese = "、".join(f"{table} {count:,} 行" for table, count in counts) or "没有数据"
    text = t(
        f"Erased {what}: {english}. Receipt {receipt.erasure_id}.",
        f"已删除{what} 的数据：{chinese}。回执 {receipt.erasure_id}。",
    )
    cli.report(text, receipt.to_dict(), as_json)


@cli.app.command()
@cli.chinese("列出彻底删除的回执，新的在前。")
def erasures(
    app_name: cli.OnlyApp = None,
    user: cli.OnlyUser = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help=both("Print JSON, one line per receipt.", "以 JSON 输出，每份回执一行。")
        ),
    ] = False,
) -> None:
    """List the receipts of erasures, newest first."""
    with cli.malformed():
        scope, of_app = cli.scope_options(app_name, user)
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False, track_access=False),
        lambda memory: memory.erasures(scope, app=of_app),
    )
    if as_json:
        for receipt in found:
            cli.print_json(receipt.to_dict())
    elif found:
        rows = [
            (
                one.completed_at.isoformat(timespec="seconds"), one.scope.app, one.scope.user,
                one.thread_id or "", f"{one.counts.get('memories', 0):,}",
                str(one.erasure_id) if one.is_intact else t(
                    f"{one.erasure_id}: changed since", f"{one.erasure_id}：之后被改动"
                ),
            )
            for one in found
        ]  # fmt: skip
        names = (
            t("when", "时间"), t("application", "应用"), t("user", "用户"), t("thread", "会话线程"),
            t("memories", "记忆数"), t("receipt", "回执"),
        )  # fmt: skip
        cli.print_all([cli.Grid(names=names, rows=rows)])
    else:
        cli.say(t("Nothing was erased.", "没有删除过任何数据。"))
