from .statistics import draw as draw
