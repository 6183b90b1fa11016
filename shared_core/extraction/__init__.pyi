from .llm_extractor import ModelExtractor as ModelExtractor
from .rule_based import RuleExtractor as RuleExtractor
