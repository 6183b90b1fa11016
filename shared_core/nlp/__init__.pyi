from .text import search_terms as search_terms, sentences as sentences, words_of as words_of
from .tokenizer import TokenCounter as TokenCounter, count_tokens as count_tokens
from .uncertainty import shown_text as shown_text
