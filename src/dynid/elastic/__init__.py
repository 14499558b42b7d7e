"""Arms with elastic joints: link and motor positions measured."""
