"""Commands of the HTTP server: serve, and token to manage its tokens."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.ui import inspector_options
from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    from shared_core.ports.api_tokens import ApiToken

_SPAN = re.compile(r"(\d{1,5})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}

tokens = typer.Typer(
    cls=cli.Commands,
    help="Create, list and revoke tokens of the HTTP server.",
    no_args_is_help=True,
)
cli.app.add_typer(tokens, name="token")


@cli.app.command()
def serve(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    llm: cli.Llm = None,
    embedded: Annotated[
        bool,
        typer.Option("--embedded", help="Use the embedded PostgreSQL, whatever is configured."),
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for a free one.")] = 8420,
    auth: Annotated[
        bool | None,
        typer.Option(
            "--auth/--no-auth",
            help="Require a token.",
            show_default="not on 127.0.0.1, until the first token exists",
        ),
    ] = None,
    app_name: Annotated[
        str,
        typer.Option(
            "--app",
            envvar="HIPPOCAMPUS_APP",
            help="Application of requests without a token that name none.",
        ),
    ] = "default",
    max_body: Annotated[
        int, typer.Option(min=1, help="Maximum size of a request body in bytes.")
    ] = 1_048_576,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests per second of one token; 0 for no limit.")
    ] = 100.0,
    burst: Annotated[
        int, typer.Option(min=1, help="Maximum burst of requests of one token.")
    ] = 200,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run queued jobs in this process.")
    ] = True,
    with_ui: Annotated[
        bool, typer.Option("--ui", help="Also serve the inspector at /ui, see hippocampus ui.")
    ] = False,
) -> None:
    """Serve the memory over HTTP until SIGTERM or Ctrl-C.

    Example: hippocampus serve, then curl http://127.0.0.1:8420/remember
    -H 'Content-Type: application/json' -d '{"user_id": "ana", "memories": ["I love tea."]}'.
    /docs lists the routes. Other machines need a token, see hippocampus token.
    """
    from shared_core.http import ServerOptions, serve as run

    if embedded and uri is not None:
        raise InvalidInput("give either --embedded or --uri, not both")
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
            memory,
            options,
            inspector,
            lambda address: typer.echo(f"The inspector is at {address}/ui/ until Ctrl-C."),
        )
    )


@tokens.command("create")
def create(
    app_name: Annotated[str, typer.Option("--app", help="Application that the token opens.")],
    user: Annotated[
        list[str] | None, typer.Option(help="Only this user; repeatable.", show_default="all users")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="Expire after 30d, 12h or 15m, or at a date.", show_default="never"),
    ] = None,
    label: Annotated[str, typer.Option(help="Name for the list of tokens.")] = "",
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Create a token and print it, this one time.

    Example: hippocampus token create --app my_app --user ana --expires 30d
    """
    expires_at = _expiry(expires)
    new = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.tokens.create(
            app_name, users=user or None, expires_at=expires_at, label=label
        ),
    )
    if as_json:
        cli.print_json({"token": new.text, **_token_json(new.token)})
        return
    typer.echo(new.text)
    typer.echo("It is not shown again. Send it as: Authorization: Bearer TOKEN", err=True)


@tokens.command("list")
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
                "all" if one.users is None else ", ".join(one.users),
                one.label,
                cli.day(one.created_at),
                _state(one, now),
            )
            for one in found
        ]
        names = ("token", "app", "users", "label", "since", "until")
        cli.console().print(
            cli.word_table(names, rows, dim=[not one.opens_at(now) for one in found])
        )
    else:
        typer.echo("There are no tokens.")


@tokens.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="Id of the token, from hippocampus token list.")],
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Revoke a token. Running servers refuse it within five seconds.

    Example: hippocampus token revoke 0123456789abcdef
    """
    cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.tokens.revoke(token_id),
    )
    cli.report(f"Token {token_id} is revoked.", {"revoked": token_id}, as_json)


def _expiry(expires: str | None) -> datetime | None:
    if expires is None:
        return None
    if span := _SPAN.fullmatch(expires.strip()):
        return datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})
    try:
        return cli.date_option(expires, "--expires")
    except cli.Malformed as error:
        raise cli.Malformed(
            f"--expires must be a span such as 30d, 12h or 15m, or a date such as 2030-01-31, got"
            f" {expires!r}: leave it out for a token that never expires"
        ) from error


def _state(token: ApiToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    if token.expires_at is None:
        return ""
    return f"{'expired ' if token.expires_at <= now else ''}{token.expires_at:%Y-%m-%d %H:%M}"


def _token_json(token: ApiToken) -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "app": token.app,
        "users": None if token.users is None else list(token.users),
        "label": token.label,
        "created_at": token.created_at.isoformat(),
        "expires_at": cli.iso(token.expires_at),
        "revoked_at": cli.iso(token.revoked_at),
    }
