-- Ends of facts that were known before they came; as a rule, none.
CREATE INDEX facts_planned_ends ON facts (tenant_id, valid_until) WHERE superseded_at < valid_until;
