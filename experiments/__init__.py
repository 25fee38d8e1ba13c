"""Commands that use the loop: python -m experiments.NAME. Nothing at the top imports them."""
