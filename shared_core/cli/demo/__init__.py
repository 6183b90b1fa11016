"""`hippocampus demo`: conversations are learned through Google ADK and asked about through both.

script.py reads the conversations, learner.py is the ADK side, reader.py the LangGraph side in a
process of its own, tour.py runs them, pages.py shows what they found. Only learner.py and reader.py
import a framework.
"""
