// SPDX-License-Identifier: Apache-2.0
//! Execute a program with two arrays that are uploaded, and print the reply:
//! rustc -o control control.rs && ./control /mnt/pjrt
use std::fs::{write, OpenOptions};
use std::io::{BufRead, BufReader, Write};

fn main() -> std::io::Result<()> {
    let mnt = std::env::args().nth(1).expect("the mount point");
    write(format!("{mnt}/buffers/x.txt"), "1 2 3\n4 5 6\n")?;
    write(format!("{mnt}/buffers/y.txt"), "10 20 30\n40 50 60\n")?;
    let path = format!("{mnt}/control");
    let mut control = OpenOptions::new().read(true).write(true).open(path)?;
    let command = r#"{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"]}"#;
    control.write_all(format!("{command}\n").as_bytes())?;
    let mut reply = String::new();
    BufReader::new(control).read_line(&mut reply)?;
    print!("{reply}");
    Ok(())
}
