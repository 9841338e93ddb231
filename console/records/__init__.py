"""Records for pages: read, decoded, filtered, followed live."""
