"""Write the methods of HippocampusClient from the OpenAPI description of the HTTP server.

    python -m benchmarks.client_code

Each operation becomes a method, in a file of its area. Answers are the models of
shared_core.wire, which the server describes; bodies become keyword arguments. A test compares the
files with what this makes.
"""

from __future__ import annotations

import keyword
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from shared_core import core, open_memory, wire
from shared_core.core.domain import GivenRole
from shared_core.http import create_app

FOLDER: Final = Path(__file__).parents[1] / "shared_core/client/operations"
NOTE: Final = "Written by `python -m benchmarks.client_code`: change the server instead."
WIDTH: Final = 100
ALIASES: Final = {get_args(core.MemoryKind): "MemoryKind", get_args(GivenRole): "GivenRole"}
"""The types of the core that stand for a list of allowed texts."""
PARTS: Final = {
    "RememberedMemory": "RememberedMemoryParam",
    "TurnBody": "TurnParam",
    "AsOfBody": "AsOfParam",
    "PolicyBody": "PolicyParam",
    "MessageBody": "MessageParam",
}
"""The typed dicts for the parts of bodies."""
RAISES: Final = "MemoryCoreError: The request failed; HippocampusClient lists the errors."
IMPORTS: Final = """
from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NotRequired, TypedDict
from uuid import UUID

from shared_core import wire
from shared_core.client.calls import given, segment
from shared_core.client.operations.base import OperationsBase
from shared_core.core.domain import GivenRole, JsonValue, MemoryKind
"""
OF_PARAMETERS: Final = f"""
from shared_core.client.operations.parameters import {", ".join(PARTS.values())}
"""
"""All that a file may need; what it does not is removed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation. place: path, query or body."""

    name: str
    place: str
    type: str
    is_required: bool
    default: object
    description: str

    @property
    def declared(self) -> str:
        """The parameter in a signature."""
        if self.is_required:
            return f"{self.name}: {self.type}"
        none = "" if self.default is not None or self.type.endswith("None") else " | None"
        return f"{self.name}: {self.type}{none} = {self.default!r}"

    @property
    def value(self) -> str:
        """The expression of its value in a method."""
        return "self._app if app is None else app" if self.name == "app" else self.name


class Description:
    """An OpenAPI description, read as Python."""

    def __init__(self, openapi: Mapping[str, Any]) -> None:
        self._paths: Mapping[str, Mapping[str, Any]] = openapi["paths"]
        self._schemas: Mapping[str, Any] = openapi["components"]["schemas"]

    def areas(self) -> Mapping[str, Sequence[tuple[str, str, Mapping[str, Any]]]]:
        """Return method, path and operation of all operations, by area."""
        found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
        for path, methods in self._paths.items():
            for method, operation in methods.items():
                found.setdefault(operation["tags"][0], []).append((method, path, operation))
        return found

    def type(self, schema: Mapping[str, Any]) -> str:
        """Return the Python type of a schema."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return PARTS.get(name) or self._of(name)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return " | ".join(dict.fromkeys(self.type(one) for one in schema[union]))
        if allowed := schema.get("enum", [schema["const"]] if "const" in schema else None):
            known = ALIASES.get(tuple(allowed))
            return known or f"Literal[{', '.join(map(repr, allowed))}]"
        match schema["type"], schema.get("format"):
            case "string", "date-time":
                return "datetime | str"
            case "string", "uuid":
                return "UUID | str"
            case "array", _:
                return f"Sequence[{self.type(schema['items'])}]"
            case "object", _:
                return f"Mapping[str, {self.type(schema['additionalProperties'])}]"
        names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
        return {**names, "null": "None"}[schema["type"]]

    def _of(self, name: str) -> str:
        return name if name == "JsonValue" else self.type(self._schemas[name])

    def parameters(self, operation: Mapping[str, Any]) -> list[Parameter]:
        """Return the parameters of an operation, required ones first."""
        found = [
            self._parameter(one["name"], one["in"], one["schema"], one["required"])
            for one in operation.get("parameters", [])
        ]
        found += self._of_body(operation)
        return sorted(found, key=lambda one: not one.is_required)

    def _of_body(self, operation: Mapping[str, Any]) -> list[Parameter]:
        if "requestBody" not in operation:
            return []
        shape = operation["requestBody"]["content"]["application/json"]["schema"]
        bodies = [
            self._schemas[one["$ref"].rpartition("/")[2]] for one in shape.get("oneOf", [shape])
        ]
        required = set.intersection(*(set(body["required"]) for body in bodies))
        schemas: dict[str, Any] = {}
        for body in bodies:
            for name, schema in body["properties"].items():
                known = schemas.setdefault(name, schema)
                if values_of(known) != values_of(schema):
                    allowed = [*values_of(known), *values_of(schema)]
                    schemas[name] = {**known, "enum": allowed}
        return [
            self._parameter(name, "body", one, name in required) for name, one in schemas.items()
        ]

    def _parameter(
        self, name: str, place: str, schema: Mapping[str, Any], is_required: bool
    ) -> Parameter:
        said = schema.get("description") or ""
        if name == "app":
            said = "The application. Default: that of the client, else that of the token."
        said = said.removesuffix(" Optional with a token for one user.")
        return Parameter(
            name,
            place,
            self.type(schema),
            is_required,
            schema.get("default"),
            " ".join(said.split()),
        )

    def parts(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the names and schemas of the typed dicts."""
        for name, part in PARTS.items():
            yield part, self._schemas[name]


def values_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the texts that a schema allows, or []."""
    return [*schema.get("enum", [schema["const"]] if "const" in schema else [])]


def sources(openapi: Mapping[str, Any]) -> dict[str, str]:
    """Return the sources of the files of operations, by name."""
    description = Description(openapi)
    made = {"parameters.py": parameters_source(description)}
    names = []
    for area, operations in description.areas().items():
        name = f"{area.capitalize()}Operations"
        names.append((area, name))
        methods = [method_source(description, *one) for one in operations]
        title = doc(f'The operations of the area "{area}".\n\n{NOTE}', 0)
        head = f"class {name}(OperationsBase):\n" + doc(f'The operations of the area "{area}".', 4)
        made[f"{area}.py"] = "\n".join([title, IMPORTS + OF_PARAMETERS, "", head, "", *methods])
    imports = "\n".join(
        f"from shared_core.client.operations.{area} import {name}" for area, name in names
    )
    bases = ", ".join(name for _, name in names)
    made["__init__.py"] = (
        doc(f"All operations of the HTTP server, by area.\n\n{NOTE}", 0)
        + f"\n\nfrom __future__ import annotations\n\n{imports}\n\n"
        f"class ClientOperations({bases}):\n" + doc("Every operation of the HTTP server.", 4)
    )
    return {name: formatted(name, source) for name, source in made.items()}


def parameters_source(description: Description) -> str:
    """Return the source of the typed dicts."""
    lines = [doc(f"The parts of requests, as typed dicts.\n\n{NOTE}", 0), IMPORTS]
    for name, schema in description.parts():
        lines += ["", f"class {name}(TypedDict):", doc(schema["description"], 4), ""]
        for field, one in schema["properties"].items():
            kind = description.type(one)
            required = field in schema.get("required", [])
            lines.append(f"    {field}: {kind if required else f'NotRequired[{kind}]'}")
    return "\n".join(lines)


def method_source(
    description: Description, method: str, path: str, operation: Mapping[str, Any]
) -> str:
    """Return the source of the method of an operation."""
    parameters = description.parameters(operation)
    assert not any(keyword.iskeyword(one.name) for one in parameters)
    [(answer, content)] = [
        (one, one["content"]) for status, one in operation["responses"].items() if status[0] == "2"
    ]
    signature = ["self", *(["*"] if parameters else []), *(one.declared for one in parameters)]
    model, call = called(method, path, parameters, content)
    kind = "def" if "ndjson" in str(content) else "async def"
    said = docstring(operation["description"], parameters, answer["description"], kind == "def")
    awaited = "" if kind == "def" else "await "
    return (
        f"    {kind} {operation['operationId']}({', '.join(signature)}) -> {model}:\n"
        f"{said}\n        return {awaited}{call}\n"
    )


def called(
    method: str, path: str, parameters: Sequence[Parameter], content: Mapping[str, Any]
) -> tuple[str, str]:
    """Return the type that a method returns, and the call that it makes."""
    for one in parameters:
        if one.place == "path":
            path = path.replace(f"{{{one.name}}}", f"{{segment({one.name}, {one.name!r})}}")
    arguments = [f'"{method.upper()}"', f'f"{path}"' if "{" in path else f'"{path}"']
    for place in ("query", "body"):
        if sent := [one for one in parameters if one.place == place]:
            arguments.append(f"{place}={values(sent)}")
    if "application/json" not in content:
        is_stream = "application/x-ndjson" in content
        returned, verb = ("AsyncGenerator[str, None]", "lines") if is_stream else ("str", "text")
        return returned, f"self._connection.{verb}({', '.join(arguments)})"
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert name in wire.__all__, f"{name} is no model of shared_core.wire"
    return f"wire.{name}", f"self._connection.answer(wire.{name}, {', '.join(arguments)})"


def values(parameters: Sequence[Parameter]) -> str:
    """Return the expression of the values of parameters. Optional ones are left out if None."""
    required = [f"{one.name!r}: {one.value}" for one in parameters if one.is_required]
    optional = ", ".join(f"{one.name}={one.value}" for one in parameters if not one.is_required)
    if not required:
        return f"given({optional})"
    return f"{{{', '.join([*required, *([f'**given({optional})'] if optional else [])])}}}"


def docstring(said: str, parameters: Sequence[Parameter], answer: str, is_stream: bool) -> str:
    """Return the docstring of a method."""
    sections = ["\n\n".join(textwrap.fill(one, WIDTH - 8) for one in said.split("\n\n"))]
    if parameters:
        told = [entry(f"{one.name}: {one.description}") for one in parameters]
        sections.append("\n".join(["Args:", *told]))
    sections.append(
        ("Yields:" if is_stream else "Returns:") + "\n" + entry(f"{answer.rstrip('.')}.")
    )
    sections.append("Raises:\n" + entry(RAISES))
    return doc("\n\n".join(sections), 8)


def entry(text: str) -> str:
    """Return an entry of a section, its further lines indented."""
    return textwrap.fill(
        text, WIDTH - 8, initial_indent="    ", subsequent_indent="        ",
        break_on_hyphens=False,
    )  # fmt: skip


def doc(text: str, indent: int) -> str:
    """Return a docstring."""
    end = '"""' if "\n" not in text else '\n"""'
    mark = "r" if "\\" in text else ""
    return textwrap.indent(f'{mark}"""{text}{end}', " " * indent)


def formatted(name: str, source: str) -> str:
    """Return a source as ruff formats it, without the imports that it does not use."""
    for command in (["check", "--select", "F401,I", "--fix-only", "--quiet"], ["format"]):
        source = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FOLDER / name), "-"],
            input=source, capture_output=True, text=True, check=True, cwd=FOLDER,
        ).stdout  # fmt: skip
    return source


def openapi() -> dict[str, Any]:
    """Return the description of the server of this checkout. It opens no database."""
    return create_app(open_memory(worker=False)).openapi()


def main() -> None:
    """Write the files."""
    made = sources(openapi())
    for old in FOLDER.glob("*.py"):
        if old.name not in {*made, "base.py"}:
            old.unlink()
    for name, source in made.items():
        (FOLDER / name).write_text(source, "utf-8")
        print(f"{FOLDER.name}/{name}: {len(source.splitlines())} lines")


if __name__ == "__main__":
    main()
