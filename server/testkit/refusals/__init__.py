"""Answers that a broker under test gives in place of its own: some of what a request names is refused, or spoiled on its way."""
