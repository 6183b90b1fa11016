"""The memory as a server of the Model Context Protocol. It alone imports the SDK (extra [mcp])."""
