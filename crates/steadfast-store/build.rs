//! A new migration is compiled in even when no Rust file has changed.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=migrations-events");
}
