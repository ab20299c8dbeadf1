-- SPDX-License-Identifier: Apache-2.0
-- Call a program that takes two F32[2,3] and gives one:
-- lua call.lua /mnt/pjrt/executables/add/call.raw
local call = assert(io.open(arg[1], "r+b"))
call:setvbuf("no")
assert(call:write(string.pack("<" .. ("f"):rep(12), 1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60)))
print(table.concat({string.unpack("<ffffff", assert(call:read(24)))}, " ", 1, 6))
