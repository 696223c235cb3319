"""The prompt: commands whose annotations are their grammar, completion, and the loops that read lines."""
