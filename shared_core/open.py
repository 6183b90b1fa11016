"""open_memory: builds a memory from its arguments and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path

from shared_core.conversation.service import check_conversation_variables
from shared_core.conversation.settings import ConversationSettings
from shared_core.core.arguments import check_arguments
from shared_core.core.model_limits import ModelLimits
from shared_core.core.retention_policy import Strength
from shared_core.core.timestamps import ServerClock
from shared_core.core.validation import checked_clock, zone_of
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.extraction.rule_based import resolve_extractor
from shared_core.models.embedders import resolve_embedder
from shared_core.models.embedding import Embedding
from shared_core.nlp.relation_schema import Objects, Relations
from shared_core.ports.jobs import ExtractionStrategy
from shared_core.ports.storage import Clock, Extractor
from shared_core.privacy.redaction import PrivacyPolicy, privacy_policy
from shared_core.settings import load_settings
from shared_core.storage import open_storage


def open_memory(
    uri: str | Path | None = None,
    *,
    embedder: object = None,
    item_embedder: object = None,
    llm: object = None,
    extractor: Extractor | None = None,
    llm_limits: ModelLimits | None = None,
    schema: str | None = None,
    pool_size: int | None = None,
    privacy: str | Mapping[str, str] | PrivacyPolicy | None = None,
    clock: Clock | None = None,
    worker: bool = True,
    strategy: ExtractionStrategy | None = None,
    track_access: bool = True,
    reranker: object = None,
    graph_enabled: bool | None = None,
    relations: Mapping[str, Objects] | None = None,
    strength: Strength | None = None,
    conversation: ConversationSettings | None = None,
    profiles: bool | None = None,
    forget_requests: bool | None = None,
    timezone: str | tzinfo | None = None,
    create: bool = True,
) -> MemoryEngine:
    """Return a memory; it connects at first use, so this needs no running loop and does no I/O.

    Args:
        uri: None or "embedded" for a private PostgreSQL in HIPPOCAMPUS_HOME; a folder (Path or
            "embedded:///folder"); or the DSN of a server. Default: HIPPOCAMPUS_URI.
        embedder: "e5", "use", "google:MODEL", a LangChain Embeddings object or a function; see
            shared_core.models. Default: the model whose vectors the database holds; for a new
            database "e5", or "use" where that cannot run.
        item_embedder: for the items of a LangGraph store, in the same forms. The model of the
            database stays in use for memories; for a new database it is this one.
        llm: a model of Google ADK or LangChain, or a function, that extracts facts and writes
            summaries (shared_core.models). Default: rules.
        extractor: your own extractor, instead of llm.
        llm_limits: time limit, concurrency, retries and tokens of the calls of llm. Default:
            HIPPOCAMPUS_LLM_TIMEOUT_S, _LLM_CONCURRENCY, _LLM_RETRIES and _LLM_MAX_TOKENS.
        schema: the database schema that holds every table. Default: HIPPOCAMPUS_SCHEMA.
        pool_size: maximum number of connections. Default: 16.
        privacy: what happens to secrets and personal numbers before anything is stored: "default"
            masks them, "strict", "off", or a mode for each kind, e.g. {"email": "mask"}. See
            shared_core.privacy. Default: HIPPOCAMPUS_PRIVACY.
        clock: returns aware datetimes instead of the time of day, e.g. for a replay.
        worker: False leaves queued work to other processes, e.g. `hippocampus worker`.
        strategy: when queued turns are consolidated. Default: immediately.
        track_access: whether reads are counted, in the background; see accesses().
        reranker: reorders the best hits of a recall; see shared_core.recall.reranking.
        graph_enabled: False switches the knowledge graph off: no edge is written, and
            memory.graph refuses. Default: on, unless HIPPOCAMPUS_GRAPH is "off".
        relations: your own relations, with "one" object at a time or "many", e.g.
            {"drives": "one"}; see docs/reference/graph.md.
        strength: returns the initial strength of a new memory, 0 to 1, instead of one by
            importance; see docs/explanation/forgetting.md.
        conversation: when sessions of process_memory end, and which strategies read them, instead
            of the environment's settings; see docs/reference/conversation.md.
        profiles: whether each consolidation updates the profile of the user. Default: no, unless
            HIPPOCAMPUS_PROFILES is "on"; see docs/reference/profiles.md.
        forget_requests: whether "Forget what I said about X" in a turn of the user is carried out;
            see docs/explanation/forgetting.md. Default: yes, unless HIPPOCAMPUS_FORGET_REQUESTS is
            "off".
        timezone: the zone of the user, e.g. "Australia/Sydney" or "+10:00". Turns and questions
            whose moment is in UTC count "yesterday" in it; a moment with an offset of its own
            counts in that. Default: HIPPOCAMPUS_TIMEZONE, else UTC.
        create: False requires an existing memory: opening raises NotFound where there is none, and
            creates neither a folder nor a table.

    Raises:
        InvalidInput: for an argument, or a variable of docs/reference/settings.md, with a wrong
            type or value.
    """
    if isinstance(uri, MemoryEngine):
        raise InvalidInput("open_memory() takes an address, got an open memory: use it as it is")
    check_arguments(open_memory, locals())
    settings = load_settings(uri, schema=schema, pool_size=pool_size, create=create)
    check_conversation_variables()
    clock = ServerClock() if clock is None else checked_clock(clock)
    storage = open_storage(settings, clock, strength)
    given = None if embedder is None else resolve_embedder(embedder)
    of_items = None if item_embedder is None else resolve_embedder(item_embedder)
    embedding = Embedding(given, storage, offered=of_items)
    item_embedding = embedding
    if of_items is not None:
        item_embedding = Embedding(of_items, storage, may_stand_beside=True)
    has_graph = settings.graph if graph_enabled is None else graph_enabled
    return MemoryEngine(
        storage,
        embedding,
        resolve_extractor(llm, extractor, llm_limits or settings.llm_limits),
        clock,
        item_embedding=item_embedding,
        privacy=privacy_policy(settings.privacy if privacy is None else privacy),
        worker=worker,
        strategy=strategy,
        track_access=track_access,
        reranker=reranker,
        cleanup_hours=settings.cleanup_hours,
        conversation=conversation,
        profiles=settings.profiles if profiles is None else profiles,
        forget_requests=settings.forget_requests if forget_requests is None else forget_requests,
        zone=zone_of(settings.timezone if timezone is None else timezone, "timezone") or UTC,
        relations=Relations(relations) if has_graph else None,
    )
