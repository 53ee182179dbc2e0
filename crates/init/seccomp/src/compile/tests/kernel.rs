//! What the kernel says to a program, without letting it decide about anything.

use seccompiler::sock_filter;

use crate::program::Program;

/// Installs a program on a thread of its own, behind an instruction that allows everything: the kernel checks the whole of
/// it and runs none.
pub(super) fn takes(program: &Program) -> Result<(), seccompiler::Error> {
    let allow = sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: 0x7fff_0000,
    };
    let instructions = program
        .instructions()
        .iter()
        .map(|instruction| sock_filter {
            code: instruction.code,
            jt: instruction.jump_true,
            jf: instruction.jump_false,
            k: instruction.operand,
        });
    let all: Vec<sock_filter> = [allow].into_iter().chain(instructions).collect();
    let installed = std::thread::spawn(move || seccompiler::apply_filter(&all));
    installed.join().expect("the thread only installs")
}
