"""From what a user asks for to a set-up that is ready to run."""
