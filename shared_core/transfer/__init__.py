"""Export, import and re-embedding of everything a user or an application has."""
