from .settings import ConversationSettings as ConversationSettings
from .strategies import MemoryRecord as MemoryRecord, MemoryStrategy as MemoryStrategy
