"""Encoding: columns to numbers as a schema or public ranges say, each row by itself."""
