"""ROS 2 nodes and their clients; no other package imports ROS."""
