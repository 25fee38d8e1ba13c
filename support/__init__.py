"""What no paper describes and a user needs: files, tables, parses. Imports no module at the top."""
