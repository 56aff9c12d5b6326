-- The policy language's Lua modules in plain LuaJIT: the same files that the library carries.
package.path = "lua/?.lua;" .. package.path
return require "metasync.schema"
