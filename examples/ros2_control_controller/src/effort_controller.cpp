// A ros2_control controller with the `effort` interface: computed torque by a model of dynid.
#include <memory>
#include <string>

#include "controller_interface/controller_interface.hpp"
#include "dynid_effort_controller/core.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "rclcpp_lifecycle/state.hpp"
#include "realtime_tools/realtime_buffer.hpp"
#include "trajectory_msgs/msg/joint_trajectory_point.hpp"

namespace dynid_effort_controller {

using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::interface_configuration_type;
using controller_interface::return_type;
using trajectory_msgs::msg::JointTrajectoryPoint;

class EffortController : public controller_interface::ControllerInterface {
 public:
  CallbackReturn on_init() override { return CallbackReturn::SUCCESS; }

  InterfaceConfiguration command_interface_configuration() const override {
    return {interface_configuration_type::INDIVIDUAL, interface_names({"effort"})};
  }

  InterfaceConfiguration state_interface_configuration() const override {
    return {interface_configuration_type::INDIVIDUAL, interface_names({"position", "velocity"})};
  }

  CallbackReturn on_configure(const rclcpp_lifecycle::State &) override {
    subscription_ = get_node()->create_subscription<JointTrajectoryPoint>(
        "~/reference", rclcpp::SensorDataQoS(), [this](const JointTrajectoryPoint &point) { take(point); });
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override {
    if (!core_.activate(state_interfaces_)) {
      RCLCPP_ERROR(get_node()->get_logger(), "a position is not finite: is the hardware active?");
      return CallbackReturn::ERROR;
    }
    reference_.initRT(core_.held());
    return CallbackReturn::SUCCESS;
  }

  return_type update(const rclcpp::Time &, const rclcpp::Duration &) override {
    return core_.update(state_interfaces_, *reference_.readFromRT(), command_interfaces_) ? return_type::OK
                                                                                          : return_type::ERROR;
  }

 private:
  void take(const JointTrajectoryPoint &point) {
    Reference reference;
    if (point.positions.size() != kAxes || point.velocities.size() != kAxes || point.accelerations.size() != kAxes) {
      RCLCPP_ERROR(get_node()->get_logger(), "a reference needs %zu positions, velocities and accelerations", kAxes);
      return;
    }
    for (std::size_t i = 0; i < kAxes; ++i) {
      reference.q[i] = point.positions[i];
      reference.dq[i] = point.velocities[i];
      reference.ddq[i] = point.accelerations[i];
    }
    if (!usable(reference)) {
      RCLCPP_ERROR(get_node()->get_logger(), "a reference is not finite, or beyond a joint limit: left out");
      return;
    }
    reference_.writeFromNonRT(reference);
  }

  Core core_;
  realtime_tools::RealtimeBuffer<Reference> reference_;
  rclcpp::Subscription<JointTrajectoryPoint>::SharedPtr subscription_;
};

}  // namespace dynid_effort_controller

PLUGINLIB_EXPORT_CLASS(dynid_effort_controller::EffortController, controller_interface::ControllerInterface)
