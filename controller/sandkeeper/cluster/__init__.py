"""How the Kubernetes API is spoken to: the connection, a thin client, the leader lease, Events."""
