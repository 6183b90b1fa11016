"""Arguments of tools: nothing unknown is taken, and a model reads in a line what it must mend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ConfigDict, ValidationError


class ToolServer(MCPServer):
    """A server that names each argument that cannot be used, and why, and shows no more of it."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError, with a text for the model."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(f"{name} cannot take this: {_told(error.__cause__)}") from error
            raise


def strict_tool(verb: Callable[..., Awaitable[object]], does: ToolAnnotations) -> Tool:
    """Return verb as a tool that refuses arguments it does not know, and says so in its schema."""
    tool = Tool.from_function(verb, annotations=does, structured_output=True)
    loose = tool.fn_metadata.arg_model
    forbidding = {"model_config": ConfigDict(extra="forbid")}
    strict = cast("type[ArgModelBase]", type(loose.__name__, (loose,), forbidding))
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool


def _told(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: "
        + ("there is no such argument" if one["type"] == "extra_forbidden" else one["msg"])
        for one in faults
    )
