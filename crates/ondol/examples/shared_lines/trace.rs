//! Executes the threads of a process instruction by instruction, and notes what modifies memory atomically.

use crate::work::{Plan, TRACED};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use nix::libc::{SYS_getppid, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

/// One atomic modification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// Address of what was modified.
    pub(crate) at: u64,
    /// The instruction, as an address in this program's own memory.
    pub(crate) by: u64,
}

/// Of each thread, what it modified.
pub(crate) fn run(plan: &Plan) -> Result<Vec<Vec<Change>>, Box<dyn Error>> {
    // Tracer and traced process take turns: on one processor, neither waits until another one wakes up.
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here)?;
    let mut child = Command::new("/proc/self/exe")
        .args([&plan.engine, plan.work.name(), &plan.threads.to_string(), TRACED])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut told), Some(tells)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes".into());
    };
    let mut lines = BufReader::new(tells).lines();
    let mut number = || -> Result<Pid, Box<dyn Error>> {
        let line = lines.next().ok_or("the traced process has ended")??;
        Ok(Pid::from_raw(line.parse()?))
    };
    // `spawn` returns before the new program is in memory: only what the process says itself shows that it is there.
    let mut next = Some(number()?);
    let mut code = Code { memory: File::open(format!("/proc/{}/mem", child.id()))?, seen: HashMap::new() };
    let moved = base(std::process::id())?.wrapping_sub(base(child.id())?);
    let mut all = Vec::new();
    for _ in 0..plan.threads {
        let thread = next.take().map_or_else(&mut number, Ok)?;
        if let Err(e) = ptrace::seize(thread, ptrace::Options::empty()) {
            // It goes on untraced, and cleans up.
            drop(told);
            child.wait()?;
            let what = format!("this process may not trace another one: {e}");
            return Err(std::io::Error::new(std::io::Error::from(e).kind(), what).into());
        }
        ptrace::interrupt(thread)?;
        wait(thread)?;
        writeln!(told)?;
        all.push(counted(thread, &mut code, moved)?);
        ptrace::detach(thread, None::<Signal>)?;
    }
    if !child.wait()?.success() {
        return Err("the traced process has failed".into());
    }
    Ok(all)
}

/// What `thread` modifies between its two questions for its parent.
fn counted(thread: Pid, code: &mut Code, moved: u64) -> Result<Vec<Change>, Box<dyn Error>> {
    let (mut changes, mut asked) = (Vec::new(), 0);
    while asked < 2 {
        let registers = ptrace::getregs(thread)?;
        let instruction = code.at(registers.rip)?;
        if instruction.mnemonic() == Mnemonic::Syscall && registers.rax as i64 == SYS_getppid {
            asked += 1;
        }
        if asked == 1
            && let Some(at) = modified(&instruction, &registers)
        {
            changes.push(Change { at, by: registers.rip.wrapping_add(moved) });
        }
        ptrace::step(thread, None::<Signal>)?;
        wait(thread)?;
    }
    Ok(changes)
}

fn wait(thread: Pid) -> Result<(), Box<dyn Error>> {
    match waitpid(thread, Some(WaitPidFlag::__WALL))? {
        WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => Ok(()),
        other => Err(format!("a traced thread: {other:?}").into()),
    }
}

/// The code of the traced process.
struct Code {
    memory: File,
    seen: HashMap<u64, Instruction>,
}

impl Code {
    fn at(&mut self, address: u64) -> Result<Instruction, Box<dyn Error>> {
        if let Some(known) = self.seen.get(&address) {
            return Ok(*known);
        }
        let mut bytes = [0; 15];
        // The last instruction of a mapping may be shorter.
        let found = self.memory.read_at(&mut bytes, address)?;
        let instruction = Decoder::with_ip(64, &bytes[..found], address, DecoderOptions::NONE).decode();
        self.seen.insert(address, instruction);
        Ok(instruction)
    }
}

/// Address of the memory that an instruction modifies atomically, if it does.
fn modified(instruction: &Instruction, registers: &user_regs_struct) -> Option<u64> {
    let memory = (0..instruction.op_count()).find(|n| instruction.op_kind(*n) == OpKind::Memory)?;
    // An exchange with memory is atomic without saying so.
    if !instruction.has_lock_prefix() && instruction.mnemonic() != Mnemonic::Xchg {
        return None;
    }
    instruction.virtual_address(memory, 0, |register, _, _| value(register, registers))
}

fn value(register: Register, r: &user_regs_struct) -> Option<u64> {
    let full = match register.full_register() {
        Register::RAX => r.rax,
        Register::RBX => r.rbx,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::RBP => r.rbp,
        Register::RSP => r.rsp,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        Register::FS => r.fs_base,
        Register::GS => r.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(full)
}

/// Where a process has this program.
fn base(process: u32) -> Result<u64, Box<dyn Error>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let program = std::env::current_exe()?;
    let line = maps.lines().find(|line| line.ends_with(&*program.to_string_lossy()));
    let start = line.and_then(|line| line.split('-').next()).ok_or("a process without its program")?;
    Ok(u64::from_str_radix(start, 16)?)
}
