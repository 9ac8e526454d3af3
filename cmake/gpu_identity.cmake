# SPDX-License-Identifier: GPL-3.0-or-later
# SPANSCOPE_GPU_BUILD: what a program and a GPU module must have in common so that objects of core may cross between them
# (core/device/gpu_abi.h): the headers of core/base, core/model and of the border itself, the compiler, sanitizers.
file(GLOB identity_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/base/*.h ${CMAKE_SOURCE_DIR}/core/model/*.h
  ${CMAKE_SOURCE_DIR}/core/device/gpu_abi.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${identity_headers})
set(identity "")
foreach(header ${identity_headers})
  file(SHA256 ${header} digest)
  string(APPEND identity ${digest})
endforeach()
string(SHA256 identity "${identity}")
string(SUBSTRING ${identity} 0 16 identity)
set(SPANSCOPE_GPU_BUILD
  "spanscope ${PROJECT_VERSION} ${identity} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${SPANSCOPE_SANITIZE}")
string(STRIP "${SPANSCOPE_GPU_BUILD}" SPANSCOPE_GPU_BUILD)
