"""From values to HTML: templates, charts, folded JSON, and strangers' text made safe to look at."""
