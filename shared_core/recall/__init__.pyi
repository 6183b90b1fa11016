from .ranking import fitting as fitting, relevance as relevance
from .time_slices import told as told
