module ottla/bench/volley

go 1.24
