-- The test kit for users (lua/metasync/kit.lua), as specs of the project load it: the source tree's, once per process.
package.path = "lua/?.lua;" .. package.path
package.loaded["metasync.kit"] = package.loaded["metasync.kit"] or rawget(_G, "metasync_kit") or require "metasync.kit"
rawset(_G, "metasync_kit", package.loaded["metasync.kit"]) -- busted forgets modules between files, ffi.cdef does not
return package.loaded["metasync.kit"]
