from .executor import DurableReflectionExecutor as DurableReflectionExecutor
from .instructions import (
    get_instruction as get_instruction,
    instruction_history as instruction_history,
    instructions_namespace as instructions_namespace,
    put_instruction as put_instruction,
    rollback_instruction as rollback_instruction,
)
from .labels import memories_namespace as memories_namespace, profile_namespace as profile_namespace
from .middleware import HippocampusMiddleware as HippocampusMiddleware
from .offline_chat_model import OfflineChatModel as OfflineChatModel
from .reflection import create_reflection_node as create_reflection_node
from .server import make_store as make_store
from .store import (
    BatchError as BatchError,
    OceanBaseHippocampusStore as OceanBaseHippocampusStore,
    PgHippocampusStore as PgHippocampusStore,
)
from .tools import memory_tools as memory_tools
