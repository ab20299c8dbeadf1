-- SPDX-License-Identifier: Apache-2.0
-- Execute a program with two arrays that are uploaded, and print the reply:
-- lua control.lua /mnt/pjrt
local function upload(name, text)
	local file = assert(io.open(arg[1] .. "/buffers/" .. name, "w"))
	assert(file:write(text))
	assert(file:close())
end

upload("x.txt", "1 2 3\n4 5 6\n")
upload("y.txt", "10 20 30\n40 50 60\n")
local control = assert(io.open(arg[1] .. "/control", "r+"))
control:setvbuf("line")
control:write('{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}\n')
print(control:read("l"))
