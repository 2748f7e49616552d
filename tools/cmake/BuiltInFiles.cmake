# ptdp_build_in(<target> <folder> <patterns>...): makes the files below the folder that match a part of the
# target, as the table that cost_model/text/built_in_files.cpp reads.
function(ptdp_build_in target folder)
  list(TRANSFORM ARGN PREPEND "${folder}/")
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  list(SORT files)
  set(contents "")
  set(table "")
  set(index 0)
  foreach(file IN LISTS files)
    file(RELATIVE_PATH path "${folder}" "${file}")
    string(APPEND contents "path_${index}: .asciz \"${path}\"\n"
                           "begin_${index}: .incbin \"${file}\"\nend_${index}:\n")
    string(APPEND table "  .8byte path_${index}, begin_${index}, end_${index}\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}_files.S")
  file(CONFIGURE OUTPUT "${source}" CONTENT
".section .rodata
${contents}
.section .data.rel.ro, \"aw\"
.balign 8
.globl kPtdpBuiltInFiles
kPtdpBuiltInFiles:
${table}
.globl kPtdpNumBuiltInFiles
kPtdpNumBuiltInFiles: .8byte ${index}
.section .note.GNU-stack, \"\", %progbits
")
  set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${target} PRIVATE "${source}")
endfunction()
