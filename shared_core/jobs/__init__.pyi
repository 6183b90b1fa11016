from .queue import CALLBACK as CALLBACK
from .retries import PerformerExited as PerformerExited
