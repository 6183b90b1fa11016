-- A stand-in for Citus on one PostgreSQL, for tests of the order of calls, of what is refused and of
-- what happens when they are cut short: it moves nothing, and knows only the rules written here.
SET allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
VALUES (65001, 'citus', 10, 'pg_catalog'::regnamespace, false, 'stand-in');
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass PRIMARY KEY, partkey text);
CREATE TABLE public.stand_in_calls (number serial, call text, relation text);
CREATE TABLE public.stand_in_fails_at (relation text);
GRANT SET ON PARAMETER citus.propagate_set_commands TO public;  -- in Citus anybody may
GRANT ALL ON pg_dist_partition, stand_in_calls, stand_in_calls_number_seq, stand_in_fails_at
    TO public;

CREATE FUNCTION public.stand_in_move(target regclass, partkey text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text := (SELECT relname FROM pg_class WHERE oid = target);
BEGIN
    INSERT INTO public.stand_in_calls (call, relation)
    VALUES (CASE WHEN partkey IS NULL THEN 'reference' ELSE 'distribute' END, name);
    IF EXISTS (SELECT FROM public.stand_in_fails_at f WHERE f.relation = name) THEN
        RAISE EXCEPTION 'the node of % is gone', name;
    END IF;
    IF row_security_active(target) THEN
        RAISE feature_not_supported USING MESSAGE = 'COPY FROM not supported with row-level security';
    END IF;
    IF EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = target AND NOT t.tgisinternal) THEN
        RAISE EXCEPTION 'cannot distribute relation "%" because it has triggers', name;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint c WHERE c.contype = 'f' AND c.conrelid = target
               AND c.confrelid <> target
               AND c.confrelid NOT IN (SELECT logicalrelid FROM pg_dist_partition)) THEN
        RAISE EXCEPTION 'a table that "%" refers to must be a distributed or a reference table', name;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = target
               AND c.conrelid = to_regclass('hippocampus.consolidation_jobs')) THEN
        RAISE EXCEPTION 'relation "%" is referenced by a local table', name;
    END IF;
    IF partkey IS NOT NULL AND EXISTS (
        SELECT FROM pg_index i WHERE i.indrelid = target AND i.indisunique AND NOT EXISTS (
            SELECT FROM pg_attribute a WHERE a.attrelid = target AND a.attname = partkey
            AND a.attnum = ANY (i.indkey::smallint[]))) THEN
        RAISE EXCEPTION 'cannot create constraint on "%": it does not include %', name, partkey;
    END IF;
    INSERT INTO pg_dist_partition VALUES (target, partkey);  -- a second time is a violation
END $$;

CREATE FUNCTION public.create_reference_table(table_name regclass) RETURNS void
LANGUAGE sql AS $$ SELECT public.stand_in_move(table_name, NULL) $$;

CREATE FUNCTION public.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text DEFAULT 'hash',
    colocate_with text DEFAULT 'default'
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF colocate_with <> 'default' AND NOT EXISTS (
        SELECT FROM pg_dist_partition WHERE logicalrelid = colocate_with::regclass) THEN
        RAISE EXCEPTION 'relation % is not distributed', colocate_with;
    END IF;
    PERFORM public.stand_in_move(table_name, distribution_column);
END $$;

CREATE FUNCTION public.truncate_local_data_after_distributing_table(moved regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF moved NOT IN (SELECT logicalrelid FROM pg_dist_partition) THEN
        RAISE EXCEPTION '% is not distributed: its rows would be lost', moved;
    END IF;
    INSERT INTO public.stand_in_calls (call, relation)
    SELECT 'truncate', relname FROM pg_class WHERE oid = moved;
END $$;
