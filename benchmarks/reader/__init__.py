"""Trains and measures the small reader that finds facts in text as people type it."""
