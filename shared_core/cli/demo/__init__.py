"""`hippocampus demo`: learn conversations through Google ADK and ask about them through both.

script.py parses the conversations, tour.py runs the demo and its ADK side, reader.py is the
LangGraph side in its own process, and pages.py prints the results.
"""
