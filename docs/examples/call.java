// SPDX-License-Identifier: Apache-2.0
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Call a program that takes two F32[2,3] and gives one:
 *  java call.java /mnt/pjrt/executables/add/call.raw */
class Call {
	public static void main(String[] args) throws Exception {
		try (var call = new RandomAccessFile(args[0], "rw").getChannel()) {
			var xy = ByteBuffer.allocate(48).order(ByteOrder.LITTLE_ENDIAN);
			for (float x : new float[] { 1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60 })
				xy.putFloat(x);
			call.write(xy.flip());
			var z = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
			call.read(z);
			for (z.flip(); z.hasRemaining();)
				System.out.println(z.getFloat());
		}
	}
}
