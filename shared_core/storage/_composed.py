"""One storage object made of the parts of an engine (docs/decisions/0016)."""

from __future__ import annotations

from shared_core.ports.api_tokens import TokenStorage
from shared_core.ports.conversations import ConversationStorage
from shared_core.ports.erasures import ErasureStorage
from shared_core.ports.events import EventStorage, SliceStorage
from shared_core.ports.facts import FactStorage
from shared_core.ports.graph import GraphStorage
from shared_core.ports.indexes import IndexStorage, ReembedStorage
from shared_core.ports.items import InstructionStorage, ItemStorage
from shared_core.ports.jobs import JobStorage
from shared_core.ports.profiles import ProfileStorage
from shared_core.ports.recall import RecallStorage
from shared_core.ports.retention import AccessStorage, RetentionStorage
from shared_core.ports.runs import RunStorage
from shared_core.ports.session_logs import SessionStorage
from shared_core.ports.transfer import TransferStorage


class ComposedStorage:
    """Binds every method of the storage port to the part that implements it.

    An engine passes one part for each area of the port. It adds the methods that concern the whole
    database itself: open, close, report, dsn and use_model.
    """

    def __init__(
        self,
        *,
        items: ItemStorage,
        instructions: InstructionStorage,
        events: EventStorage,
        recall: RecallStorage,
        timeline: SliceStorage,
        accesses: AccessStorage,
        session_logs: SessionStorage,
        conversations: ConversationStorage,
        jobs: JobStorage,
        runs: RunStorage,
        facts: FactStorage,
        graph: GraphStorage,
        profiles: ProfileStorage,
        retention: RetentionStorage,
        erasures: ErasureStorage,
        indexes: IndexStorage,
        reembedding: ReembedStorage,
        transfer: TransferStorage,
        tokens: TokenStorage,
    ) -> None:
        self._bind_memories(items, instructions, events, recall, timeline, accesses)
        self._bind_threads(session_logs, conversations, jobs)
        self._bind_knowledge(runs, facts, graph, profiles)
        self._bind_lifetimes(retention, erasures)
        self._bind_operations(indexes, reembedding, transfer, tokens)

    def _bind_memories(
        self,
        items: ItemStorage,
        instructions: InstructionStorage,
        events: EventStorage,
        recall: RecallStorage,
        timeline: SliceStorage,
        accesses: AccessStorage,
    ) -> None:
        self.get_items = items.get_items
        self.find_items = items.find_items
        self.list_namespaces = items.list_namespaces
        self.extend_items = items.extend_items
        self.sweep_expired = items.sweep_expired
        self.stamp_items = items.stamp_items
        self.import_marks = items.import_marks
        self.put_memories = items.put_memories
        self.forget = items.forget
        self.resolve_ids = items.resolve_ids

        self.instruction_versions = instructions.instruction_versions
        self.newest_instructions = instructions.newest_instructions
        self.drop_instruction = instructions.drop_instruction
        self.put_instruction = instructions.put_instruction

        self.known_turns = events.known_turns
        self.append_events = events.append_events
        self.thread_events = events.thread_events
        self.thread_history = events.thread_history
        self.forget_turns = events.forget_turns
        self.forget_scope = events.forget_scope
        self.list_memories = events.list_memories
        self.memories_without_vectors = events.memories_without_vectors
        self.add_vectors = events.add_vectors

        self.recall = recall.recall

        self.thread_summary = timeline.thread_summary
        self.slice = timeline.slice
        self.slice_extent = timeline.slice_extent
        self.slice_counts = timeline.slice_counts

        self.add_accesses = accesses.add_accesses
        self.accesses = accesses.accesses

    def _bind_threads(
        self, session_logs: SessionStorage, conversations: ConversationStorage, jobs: JobStorage
    ) -> None:
        self.open_session = session_logs.open_session
        self.load_session = session_logs.load_session
        self.list_sessions = session_logs.list_sessions
        self.user_state = session_logs.user_state
        self.append_session_event = session_logs.append_session_event
        self.close_session = session_logs.close_session

        self.hear_turn = conversations.hear_turn
        self.around_input = conversations.around_input
        self.open_conversation = conversations.open_conversation
        self.active_conversation = conversations.active_conversation
        self.conversation_of_thread = conversations.conversation_of_thread
        self.end_conversation = conversations.end_conversation
        self.finish_conversation = conversations.finish_conversation
        self.conversations_over = conversations.conversations_over

        self.enqueue = jobs.enqueue
        self.end_session = jobs.end_session
        self.start_job = jobs.start_job
        self.claim_job = jobs.claim_job
        self.extend_job = jobs.extend_job
        self.release_jobs = jobs.release_jobs
        self.complete_job = jobs.complete_job
        self.return_job = jobs.return_job
        self.next_job_at = jobs.next_job_at
        self.job_hints = jobs.job_hints
        self.open_jobs = jobs.open_jobs
        self.list_jobs = jobs.list_jobs
        self.jobs_of_threads = jobs.jobs_of_threads
        self.retry_jobs = jobs.retry_jobs
        self.cancel_jobs = jobs.cancel_jobs
        self.job_stats = jobs.job_stats

    def _bind_knowledge(
        self, runs: RunStorage, facts: FactStorage, graph: GraphStorage, profiles: ProfileStorage
    ) -> None:
        self.read_thread = runs.read_thread
        self.known = runs.known
        self.like_texts = runs.like_texts
        self.apply_run = runs.apply_run
        self.list_runs = runs.list_runs
        self.undo_run = runs.undo_run
        self.recent_memories = runs.recent_memories

        self.list_facts = facts.list_facts
        self.named_memory = facts.named_memory
        self.facts_in_place = facts.facts_in_place
        self.edges_in_place = facts.edges_in_place
        self.restore_fact = facts.restore_fact

        self.walk = graph.walk
        self.edges_of = graph.edges_of
        self.entities = graph.entities
        self.known_spells = graph.known_spells
        self.one_edge = graph.one_edge
        self.restore_edge = graph.restore_edge
        self.aliases = graph.aliases
        self.change_aliases = graph.change_aliases

        self.profile_by_id = profiles.profile_by_id
        self.profile_of = profiles.profile_of
        self.profiles_to_show = profiles.profiles_to_show
        self.profile_versions = profiles.profile_versions
        self.profile_of_run = profiles.profile_of_run
        self.pipeline_history = profiles.pipeline_history
        self.turns_to_profile = profiles.turns_to_profile
        self.forgotten_turns = profiles.forgotten_turns
        self.drop_profile = profiles.drop_profile
        self.recent_threads = profiles.recent_threads
        self.save_profile = profiles.save_profile

    def _bind_lifetimes(self, retention: RetentionStorage, erasures: ErasureStorage) -> None:
        self.retention_rules = retention.retention_rules
        self.own_rules = retention.own_rules
        self.set_retention_rules = retention.set_retention_rules
        self.retimings = retention.retimings
        self.retime = retention.retime
        self.ahead_of_server = retention.ahead_of_server
        self.kept = retention.kept
        self.retention_stats = retention.retention_stats
        self.take_turn = retention.take_turn
        self.keep_turn = retention.keep_turn
        self.end_turn = retention.end_turn
        self.last_turn = retention.last_turn
        self.drop_task = retention.drop_task
        self.named_ids = retention.named_ids
        self.unknown_names = retention.unknown_names
        self.forget_faded = retention.forget_faded
        self.due = retention.due
        self.average_score = retention.average_score
        self.weak = retention.weak
        self.forget_weak = retention.forget_weak
        self.set_pinned = retention.set_pinned
        self.staged = retention.staged
        self.out_of_recall = retention.out_of_recall
        self.revive_memories = retention.revive_memories

        self.erase = erasures.erase
        self.erasures = erasures.erasures

    def _bind_operations(
        self,
        indexes: IndexStorage,
        reembedding: ReembedStorage,
        transfer: TransferStorage,
        tokens: TokenStorage,
    ) -> None:
        self.index_threshold = indexes.index_threshold
        self.builds_indexes = indexes.builds_indexes
        self.tenant_indexes = indexes.tenant_indexes
        self.large_tenants = indexes.large_tenants
        self.index_builder = indexes.index_builder

        self.begin_model = reembedding.begin_model
        self.embedded_otherwise = reembedding.embedded_otherwise
        self.add_reembedded = reembedding.add_reembedded
        self.activate_model = reembedding.activate_model
        self.drop_old_vectors = reembedding.drop_old_vectors

        self.rows_version = transfer.rows_version
        self.snapshot = transfer.snapshot
        self.applications = transfer.applications
        self.import_rows = transfer.import_rows
        self.require_unforgotten = transfer.require_unforgotten
        self.ask_for_ends = transfer.ask_for_ends
        self.import_vectors = transfer.import_vectors
        self.unembedded = transfer.unembedded
        self.add_made_vectors = transfer.add_made_vectors

        self.add_token = tokens.add_token
        self.token = tokens.token
        self.tokens = tokens.tokens
        self.revoke_token = tokens.revoke_token
        self.any_token = tokens.any_token
