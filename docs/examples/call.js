// SPDX-License-Identifier: Apache-2.0
// Call a program that takes two F32[2,3] and gives one:
// node call.js /mnt/pjrt/executables/add/call.raw
const fs = require("fs");

const call = fs.openSync(process.argv[2], "r+");
fs.writeSync(call, Float32Array.of(1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60));
const z = new Float32Array(6);
fs.readSync(call, z);
console.log(...z);
