// SPDX-License-Identifier: Apache-2.0

// Execute a program with two arrays that are uploaded, and print the result:
// go run control.go /mnt/pjrt
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	buffers := os.Args[1] + "/buffers/"
	check(os.WriteFile(buffers+"x.txt", []byte("1 2 3\n4 5 6\n"), 0644))
	check(os.WriteFile(buffers+"y.txt", []byte("10 20 30\n40 50 60\n"), 0644))
	control, err := os.OpenFile(os.Args[1]+"/control", os.O_RDWR, 0)
	check(err)
	fmt.Fprintln(control, `{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}`)
	reply, err := bufio.NewReader(control).ReadString('\n')
	check(err)
	fmt.Print(reply)
}
