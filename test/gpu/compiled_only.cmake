# SPDX-License-Identifier: Apache-2.0
# SPILLWAY_GPU_COMPILED_ONLY: for who has no GPU and only wants to know whether the plugin, the GPU tests and the
# benchmark compile and link (.ci/run). Most of what such a file costs nvcc is headers, which it reads three times: many
# files in one take little more than one. Programs that are to run are built without it, each test by itself.
include_guard(GLOBAL)
option(SPILLWAY_GPU_COMPILED_ONLY "Compile plugin, GPU tests and benchmark to see that they compile, not to run" OFF)

# For the targets of the folder that calls it.
macro(spillway_compiled_only)
    string(REPLACE "-O3" "-O0" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
endmacro()

# Replaces the files in the list FILES by ones that each hold COUNT of them. CMake can do that for CUDA from 3.31 on
# only (UNITY_BUILD). OWN_NAMESPACES: what a file declares goes into a namespace of its own inside spillway::cuda or
# spillway::gpu_test, so that tests may use a name that another file uses, too. Errors show lines of the files
# themselves.
function(spillway_joined_files FILES COUNT)
    set(joined "")
    set(text "")
    set(number 0)
    list(LENGTH ${FILES} length)
    foreach(file ${${FILES}})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
        file(READ "${file}" content)
        math(EXPR number "${number} + 1")
        if("OWN_NAMESPACES" IN_LIST ARGN)
            string(REGEX REPLACE "\nnamespace spillway::([a-z_]+) {" "\nnamespace spillway::\\1::file_${number} {"
                content "${content}")
        endif()
        string(APPEND text "#line 1 \"${file}\"\n${content}")
        math(EXPR rest "${number} % ${COUNT}")
        if(rest EQUAL 0 OR number EQUAL length)
            set(name "${CMAKE_CURRENT_BINARY_DIR}/joined/${FILES}_${number}.cu")
            file(WRITE "${name}.new" "${text}")
            file(COPY_FILE "${name}.new" "${name}" ONLY_IF_DIFFERENT)
            list(APPEND joined "${name}")
            set(text "")
        endif()
    endforeach()
    set(${FILES} ${joined} PARENT_SCOPE)
endfunction()

# Makes one unit of all those of a room of cuda/: there each has four files at most, so that many cores have work.
function(spillway_whole_rooms TARGET)
    get_target_property(files ${TARGET} SOURCES)
    set(rooms "")
    set(others "")
    foreach(file ${files})
        if(file MATCHES "/units/(.*)_[0-9]+\\.cu$")
            set(room ${CMAKE_MATCH_1})
            list(APPEND rooms ${room})
            string(APPEND text_of_${room} "#include \"${file}\"\n")
        else()
            list(APPEND others ${file})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES rooms)
    foreach(room ${rooms})
        set(unit ${CMAKE_CURRENT_BINARY_DIR}/rooms/${room}.cu)
        file(CONFIGURE OUTPUT ${unit} CONTENT "${text_of_${room}}" @ONLY)
        list(APPEND others ${unit})
    endforeach()
    set_property(TARGET ${TARGET} PROPERTY SOURCES ${others})
endfunction()
