from .tokenizer import TokenCounter as TokenCounter, count_tokens as count_tokens
from .uncertainty import shown_text as shown_text
