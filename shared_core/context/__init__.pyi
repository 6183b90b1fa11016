from .assembler import ContextAssembler as ContextAssembler, memory_block as memory_block
from .composition import (
    Composition as Composition,
    ShownKind as ShownKind,
    ShownMemory as ShownMemory,
    asks_nothing as asks_nothing,
    composed as composed,
    memory_label as memory_label,
    past_memory as past_memory,
    shown_kind as shown_kind,
    shown_memory as shown_memory,
)
from .offline_answer import offline_answer as offline_answer
from .window import ContextItem as ContextItem, ContextWindow as ContextWindow
