module sandkeeper.dev/testbed/pause

go 1.24
