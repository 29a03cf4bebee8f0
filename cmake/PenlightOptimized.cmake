# The optimized kernels: kernels/optimized/*.cpp once, vector/*.cpp once for each
# instruction set that the processor which runs them may have.

# vector/*.cpp compiled as `isa`, with `flags`.
function(penlight_add_vector_routines isa)
  get_filename_component(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  file(GLOB sources CONFIGURE_DEPENDS "${root}/kernels/optimized/vector/*.cpp")
  set(name penlight_vector_${isa})
  add_library(${name} OBJECT ${sources})
  target_compile_features(${name} PUBLIC cxx_std_17)
  target_include_directories(${name} PRIVATE "${root}")
  penlight_compile_flags(${name})
  # Unrolled tiles want -O3; a multiply and an add are fused wherever the set has that.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O3> -ffp-contract=fast ${ARGN})
  if(PENLIGHT_SANITIZE)
    # Of each pointer that a tile makes; what is read or written through one is checked all the same. They
    # take nearly a quarter of the time that product.cpp takes to compile.
    target_compile_options(${name} PRIVATE -fno-sanitize=null,pointer-overflow)
  endif()
  target_compile_definitions(${name} PRIVATE PENLIGHT_ISA=${isa})
  target_sources(penlight_optimized PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

# Random numbers are the same on every machine.
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/../kernels/optimized/vector/random.cpp"
                            PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

# A pair of members that were stored one by one, and are loaded as a vector, is not forwarded: the load waits
# until both have reached the cache, after everything before them.
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/../kernels/optimized/vector/split_product.cpp"
                            PROPERTIES COMPILE_OPTIONS -fno-tree-slp-vectorize)

penlight_add_kernel_library(optimized)
penlight_add_vector_routines(base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  # With prefetchw, lines that are to be written are asked for as such; processors without it do nothing then.
  penlight_add_vector_routines(avx2 -mavx2 -mfma -mf16c -mprfchw)
  target_compile_definitions(penlight_optimized PRIVATE PENLIGHT_WITH_AVX2)
  if(PENLIGHT_AVX512)
    # Registers of 512 bits, also where the compiler would rather have 256.
    penlight_add_vector_routines(avx512 -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mf16c -mprfchw
                                 -mprefer-vector-width=512)
    target_compile_definitions(penlight_optimized PRIVATE PENLIGHT_WITH_AVX512)
  endif()
endif()
