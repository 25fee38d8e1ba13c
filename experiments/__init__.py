"""Commands that use the loop: python -m experiments.NAME. No module at the top imports them."""
