#!/bin/bash
# ROS and this package, then the command.
set -e
. /opt/ros/jazzy/setup.bash
. /dynid/install/setup.bash
exec "$@"
