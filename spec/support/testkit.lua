-- The test kit for users (lua/metasync/kit.lua), as specs of the project load it: the source tree's, once per process.
require "spec.support.ms" -- declares the kit's functions too, and doesn't like to be second
local ffi = require "ffi"

package.path = "lua/?.lua;" .. package.path
-- A library with sanitizers has the kit's functions, too.
pcall(ffi.cdef, "int setenv(const char *name, const char *value, int overwrite);")
if os.getenv "MS_LIB" and not os.getenv "METASYNC_KIT" then ffi.C.setenv("METASYNC_KIT", os.getenv "MS_LIB", 1) end
package.loaded["metasync.kit"] = package.loaded["metasync.kit"] or rawget(_G, "metasync_kit") or require "metasync.kit"
rawset(_G, "metasync_kit", package.loaded["metasync.kit"]) -- busted forgets modules between files, ffi.cdef does not
return package.loaded["metasync.kit"]
