"""Reference pages made of the code at each build, at lines `<!-- made of: ... -->` of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

MARK = re.compile(r"^<!-- made of: ([a-z ]+) -->$", re.MULTILINE)
MIGRATIONS = Path(__file__).parents[1] / "shared_core/storage/postgres/sql/migrations"
CALLERS_FUNCTIONS = (
    "get_context_window", "tokens_at_most", "cleanup_low_value_memories", "retention_rule",
    "calculate_retention_score", "initial_strength", "memory_arousal", "slowed_decay",
)  # fmt: skip
"""SQL functions that a caller may use; all others serve statements of the engine."""

WITHOUT_COMMENT = {
    "instructions": "Every version of every instruction. The newest is also an item in `memories`."
}
"""What tables hold whose migration does not say so."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the mark of a page by what is made of the code."""
    language = "zh" if page.file.src_uri.endswith(".zh.md") else "en"
    return MARK.sub(lambda mark: MAKERS[mark[1]](language), markdown)


def command_line(language: str) -> str:
    """Return one section for each command, from the command's own help."""
    from shared_core.cli.help import reference_page

    return reference_page(language)


@cache
def http_operations(_: str = "en") -> str:
    """Return one section for each operation of the HTTP server, then the schemas it uses."""
    from shared_core import open_memory
    from shared_core.http.app import create_app

    api = create_app(open_memory()).openapi()
    tags: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    parts = [_common_errors(api)]
    for tag, operations in tags.items():
        parts += [f"## {tag.capitalize()}", *operations]
    parts += [
        "## Schemas",
        *(_schema(*one) for one in sorted(api["components"]["schemas"].items())),
    ]
    return "\n\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    name = operation["operationId"]
    parts = [f"### {name} {{ #{_anchor(name)} }}", f"`{method.upper()} {path}`"]
    parts.append(operation.get("description") or operation["summary"])
    rows = [
        (
            f"`{one['name']}`",
            one["in"],
            _type(one["schema"]),
            "yes" if one.get("required") else "",
            _about(one.get("description", ""), one["schema"]),
        )
        for one in operation.get("parameters", ())
    ]
    if rows:
        parts.append(_table(("parameter", "in", "type", "required", "meaning"), rows))
    if body := operation.get("requestBody"):
        schema = body["content"]["application/json"]["schema"]
        parts.append(f"**Body:** {_type(schema)}.")
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = answer.get("content", {})
            shown = ", ".join(
                f"`{kind}`, {_type(one['schema'])}" if one.get("schema") else f"`{kind}`"
                for kind, one in content.items()
            )
            parts.append(f"**Answer {status}:** {shown}. {answer.get('description', '')}".strip())
    return "\n\n".join(parts)


def _common_errors(api: Mapping[str, Any]) -> str:
    errors: dict[str, str] = {}
    for methods in api["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if not status.startswith("2"):
                    errors.setdefault(status, answer["description"])
    rows = [(f"`{status}`", meaning) for status, meaning in sorted(errors.items())]
    return (
        "## Errors of every operation\n\nAn error is `application/problem+json`,"
        f" [ProblemBody](#schema-problembody).\n\n{_table(('status', 'meaning'), rows)}"
    )


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    parts = [f"### {name} {{ #schema-{name.lower()} }}"]
    if about := schema.get("description"):
        parts.append(about)
    required = schema.get("required", ())
    rows = [
        (
            f"`{field}`",
            _type(one),
            "yes" if field in required else "",
            _about(one.get("description", ""), one),
        )
        for field, one in schema.get("properties", {}).items()
    ]
    if rows:
        parts.append(_table(("field", "type", "required", "meaning"), rows))
    elif "enum" in schema:
        parts.append("One of " + ", ".join(f"`{one}`" for one in schema["enum"]) + ".")
    return "\n\n".join(parts)


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with links to schemas."""
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        return f"[{name}](#schema-{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[word]))
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    form = schema.get("format")
    return f"{kind} ({form})" if form else str(kind)


def _about(text: str, schema: Mapping[str, Any]) -> str:
    """Return a description with bounds and default."""
    said = []
    for one in (schema, *schema.get("anyOf", ())):
        for low, high, unit in (
            ("minimum", "maximum", ""),
            ("minLength", "maxLength", " characters"),
            ("minItems", "maxItems", " items"),
        ):
            said += _bounds(one.get(low), one.get(high), unit)
        said += [f"above {one['exclusiveMinimum']:g}"] if "exclusiveMinimum" in one else []
    if schema.get("default") not in (None, "", [], {}):
        said.append(f"default `{schema['default']}`")
    return " ".join(filter(None, (text, f"({'; '.join(said)})" if said else "")))


def _bounds(low: float | None, high: float | None, unit: str) -> list[str]:
    shown = [
        f"{int(one):,}" if one == int(one) else str(one) for one in (low, high) if one is not None
    ]
    if not shown:
        return []
    if low is not None and high is not None:
        return [f"{' to '.join(shown)}{unit}"]
    return [f"{'at most' if low is None else 'at least'} {shown[0]}{unit}"]


@cache
def tables(_: str = "en") -> str:
    """Return one section for each table: its comment in the migration, and its columns."""
    return "\n\n".join(
        f"## {name} {{ #{_anchor(name)} }}\n\n{about}\n\n"
        + _table(("column", "type", "rule"), [(f"`{c}`", f"`{t}`", r) for c, t, r in columns])
        for name, about, columns in described_tables()
    )


def described_tables() -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """Return each table of the schema: name, comment, and name, type and rule of each column."""
    found = []
    for sql in _migrations():
        for table in re.finditer(r"(?ms)((?:^--[^\n]*\n)*)^CREATE TABLE (\w+) \((.*?)^\)", sql):
            columns = [
                (
                    column[1],
                    column[2],
                    f"`{rule}`" if (rule := column[3].strip().rstrip(",")) else "",
                )
                for column in re.finditer(
                    r"(?m)^    ([a-z]\w*)\s+(double precision|\w+(?:\[\])?)(?: COLLATE \"C\")?"
                    r"(.*)$",
                    re.sub(r"(?m)\s*--.*$", "", table[3]),
                )
            ]
            about = _comment(table[1]) or WITHOUT_COMMENT[table[2]]
            found.append((table[2], about, columns))
    return found


@cache
def functions(_: str = "en") -> str:
    """Return one section for each SQL function that callers use: comment and signature."""
    described = {name: (about, form) for name, about, form in described_functions()}
    return "\n\n".join(
        f"## {name} {{ #{_anchor(name)} }}\n\n{described[name][0]}\n\n"
        f"```text\n{name}{described[name][1]}\n```"
        for name in CALLERS_FUNCTIONS
    )


def described_functions() -> list[tuple[str, str, str]]:
    """Return each SQL function of the schema: name, comment and form."""
    return [
        (one[2], _comment(one[1]), one[3].strip())
        for sql in _migrations()
        for one in re.finditer(
            r"(?ms)((?:^--[^\n]*\n)*)^CREATE FUNCTION (\w+)(?=\()(?=((?:.*?))(?:\s+LANGUAGE ))", sql
        )
    ]


def _migrations() -> list[str]:
    return [file.read_text("utf-8") for file in sorted(MIGRATIONS.glob("*.sql"))]


def _comment(lines: str) -> str:
    """Return the text of SQL comment lines, as Markdown."""
    text = " ".join(line.removeprefix("--").strip() for line in lines.splitlines())
    return re.sub(r"(?<![`\w])(\w+_\w+(?:\(\))?)(?![`\w])", r"`\1`", text).replace("<", "&lt;")


def _anchor(name: str) -> str:
    return name.replace("_", "-")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(re.sub(r"\s*\n\s*", " ", c).replace("|", r"\|") for c in row) + " |"
        for row in lines
    )


MAKERS: Mapping[str, Callable[[str], str]] = {
    "command line": command_line,
    "http operations": http_operations,
    "tables": tables,
    "functions": functions,
}
