"""dynid: physically feasible dynamic identification for ROS 2 arms, from motor current to an accepted model."""

__version__ = "0.1.0"
