"""Speed and accuracy of identification and control, as ratios to a plain baseline."""
