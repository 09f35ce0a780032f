"""A fleet and its work as a TOML file: read, checked, and described again."""
