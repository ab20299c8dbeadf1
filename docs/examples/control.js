// SPDX-License-Identifier: Apache-2.0
// Upload two arrays, execute a program with them, and print the result: node control.js /mnt/pjrt
const fs = require("fs");
const mnt = process.argv[2];

fs.writeFileSync(`${mnt}/buffers/x.txt`, "1 2 3\n4 5 6\n");
fs.writeFileSync(`${mnt}/buffers/y.txt`, "10 20 30\n40 50 60\n");
const control = fs.openSync(`${mnt}/control`, "r+");
const command = { op: "execute", executable: "add", inputs: ["x", "y"], outputs: ["z"] };
fs.writeSync(control, JSON.stringify(command) + "\n");
const line = Buffer.alloc(65536);
const reply = JSON.parse(line.toString("utf8", 0, fs.readSync(control, line)));
if (!reply.ok) {
	console.error(reply.error.message);
	process.exit(1);
}
process.stdout.write(fs.readFileSync(`${mnt}/buffers/z.txt`));
