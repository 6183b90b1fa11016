from .entries import Subject as Subject
from .event_memory import EventMemory as EventMemory
from .memory import Memory as Memory
from .profile_memory import ProfileMemory as ProfileMemory
from .repository import MemoryRepository as MemoryRepository
from .search import Filters as Filters, MemorySearcher as MemorySearcher
