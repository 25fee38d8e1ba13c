"""Commands beside train.py: compare, explain, bench, english."""
