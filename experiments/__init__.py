"""Commands beside train.py: compare, explain, bench, english. groups is a part of compare."""
