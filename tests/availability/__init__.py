"""Several operators at once: who wrote, who was allowed to, and how long nobody did."""
