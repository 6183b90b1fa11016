"""The command that serves the memory over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.core.locale import t

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine


@cli.app.command()
@cli.chinese(
    """以模型上下文协议（MCP）的工具提供记忆。

    默认通过标准输入和标准输出。标准输出只传输协议，消息写到标准错误。客户端会自行启动本命令。
    """
)
def mcp(
    app_name: Annotated[
        str,
        typer.Option(
            "--app",
            envvar="HIPPOCAMPUS_APP",
            help=both("Application, ADK's app_name.", "应用，即 ADK 的 app_name。"),
        ),
    ] = "default",
    user: Annotated[
        str | None,
        typer.Option(
            help=both("Serve this user alone.", "只服务这个用户。"),
            show_default=both("the user that a call names", "调用中指明的用户"),
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=both(
                "Serve streamable HTTP there instead, e.g. 127.0.0.1:8321.",
                "改为在此地址提供 streamable HTTP，如 127.0.0.1:8321。",
            ),
        ),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    llm: cli.Llm = None,
) -> None:
    """Serve the memory as tools of the Model Context Protocol (MCP).

    It speaks over standard input and output. Standard output carries the protocol alone; messages
    go to standard error. Clients start this command themselves.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    memory = cli.open_memory(uri, schema=schema, embedder=embedder, llm=cli.ready_model(llm))
    memory.conversations.check()
    asyncio.run(_serve(memory, app_name, user, http))


async def _serve(memory: MemoryEngine, app: str, user: str | None, http: str | None) -> None:
    """Serve on standard input and output, or at HOST:PORT. Raises ExtraMissing without the SDK."""
    from shared_core.core.event_loops import handling_end_signals
    from shared_core.mcp import server as mcp

    if http is None:
        await mcp.serve_stdio(mcp.build(memory, app, user), memory)
        return
    host, port = mcp.address_of(http)
    signals: list[int] = []
    with handling_end_signals(signals.append):
        async with memory:
            if not signals:
                await _serve_http(memory, app, user, (host, port), signals)


async def _serve_http(
    memory: MemoryEngine,
    app: str,
    user: str | None,
    address: tuple[str, int],
    signals: Sequence[int],
) -> None:
    """Serve at an address until a signal; not at all if one arrives before the server is up."""
    from shared_core.jobs.api_tokens import FirstToken
    from shared_core.mcp import server as mcp
    from shared_core.mcp.access import TokenGate

    first = FirstToken(memory.tokens)
    with_tokens = await first.is_made()
    with mcp.listen(*address, with_tokens=with_tokens) as listening:
        server = mcp.build(memory, app, user)
        url = mcp.url_of(listening)
        english = "a token is needed" if with_tokens else "no token is needed"
        chinese = "需要令牌" if with_tokens else "不需要令牌"
        cli.say(t(f"Serving {url} ({english})", f"正在服务 {url}（{chinese}）"), err=True)
        gate = TokenGate(app, memory.tokens.verify, first.is_made)
        if signals:
            return
        await mcp.serve_http(server, memory, listening, gate=gate)
