"""Commands beside train.py: compare, explain, robustness, bench, english. The other files are no
commands: groups is a part of compare."""
