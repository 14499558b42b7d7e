"""Before the loop: servos checked and brought up, and the doctor that only looks."""
