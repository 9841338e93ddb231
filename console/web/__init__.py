"""HTTP, before and around the pages: the process, its port, TLS, who is let in, and from a request to a page."""
