"""What needs a checkout: the demo, the campaign, studies beside the pipeline, and measurements on this machine."""
