// SPDX-License-Identifier: Apache-2.0
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;

/** Execute a program with two arrays that are uploaded, and print the reply:
 *  java control.java /mnt/pjrt */
class Control {
	public static void main(String[] args) throws Exception {
		Files.writeString(Path.of(args[0], "buffers/x.txt"), "1 2 3\n4 5 6\n");
		Files.writeString(Path.of(args[0], "buffers/y.txt"), "10 20 30\n40 50 60\n");
		try (var control = new RandomAccessFile(args[0] + "/control", "rw")) {
			control.writeBytes("{\"op\":\"execute\",\"executable\":\"add\","
				+ "\"inputs\":[\"x\",\"y\"],\"outputs\":[\"z\"]}\n");
			System.out.println(control.readLine());
		}
	}
}
