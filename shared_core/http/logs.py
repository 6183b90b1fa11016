"""Logs as JSON, one object a line, on standard error."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from shared_core.http.json_answers import to_json_bytes
from shared_core.http.request_ids import request_id


class JsonLines(logging.Formatter):
    """Writes time, level, logger, message, the id of the request, and what a record adds."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; of an exception its type and the places it went through."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if current := request_id.get():
            line["request_id"] = current
        line |= getattr(record, "request", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return to_json_bytes(line).decode()


def log_as_json() -> None:
    """Send all logs of the process to standard error as JSON: ours from INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hippocampus").setLevel(logging.INFO)
