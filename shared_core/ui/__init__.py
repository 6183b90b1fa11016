"""The inspector: pages in a browser that show what a memory knows. Needs the extra `ui`."""

from shared_core.ui.options import InspectorOptions
from shared_core.ui.server import create_app, serve

__all__ = ["InspectorOptions", "create_app", "serve"]
