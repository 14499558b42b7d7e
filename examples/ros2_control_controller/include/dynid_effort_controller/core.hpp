// The control law between the interfaces of ros2_control: no ROS in here, no allocation, no lock, no file.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "dynid_effort_controller/model.hpp"

namespace dynid_effort_controller {

using Row = std::array<double, kAxes>;

struct Reference {
  Row q{};    // [rad]
  Row dq{};   // [rad/s]
  Row ddq{};  // [rad/s^2]
};

struct Gains {
  double stiffness = 400.0;  // [1/s^2]; change them here: no file is read
  double damping = 40.0;     // [1/s]
};

inline std::vector<std::string> interface_names(const std::vector<std::string> &kinds) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kAxes; ++i) {
    for (const auto &kind : kinds) names.push_back(std::string(joint_name(i)) + "/" + kind);
  }
  return names;
}

// Returns whether a reference is finite and within the joint limits.
inline bool usable(const Reference &reference) {
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (!std::isfinite(reference.q[i]) || !std::isfinite(reference.dq[i]) || !std::isfinite(reference.ddq[i])) {
      return false;
    }
    if (reference.q[i] < lower(i) || reference.q[i] > upper(i)) return false;
  }
  return true;
}

class Core {
 public:
  explicit Core(const Gains &gains = Gains()) {
    stiffness_.fill(gains.stiffness);
    damping_.fill(gains.damping);
  }

  // States are position and velocity of each joint in turn, as `interface_names({"position", "velocity"})` asks for.
  // Begin at rest where the arm is; false if a position is not finite.
  template <class States>
  bool activate(const States &states) {
    if (states.size() != 2 * kAxes) return false;
    held_ = Reference();
    for (std::size_t i = 0; i < kAxes; ++i) {
      held_.q[i] = value(states[2 * i]);
      if (!std::isfinite(held_.q[i])) return false;
    }
    return true;
  }

  // Where the arm was activated: the reference until another one arrives.
  const Reference &held() const { return held_; }

  // One cycle: efforts into the commands, one for each joint. False, with no command changed, if a state or a torque is
  // not finite or a command is refused.
  template <class States, class Commands>
  bool update(const States &states, const Reference &reference, Commands &commands) {
    if (states.size() != 2 * kAxes || commands.size() != kAxes) return false;
    for (std::size_t i = 0; i < kAxes; ++i) {
      q_[i] = value(states[2 * i]);
      dq_[i] = value(states[2 * i + 1]);
    }
    const int cut = DYNID_NAME(computed_torque)(q_.data(), dq_.data(), reference.q.data(), reference.dq.data(),
                                                reference.ddq.data(), stiffness_.data(), damping_.data(), tau_.data());
    if (cut < 0) return false;
    bool taken = true;
    for (std::size_t i = 0; i < kAxes; ++i) taken = commands[i].set_value(tau_[i]) && taken;
    return taken;
  }

 private:
  template <class State>
  static double value(const State &state) {
    const auto found = state.get_optional();
    return found ? *found : std::nan("");
  }

  Row stiffness_{}, damping_{}, q_{}, dq_{}, tau_{};
  Reference held_{};
};

}  // namespace dynid_effort_controller
