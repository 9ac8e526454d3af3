# SPDX-License-Identifier: GPL-3.0-or-later
# Looks for a CUDA compiler as SPANSCOPE_CUDA says (AUTO: builds without when there is none, and says so). Included at the top,
# so that the language is known to gpu/ and to tests/.
if(SPANSCOPE_CUDA STREQUAL "OFF")
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(SPANSCOPE_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
  if(SPANSCOPE_NVCC)
    set(CMAKE_CUDA_COMPILER "${SPANSCOPE_NVCC}")
  endif()
endif()
# Cards from compute capability 8.0 on; the last one's PTX serves what comes later.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "Architectures of the CUDA backend")
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")  # objects of core cross the border: one compiler for both sides
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(SPANSCOPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SPANSCOPE_CUDA=ON, but no CUDA compiler was found; set CUDACXX, or use AUTO or OFF")
  endif()
  message(STATUS "No CUDA compiler: the GPU module is not built, programs use the CPU")
  return()
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know the flag of compilers newer than itself
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
