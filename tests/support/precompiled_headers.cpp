// The source of the target whose precompiled headers (CMakeLists.txt) all tests include first.
