// A heated rod, with checkpoints through the functions of ckpt.h. Each rank has a rod of its own;
// a program with a crate for MPI takes rank and size from it, and others from the launcher as here.
//
//     cc -c -x c ckpt.h -o ckpt_c.o
//     rustc -O rod.rs -C link-arg=ckpt_c.o && ./rod CELLS STEPS
use std::ffi::{c_char, c_int, c_long, c_void, CStr, CString};

extern "C" {
    fn ckpt_init(rank: c_int, size: c_int) -> c_int;
    fn ckpt_protect(name: *const c_char, at: *mut c_void, bytes: usize, kind: c_int) -> c_int;
    fn ckpt_restore() -> c_long;
    fn ckpt_boundary(step: c_long) -> c_int;
    fn ckpt_finalize() -> c_int;
    fn ckpt_error() -> *const c_char;
}

const CKPT_FLOAT64: c_int = 1;
const CKPT_STOP: c_int = 1;

fn failed() -> ! {
    eprintln!("{}", unsafe { CStr::from_ptr(ckpt_error()) }.to_string_lossy());
    std::process::exit(1)
}

/// Protects values. They stay where they are until the end of the program: the slice neither
/// grows nor moves.
fn protect(name: &str, values: &mut [f64]) {
    let name = CString::new(name).unwrap();
    let bytes = std::mem::size_of_val(values);
    if unsafe { ckpt_protect(name.as_ptr(), values.as_mut_ptr().cast(), bytes, CKPT_FLOAT64) } < 0 {
        failed()
    }
}

fn number(name: &str, or: i32) -> i32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let (cells, steps) = (words.next().unwrap_or(1000), words.next().unwrap_or(1000) as c_long);
    let (rank, size) = (number("PMI_RANK", 0), number("PMI_SIZE", 1));
    let mut u: Vec<f64> = (0..cells).map(|i| ((i * 31 + rank as usize) % 101) as f64).collect();

    unsafe { ckpt_init(rank, size) };
    protect("u", &mut u);
    let first = unsafe { ckpt_restore() };
    if first < 0 {
        failed()
    }
    for step in first..steps {
        for i in 1..cells {
            u[i] += 0.25 * (u[i - 1] - u[i]);
        }
        if unsafe { ckpt_boundary(step + 1) } == CKPT_STOP {
            unsafe { ckpt_finalize() };
            return;
        }
    }
    println!("rank {rank}: {:.17e}", u.iter().sum::<f64>());
    unsafe { ckpt_finalize() };
}
