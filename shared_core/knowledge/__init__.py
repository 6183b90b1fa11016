"""Drafts become knowledge: facts, edges, runs and their undo, corrections, the graph."""
