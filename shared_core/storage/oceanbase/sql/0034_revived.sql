-- The column takes every kind of change, 'revived' included: nothing to alter here.
SELECT 1;
