from .assembler import (
    ContextAssembler as ContextAssembler,
    ShownMemory as ShownMemory,
    memory_block as memory_block,
)
from .window import ContextItem as ContextItem, ContextWindow as ContextWindow
