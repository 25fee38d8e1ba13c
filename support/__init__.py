"""What no paper describes and a user needs: files, tables, parses, checkpoints. Imports nothing
from the top.
"""
