-- The command line of a bench program: "--name value" for each name, "--name" alone for `quick` and `strict`, over what is given as usual.
-- What does not fit ends the program.
return function(program, usual)
    local option, at = usual, 1
    while arg[at] do
        local name = arg[at]:match("^%-%-(.+)")
        if name == "quick" or name == "strict" then
            option[name] = true
        elseif name and arg[at + 1] then
            at = at + 1
            option[name] = arg[at]
        else
            io.stderr:write(program, ": unknown option ", arg[at], "\n")
            os.exit(2)
        end
        at = at + 1
    end
    return option
end
