module ottla/bench/floor

go 1.24
