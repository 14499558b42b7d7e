"""dynid beside other identification software, on the same recordings and judged by the same rows."""
