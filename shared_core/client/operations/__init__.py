"""All operations of the HTTP server, by area.

Written by `python -m benchmarks.client_code`: change the server instead.
"""

from __future__ import annotations

from shared_core.client.operations.conversation import ConversationOperations
from shared_core.client.operations.directory import DirectoryOperations
from shared_core.client.operations.export import ExportOperations
from shared_core.client.operations.facts import FactsOperations
from shared_core.client.operations.graph import GraphOperations
from shared_core.client.operations.health import HealthOperations
from shared_core.client.operations.jobs import JobsOperations
from shared_core.client.operations.memories import MemoriesOperations
from shared_core.client.operations.profiles import ProfilesOperations
from shared_core.client.operations.retention import RetentionOperations


class ClientOperations(
    HealthOperations,
    ConversationOperations,
    MemoriesOperations,
    ProfilesOperations,
    GraphOperations,
    JobsOperations,
    FactsOperations,
    RetentionOperations,
    DirectoryOperations,
    ExportOperations,
):
    """Every operation of the HTTP server."""
