from .arguments import check_arguments as check_arguments
from .delimiters import HEAD as HEAD
from .domain import (
    ROLES as ROLES,
    JsonValue as JsonValue,
    MemoryKind as MemoryKind,
    Namespace as Namespace,
    Role as Role,
    Scope as Scope,
)
from .environment import setting as setting
from .event_loops import in_background as in_background, on_hosts_loop as on_hosts_loop
from .extras import from_extras as from_extras
from .failure_reason import log_failure as log_failure, reason as reason
from .hints import hint_at_inspector as hint_at_inspector
from .ids import id_of_text as id_of_text, id_of_words as id_of_words, uuid7 as uuid7
from .json_text import check_json as check_json, cleaned as cleaned, to_json as to_json
from .model_limits import limits_of as limits_of, named_limits as named_limits
from .namespaces import (
    MEMORIES as MEMORIES,
    check_label as check_label,
    instructions_namespace as instructions_namespace,
    instructions_scope as instructions_scope,
    memories_namespace as memories_namespace,
    profile_namespace as profile_namespace,
    scope_path as scope_path,
    storable as storable,
)
from .retention_policy import RetentionPolicy as RetentionPolicy
from .shown import shown as shown
from .telemetry import search_failed as search_failed
from .time_zones import ambient_zone as ambient_zone, in_zone as in_zone
from .validation import listed as listed, zone_of as zone_of
