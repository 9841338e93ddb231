"""`ottla testkit`: a broker's test port from the shell (`port.py` calls it), and recorded requests sent again (`replay.py`)."""
