from .memory_service import OpenMemoryService as OpenMemoryService
from .offline_model import OfflineModel as OfflineModel
from .plugin import MemoryPlugin as MemoryPlugin
from .registry import register as register
from .session_service import PgSessionService as PgSessionService
from .tools import (
    forget as forget,
    recall as recall,
    recall_when as recall_when,
    remember as remember,
)
