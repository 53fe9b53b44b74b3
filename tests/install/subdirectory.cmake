# Configures and builds consumer/ with baton's source tree as a part of it. Its sources are compiled together, which
# takes half as long as each as it stands.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK} -G Ninja -DCMAKE_BUILD_TYPE= -DCMAKE_UNITY_BUILD=ON
    -DBATON_SOURCE=${SOURCE} -DBATON_TOGETHER=ON -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
file(STRINGS ${WORK}/build.ninja strict REGEX "-Werror" LIMIT_COUNT 1)
if(strict)
  message(FATAL_ERROR "-Werror reaches projects that take baton in: ${strict}")
endif()
run(${CMAKE_COMMAND} --build ${WORK} --target consumer --parallel 1)  # other tests have the other cores
run(${WORK}/consumer)
