"""Templates of the CMake, test and example files that accompany the C source.

The module `dynid.runtime.c_folder` replaces the placeholders, which are words between two @.
"""

CMAKE = """cmake_minimum_required(VERSION 3.10)
project(@NAME@ C)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library(@NAME@ STATIC @NAME@.c)
target_include_directories(@NAME@ PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(@NAME@ PUBLIC m)

enable_testing()
add_executable(test_@NAME@ test_@NAME@.c)
target_link_libraries(test_@NAME@ @NAME@)
add_test(NAME values COMMAND test_@NAME@)

if(@EXAMPLE@)
  add_executable(example_@NAME@ example_@NAME@.c)
  target_link_libraries(example_@NAME@ @NAME@)
endif()
"""

TEST = """/* Compares the functions with values that the model gave in Python; exit code 1 if they differ. */
#include "@NAME@.h"

#include <math.h>
#include <stdio.h>

#define N @AXES@
#define STATES @STATES@
#define TOLERANCE @TOLERANCE@

static const @NAME@_real Q[STATES][N] = {
    @V_Q@};
static const @NAME@_real DQ[STATES][N] = {
    @V_DQ@};
static const @NAME@_real DDQ[STATES][N] = {
    @V_DDQ@};
static const @NAME@_real LOAD[STATES][N] = {
    @V_LOAD@};
static const double GRAVITY[STATES][N] = {
    @V_GRAVITY@};
static const double TORQUES[STATES][N] = {
    @V_TORQUES@};
static const double FRICTION[STATES][N] = {
    @V_FRICTION@};
static const double INERTIA[STATES][N * N] = {
    @V_INERTIA@};

static double worst;

static void compare(const @NAME@_real *found, const double *expected, int count)
{
    double largest = 1.0;
    for (int i = 0; i < count; i++)
        if (fabs(expected[i]) > largest) largest = fabs(expected[i]);
    for (int i = 0; i < count; i++) {
        const double off = fabs((double)found[i] - expected[i]) / largest;
        if (!(off <= worst)) worst = off;
    }
}

int main(void)
{
    for (int k = 0; k < STATES; k++) {
        @NAME@_real tau[N], M[N * N];
        @NAME@_gravity(Q[k], tau);
        compare(tau, GRAVITY[k], N);
        @NAME@_inverse_dynamics(Q[k], DQ[k], DDQ[k], tau);
        compare(tau, TORQUES[k], N);
        @NAME@_friction(DQ[k], LOAD[k], tau);
        compare(tau, FRICTION[k], N);
        @NAME@_inertia_matrix(Q[k], M);
        compare(M, INERTIA[k], N * N);
    }
    printf("largest difference %.3g, allowed %.3g\\n", worst, TOLERANCE);
    return worst <= TOLERANCE ? 0 : 1;
}
"""

EXAMPLE = """/* A control loop without an arm: put your own reading and writing in the two marked places. */
#include "@NAME@.h"

#include <math.h>
#include <stdio.h>

#define N @UPPER@_AXES
#define RATE_HZ 500
#define SECONDS 2

int main(void)
{
    @NAME@_real q[N], dq[N], q_ref[N], dq_ref[N], ddq_ref[N], stiffness[N], damping[N], tau[N];
    const double w = 3.0;
#if !@UPPER@_ACCEPTED
    printf("this model was not accepted: never move an arm with it\\n");
#endif
    for (int i = 0; i < N; i++) {
        stiffness[i] = 100;
        damping[i] = 20;
        tau[i] = 0;
    }
    for (int k = 0; k < RATE_HZ * SECONDS; k++) {
        const double t = (double)k / RATE_HZ;
        for (int i = 0; i < N; i++) {
            const double middle = 0.5 * ((double)@NAME@_lower[i] + (double)@NAME@_upper[i]);
            q_ref[i] = (@NAME@_real)(middle + 0.1 * (1.0 - cos(w * t)));
            dq_ref[i] = (@NAME@_real)(0.1 * w * sin(w * t));
            ddq_ref[i] = (@NAME@_real)(0.1 * w * w * cos(w * t));
            q[i] = q_ref[i];   /* here: read the position of joint i */
            dq[i] = dq_ref[i]; /* here: read or estimate its velocity */
        }
        if (@NAME@_computed_torque(q, dq, q_ref, dq_ref, ddq_ref, stiffness, damping, tau) < 0) {
            printf("no finite torque: hold the arm by its servos\\n");
            return 1;
        }
        /* here: write the torques tau */
    }
    for (int i = 0; i < N; i++) printf("%-40s %8.3f N m\\n", @NAME@_joint_names[i], (double)tau[i]);
    return 0;
}
"""
