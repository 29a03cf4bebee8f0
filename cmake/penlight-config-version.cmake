# The version is written once, in the Python package: of an installed wheel, or of a checkout.

foreach(package IN ITEMS ../.. ../src/penlight)
  set(file "${CMAKE_CURRENT_LIST_DIR}/${package}/__init__.py")
  if(NOT EXISTS "${file}")
    continue()
  endif()
  file(STRINGS "${file}" line REGEX "^__version__ = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" PACKAGE_VERSION "${line}")
  break()
endforeach()
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
# Before 1.0 a new minor version may change what programs are written against.
string(REGEX MATCH "^[0-9]+\\.[0-9]+" wanted "${PACKAGE_FIND_VERSION}.0")
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION AND "${PACKAGE_VERSION}." MATCHES "^${wanted}\\.")
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
