"""Control laws of an arm, execution of motions, and checks of a motion before it is executed."""
