"""Commands of the HTTP server: serve, and the tokens it asks for."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from shared_core.cli.app import (
    Commands,
    Embedder,
    Llm,
    Malformed,
    Schema,
    Uri,
    app,
    console,
    date_option,
    open_memory,
    tell,
    word_table,
)
from shared_core.errors import InvalidInput
from shared_core.ports.api_tokens import ApiToken

_SPAN = re.compile(r"(\d{1,5})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}

tokens = typer.Typer(
    cls=Commands, help="Tokens of the HTTP server: create, list, revoke.", no_args_is_help=True
)
app.add_typer(tokens, name="token")


@app.command()
def serve(
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    llm: Llm = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="The embedded PostgreSQL, whatever is configured.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for a free one.")] = 8420,
    auth: Annotated[
        bool | None,
        typer.Option(
            "--auth/--no-auth",
            help="Whether a token is needed. [default: not on 127.0.0.1, until one is made]",
        ),
    ] = None,
    app_name: Annotated[
        str,
        typer.Option(
            "--app",
            envvar="HIPPOCAMPUS_APP",
            help="Application of requests that name none, without tokens.",
        ),
    ] = "default",
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a body at most.")] = 1_048_576,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests a second of one token; 0 for no limit.")
    ] = 100.0,
    burst: Annotated[int, typer.Option(min=1, help="So many of one token at once.")] = 200,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Do what is left for later here.")
    ] = True,
) -> None:
    """Serve the memory over HTTP until SIGTERM or Ctrl-C.

    Example: hippocampus serve, then curl http://127.0.0.1:8420/remember
    -H 'Content-Type: application/json' -d '{"user_id": "ana", "memories": ["I love tea."]}'.
    /docs shows what there is. From other machines it needs tokens, see hippocampus token.
    """
    try:
        from shared_core.http import ServerOptions, serve as run
    except ImportError as error:
        raise InvalidInput(
            f"the HTTP server needs more packages ({error.name} is missing):"
            " pip install 'pg-hippocampus[server]'"
        ) from error
    from shared_core.models.language_model import ready_language_model

    if embedded and uri is not None:
        raise InvalidInput("give either --embedded or --uri")
    options = ServerOptions(
        host=host, port=port, auth=auth, app=app_name, max_body=max_body, rate=rate, burst=burst
    )
    model = None if llm is None else ready_language_model(llm)
    memory = open_memory(
        "embedded" if embedded else uri, schema=schema, embedder=embedder, llm=model, worker=worker
    )
    raise typer.Exit(run(memory, options))


@tokens.command("create")
def create(
    app_name: Annotated[str, typer.Option("--app", help="The application it opens.")],
    user: Annotated[
        list[str] | None, typer.Option(help="Only this user; may be repeated. [default: all]")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="After 30d, 12h or 15m, or at a date. [default: never]")
    ] = None,
    label: Annotated[str, typer.Option(help="What you call it.")] = "",
    uri: Uri = None,
    schema: Schema = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a token, and show it this once.

    Example: hippocampus token create --app my_app --user ana --expires 30d
    """

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            new = await memory.tokens.create(
                app_name, users=user or None, expires_at=_end(expires), label=label
            )
        if as_json:
            typer.echo(json.dumps({"token": new.text, **_shown(new.token)}, ensure_ascii=False))
            return
        typer.echo(new.text)
        typer.echo("It is not shown again. Send it as: Authorization: Bearer TOKEN", err=True)

    asyncio.run(run())


@tokens.command("list")
def list_tokens(
    app_name: Annotated[
        str | None, typer.Option("--app", help="Only those of an application.")
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List tokens, newest first: what each opens, and until when."""

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            found = await memory.tokens.list(app_name)
        if as_json:
            typer.echo(json.dumps([_shown(one) for one in found], ensure_ascii=False, indent=2))
        elif found:
            now = datetime.now(UTC)
            rows = [
                (
                    one.token_id,
                    one.app,
                    "all" if one.users is None else ", ".join(one.users),
                    one.label,
                    f"{one.created_at:%Y-%m-%d}",
                    _state(one, now),
                )
                for one in found
            ]
            names = ("token", "app", "users", "label", "since", "until")
            dim = [not one.opens_at(now) for one in found]
            console().print(word_table(names, rows, dim=dim))
        else:
            typer.echo("There is no token.")

    asyncio.run(run())


@tokens.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="Its id, as list shows it.")],
    uri: Uri = None,
    schema: Schema = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Revoke a token. Servers that have seen it just now forget it within five seconds.

    Example: hippocampus token revoke 0123456789abcdef
    """

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            await memory.tokens.revoke(token_id)
        tell(f"Token {token_id} is revoked.", {"revoked": token_id}, as_json)

    asyncio.run(run())


def _end(expires: str | None) -> datetime | None:
    if expires is None:
        return None
    if span := _SPAN.fullmatch(expires.strip()):
        return datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        return date_option(expires, "--expires")
    except Malformed as error:
        raise Malformed(
            f"--expires takes a span such as 30d, 12h or 15m, or a date such as 2030-01-31, not"
            f" {expires!r}: leave it out for a token without an end"
        ) from error


def _state(token: ApiToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    if token.expires_at is None:
        return ""
    return f"{'expired ' if token.expires_at <= now else ''}{token.expires_at:%Y-%m-%d %H:%M}"


def _shown(token: ApiToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "app": token.app,
        "users": None if token.users is None else list(token.users),
        "label": token.label,
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "revoked_at": token.revoked_at.isoformat() if token.revoked_at else None,
    }
