"""What texts and names must look like: a pattern for the schema, and a refusal in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A pattern that a text must hold, and what is told of one that does not."""

    pattern: str
    told: str

    def check(self, text: str) -> str:
        """Return text. Raises ValueError for one that does not match."""
        if not re.search(self.pattern, text):
            raise ValueError(self.told)
        return text

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern}


NO_NUL: Final = TextPattern(r"^[^\x00]*$", "must not hold a NUL: PostgreSQL cannot store it")
NOT_BLANK: Final = TextPattern(r"[^\s\x00]", "must not be empty or blank")
NOT_BLANK_NAME: Final = TextPattern(
    r"^[^\x00]*[^\s\x00][^\x00]*$", "must not be blank, nor hold a NUL"
)
