"""What machines tell each other, and what follows from it. Sans-IO."""
