"""The journal as a SQLite file: its form, its versions, and what can be saved of a broken one."""
