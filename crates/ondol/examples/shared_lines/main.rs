//! Counts where threads that work on different files meet in memory: atomic read-modify-writes of cache lines that
//! several threads modify, for each operation.
//!
//! `cargo run --release -p ondol --example shared_lines [ENGINE [WORK [THREADS [MOST]]]]`; ENGINE: `scalable` (the
//! default), `classic` or `compressed`; WORK: `create` (the default: create, write 4 KiB, fsync, as a mount asks for
//! them), `overwrite` (4 KiB and fsync) or `path` (as `create`, each file by its path). It fails where an operation
//! modifies shared lines more than MOST times, those of the allocator apart.
//!
//! The program starts itself as a traced process and executes the operations of each thread instruction by instruction.
//! Every instruction that modifies memory atomically is noted with its address: locks, counts of references, the
//! allocator, everything. A line that two threads have modified is shared. The counts are of instructions, so they do
//! not depend on the machine, nor on what else runs there. Linux on `x86_64` alone.
#![allow(clippy::disallowed_methods, reason = "a program that measures")]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod report;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod trace;
mod work;

/// The allocator of the program that serves mounts.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |n: usize, default: &str| args.get(n).map_or_else(|| default.to_owned(), Clone::clone);
    let plan =
        work::Plan { engine: arg(0, "scalable"), work: arg(1, "create").parse()?, threads: arg(2, "4").parse()? };
    if args.get(3).is_some_and(|a| a == work::TRACED) {
        return work::run(&plan);
    }
    let met = match measure(&plan) {
        Err(e)
            if e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied) =>
        {
            println!("skipped: {e}");
            return Ok(());
        }
        met => met?,
    };
    match args.get(3).map(|most| most.parse::<f64>()).transpose()? {
        Some(most) if met > most => Err(format!("{met:.2} an operation: more than {most}").into()),
        _ => Ok(()),
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn measure(plan: &work::Plan) -> Result<f64, Box<dyn std::error::Error>> {
    Ok(report::print(plan, &trace::run(plan)?))
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn measure(_: &work::Plan) -> Result<f64, Box<dyn std::error::Error>> {
    Err("counting instructions is possible on x86_64 Linux alone".into())
}
