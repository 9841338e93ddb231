"""What calls that look into a broker or seed it share: finding what a test names, reading and appending records, texts."""
