"""What an arm feels, weighs and lets itself be led by: measured in lock-step on the simulated arm."""
