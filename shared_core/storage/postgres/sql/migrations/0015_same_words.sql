-- The words of what a run wrote, as a digest (shared_core.nlp.similarity.words_key): what says the same in
-- the same words is found by it within the transaction that writes. No text can be read from it.
ALTER TABLE memories ADD COLUMN words_key uuid;
CREATE INDEX memories_of_words ON memories (tenant_id, words_key) WHERE words_key IS NOT NULL;
