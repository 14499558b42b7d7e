"""Arms with elastic joints whose links and motors are both measured."""
