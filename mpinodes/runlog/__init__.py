"""What a run writes into its directory while it goes on, and who reads that."""
