"""ROS 2 nodes and their clients; no other package of dynid imports ROS."""
