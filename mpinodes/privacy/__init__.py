"""What a run costs in privacy: claimed and proven."""
