// The model that `dynid export c` wrote, by names that do not depend on the robot.
// CMakeLists.txt defines DYNID_HEADER ("crane_x7.h"), DYNID_MODEL (crane_x7) and DYNID_MODEL_UPPER (CRANE_X7).
#pragma once

#include DYNID_HEADER

#include <cstddef>

#define DYNID_JOIN_(prefix, name) prefix##_##name
#define DYNID_JOIN(prefix, name) DYNID_JOIN_(prefix, name)
#define DYNID_NAME(name) DYNID_JOIN(DYNID_MODEL, name)
#define DYNID_CONSTANT(name) DYNID_JOIN(DYNID_MODEL_UPPER, name)

namespace dynid_effort_controller {

static_assert(DYNID_CONSTANT(ACCEPTED) == 1, "this model did not pass its checks: it must not move an arm");
static_assert(DYNID_CONSTANT(HAS_TORQUE_LIMITS) == 1, "the robot states no torque limits: state them, export again");
static_assert(sizeof(DYNID_NAME(real)) == sizeof(double), "export without --float: ros2_control computes in double");

constexpr std::size_t kAxes = DYNID_CONSTANT(AXES);

inline const char *joint_name(std::size_t i) { return DYNID_NAME(joint_names)[i]; }
inline double lower(std::size_t i) { return DYNID_NAME(lower)[i]; }
inline double upper(std::size_t i) { return DYNID_NAME(upper)[i]; }

}  // namespace dynid_effort_controller
