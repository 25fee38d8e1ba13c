"""What no paper describes and a user needs: files, tables, parses. Imports nothing from the top."""
