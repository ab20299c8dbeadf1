// SPDX-License-Identifier: Apache-2.0
//! Call a program that takes two F32[2,3] and gives one:
//! rustc -o call call.rs && ./call /mnt/pjrt/executables/add/call.raw
use std::fs::OpenOptions;
use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).expect("the path of call.raw");
    let mut call = OpenOptions::new().read(true).write(true).open(path)?;
    let xy: [f32; 12] = [1., 2., 3., 4., 5., 6., 10., 20., 30., 40., 50., 60.];
    let bytes: Vec<u8> = xy.iter().flat_map(|x| x.to_le_bytes()).collect();
    call.write_all(&bytes)?;
    let mut z = [0; 24];
    call.read_exact(&mut z)?;
    for x in z.chunks(4) {
        println!("{}", f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
    }
    Ok(())
}
