-- luacheck: LuaJIT everywhere; busted's words in specs.
std = "luajit"
max_line_length = 150
ignore = { "431" } -- a local that has the name of an outer one: short names are used again
exclude_files = { "build/" }
files["spec/**/*_spec.lua"] = { std = "+busted" }
files["lua/example/*_spec.lua"] = { std = "+busted" }
-- What a policy sees besides the language.
files["lua/policies/"] = { read_globals = { "metasync" } }
