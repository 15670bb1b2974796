"""PostgreSQL, the only truth: tables, sessions, queries and the box functions' client."""
