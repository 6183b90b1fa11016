"""The memory as a server of the Model Context Protocol.

Only this room imports the SDK, which comes with the extra [mcp].
"""
