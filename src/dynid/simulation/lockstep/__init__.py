"""Simulated runs in lock-step: simulated arm and controller advance cycle by cycle, without real time; bags of runs."""
