"""Commands beside train.py: compare, explain, robustness, bench, english. The other files are no
commands: groups and draw are parts of these."""
