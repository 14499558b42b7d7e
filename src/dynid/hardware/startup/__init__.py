"""Start-up of the servos: checks and set-up before the control loop, and the examination by `dynid doctor`."""
