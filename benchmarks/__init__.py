"""Measures speed, quality and cost of the memory; each module with a main() runs by itself."""
