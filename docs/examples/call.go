// SPDX-License-Identifier: Apache-2.0

// Call a program that takes two F32[2,3] and gives one:
// go run call.go /mnt/pjrt/executables/add/call.raw
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"
)

func main() {
	call, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	if err != nil {
		log.Fatal(err)
	}
	xy := [12]float32{1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}
	var z [6]float32
	if err := binary.Write(call, binary.LittleEndian, xy); err != nil {
		log.Fatal(err)
	}
	if err := binary.Read(call, binary.LittleEndian, &z); err != nil {
		log.Fatal(err)
	}
	fmt.Println(z)
}
