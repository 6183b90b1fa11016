"""The inspector in a browser: one inspector and one browser for all tests of this folder."""
