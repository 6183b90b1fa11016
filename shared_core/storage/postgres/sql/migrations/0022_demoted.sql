-- Since when recall leaves a memory out because it has faded; null for what it finds.
ALTER TABLE memories ADD COLUMN demoted_at timestamptz;
