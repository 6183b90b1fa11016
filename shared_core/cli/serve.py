"""Commands of the HTTP server: serve, and token to manage its tokens."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.layout import Grid
from shared_core.cli.ui import Auth, Host, Port, Worker, inspector_line, inspector_options
from shared_core.core.locale import t
from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    from shared_core.ports.api_tokens import ApiToken, Opens

_SPAN = re.compile(r"(\d{1,5})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}

tokens = cli.group(
    "token",
    both(
        "Create, list and revoke tokens of the HTTP server.", "创建、列出和吊销 HTTP 服务的令牌。"
    ),
)


@cli.app.command()
@cli.chinese(
    """通过 HTTP 提供记忆，直到 SIGTERM 或 Ctrl-C。

    /docs 列出所有路由。其他机器访问需要令牌，见 hippocampus token。试一试：
    curl http://127.0.0.1:8420/remember -H 'Content-Type: application/json'
    -d '{"user_id": "ana", "memories": ["我喜欢喝茶。"]}'
    """
)
def serve(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    llm: cli.Llm = None,
    embedded: Annotated[
        bool,
        typer.Option(
            "--embedded",
            help=both(
                "Use the embedded PostgreSQL, whatever is configured.",
                "使用内嵌的 PostgreSQL，不管配置了什么。",
            ),
        ),
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8420,
    auth: Auth = None,
    app_name: Annotated[
        str,
        typer.Option(
            "--app",
            envvar="HIPPOCAMPUS_APP",
            help=both(
                "Application of requests without a token that name none.",
                "没有令牌也没有指明应用的请求所属的应用。",
            ),
        ),
    ] = "default",
    max_body: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="BYTES",
            help=both("Maximum size of a request body in bytes.", "请求正文的最大字节数。"),
        ),
    ] = 1_048_576,
    rate: Annotated[
        float,
        typer.Option(
            min=0,
            help=both(
                "Requests per second of one token; 0 for no limit.",
                "每个令牌每秒的请求数；0 表示不限。",
            ),
        ),
    ] = 100.0,
    burst: Annotated[
        int,
        typer.Option(
            min=1,
            help=both("Maximum burst of requests of one token.", "每个令牌的最大突发请求数。"),
        ),
    ] = 200,
    worker: Worker = True,
    with_ui: Annotated[
        bool,
        typer.Option(
            "--ui",
            help=both(
                "Also serve the inspector at /ui, see hippocampus ui.",
                "同时在 /ui 提供检查器，见 hippocampus ui。",
            ),
        ),
    ] = False,
) -> None:
    """Serve the memory over HTTP until SIGTERM or Ctrl-C.

    /docs lists the routes. Other machines need a token, see hippocampus token. Try it:
    curl http://127.0.0.1:8420/remember -H 'Content-Type: application/json'
    -d '{"user_id": "ana", "memories": ["I love tea."]}'
    """
    from shared_core.http import ServerOptions, serve as run

    if embedded and uri is not None:
        raise InvalidInput(
            t("give either --embedded or --uri, not both", "--embedded 和 --uri 只能选一个")
        )
    options = ServerOptions(
        host=host, port=port, auth=auth, app=app_name, max_body=max_body, rate=rate, burst=burst
    )
    uri = "embedded" if embedded else uri
    inspector = inspector_options(uri, schema, embedder) if with_ui else None
    memory = cli.open_memory(
        uri, schema=schema, embedder=embedder, llm=cli.ready_model(llm), worker=worker
    )
    memory.conversations.check()
    if inspector is None:
        raise typer.Exit(run(memory, options))
    from shared_core.ui import serve as run_with_inspector

    raise typer.Exit(
        run_with_inspector(
            memory, options, inspector, lambda address: cli.say(inspector_line(address))
        )
    )


@tokens.command("create")
@cli.chinese("创建一个令牌并打印，仅此一次。")
def create(
    app_name: Annotated[
        str,
        typer.Option(
            "--app", help=both("Application that the token opens.", "令牌可以访问的应用。")
        ),
    ],
    user: Annotated[
        list[str] | None,
        typer.Option(
            help=both("Only this user; repeatable.", "只限这个用户；可重复。"),
            show_default=both("all users", "所有用户"),
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help=both(
                "Expire after 30d, 12h or 15m, or at a date.",
                "在 30d（天）、12h（时）或 15m（分）后，或在某个日期失效。",
            ),
            show_default=both("never", "永不"),
        ),
    ] = None,
    label: Annotated[
        str, typer.Option(help=both("Name for the list of tokens.", "在令牌列表中显示的名称。"))
    ] = "",
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics",
            help=both(
                "Open the metrics of the server, and no memory.",
                "只能读取服务的指标，不能读取记忆。",
            ),
        ),
    ] = False,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Create a token and print it, this one time."""
    expires_at = _expiry(expires)
    opens: Opens = "metrics" if metrics else "memory"
    new = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.tokens.create(
            app_name, users=user or None, expires_at=expires_at, label=label, opens=opens
        ),
    )
    if as_json:
        cli.print_json({"token": new.text, **_token_json(new.token)})
        return
    typer.echo(new.text)
    text = t(
        "It is not shown again. Send it as: Authorization: Bearer TOKEN",
        "令牌不会再次显示。使用时发送：Authorization: Bearer 令牌",
    )
    cli.say(text, err=True)


@tokens.command("list")
@cli.chinese("列出令牌，新的在前：可访问什么、何时失效。")
def list_tokens(
    app_name: cli.OnlyApp = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the tokens, newest first: what each opens and when it expires."""
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.tokens.list(app_name),
    )
    if as_json:
        cli.print_json([_token_json(one) for one in found], indent=2)
    elif found:
        now = datetime.now(UTC)
        rows = [
            (
                one.token_id,
                one.app,
                _opened(one),
                one.label,
                cli.day(one.created_at),
                _state(one, now),
            )
            for one in found
        ]
        names = (
            t("token", "令牌"), t("app", "应用"), t("users", "用户"), t("label", "名称"),
            t("since", "创建于"), t("until", "失效于"),
        )  # fmt: skip
        ended = [not one.opens_at(now) for one in found]
        cli.print_all([Grid(names=names, rows=rows, dim=ended)])
    else:
        cli.say(t("There are no tokens.", "没有令牌。"))


@tokens.command("revoke")
@cli.chinese("吊销一个令牌。运行中的服务在五秒内拒绝它。")
def revoke(
    token_id: Annotated[
        str,
        typer.Argument(
            metavar="TOKEN",
            help=both(
                "Id of the token, from hippocampus token list.",
                "令牌的编号，见 hippocampus token list。",
            ),
        ),
    ],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Revoke a token. Running servers refuse it within five seconds."""
    cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.tokens.revoke(token_id),
    )
    text = t(f"Token {token_id} is revoked.", f"令牌 {token_id} 已吊销。")
    cli.report(text, {"revoked": token_id}, as_json)


def _expiry(expires: str | None) -> datetime | None:
    if expires is None:
        return None
    if span := _SPAN.fullmatch(expires.strip()):
        return datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        return cli.date_option(expires, "--expires")
    except cli.Malformed as error:
        raise cli.Malformed(
            t(
                "--expires must be a span such as 30d, 12h or 15m, or a date such as 2030-01-31,"
                f" got {expires!r}: leave it out for a token that never expires",
                "--expires 必须是 30d、12h、15m 这样的时长，或 2030-01-31 这样的日期，收到的是"
                f" {expires!r}：永不失效的令牌请不要给出它",
            )
        ) from error


def _opened(token: ApiToken) -> str:
    if token.opens == "metrics":
        return t("metrics alone", "仅指标")
    return t("all", "全部") if token.users is None else ", ".join(token.users)


def _state(token: ApiToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return t("revoked", "已吊销") + f" {token.revoked_at:%Y-%m-%d}"
    if token.expires_at is None:
        return ""
    expired = t("expired", "已失效") + " " if token.expires_at <= now else ""
    return f"{expired}{token.expires_at:%Y-%m-%d %H:%M}"


def _token_json(token: ApiToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "app": token.app,
        "users": None if token.users is None else list(token.users),
        "opens": token.opens,
        "label": token.label,
        "created_at": token.created_at.isoformat(),
        "expires_at": cli.iso(token.expires_at),
        "revoked_at": cli.iso(token.revoked_at),
    }
