# Configures and builds consumer/ with baton's source tree as a part of it.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK} -G Ninja -DCMAKE_BUILD_TYPE=
    -DBATON_SOURCE=${SOURCE} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${WORK} --target consumer)
run(${WORK}/consumer)
