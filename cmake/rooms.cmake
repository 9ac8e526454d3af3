# SPDX-License-Identifier: GPL-3.0-or-later
# A room is a folder of core/ built as one static library. LINKS names the rooms and libraries that it may use;
# tests/unit/layering checks that the includes agree.
function(spanscope_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    add_library(spanscope_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(spanscope_${name} STATIC ${sources})
    set(scope PUBLIC)
  endif()
  target_include_directories(spanscope_${name} ${scope} ${CMAKE_SOURCE_DIR})
  target_link_libraries(spanscope_${name} ${scope} ${ROOM_LINKS})
endfunction()
