# Compiler flags that every C++ target of ours gets.

function(penlight_compile_flags target)
  target_compile_options(${target} PRIVATE
    $<$<NOT:$<BOOL:${PENLIGHT_QUIET}>>:-Wall -Wextra> $<$<BOOL:${PENLIGHT_WERROR}>:-Werror>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>
    -ffunction-sections -fdata-sections -fvisibility=hidden
    # Results must not depend on whether the compiler found a multiply and an add to fuse.
    -ffp-contract=off -fno-math-errno)
  if(PENLIGHT_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1
      # Checks make large functions of small ones, for which these passes take half of GCC's time. So
      # functions of a thousand accesses and more call what checks them.
      $<$<CXX_COMPILER_ID:GNU>:-fno-tree-pta -fira-region=one
        --param=asan-instrumentation-with-call-threshold=1000>)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

# Sections that nothing refers to are left out of what is linked.
if(APPLE)
  set(PENLIGHT_GC_SECTIONS -Wl,-dead_strip)
else()
  set(PENLIGHT_GC_SECTIONS -Wl,--gc-sections)
endif()
