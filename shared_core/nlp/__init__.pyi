from .tokenizer import TokenCounter as TokenCounter, count_tokens as count_tokens
