-- luacheck: LuaJIT everywhere; busted's words in specs.
std = "luajit"
max_line_length = 150
exclude_files = { "build/" }
files["spec/**/*_spec.lua"] = { std = "+busted" }
