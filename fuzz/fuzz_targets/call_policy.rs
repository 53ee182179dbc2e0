//! Any bytes as a policy about system calls: whatever it says, what comes out is a program that the kernel can run.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_seccomp::{Arch, Instruction, MAX_INSTRUCTIONS, Policy, compile};

const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

fuzz_target!(|data: &[u8]| {
    let Ok(policy) = serde_json::from_slice::<Policy>(data) else { return };
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let Ok(compiled) = compile(&policy, arch) else { continue };
        let Some(program) = compiled.program else { continue };
        let all = program.instructions();
        assert!(all.len() <= MAX_INSTRUCTIONS && program.to_bytes().len() == all.len() * 8);
        assert_eq!(all.last().map(|last| last.code), Some(RETURN));
        for (at, instruction) in all.iter().enumerate() {
            assert!(at + furthest(instruction) < all.len(), "{at}: {instruction:?}");
        }
        assert_eq!(compile(&policy, arch).expect("as before").program, Some(program));
    }
});

/// How far the next instruction can be.
fn furthest(instruction: &Instruction) -> usize {
    match instruction.code {
        RETURN => 0,
        JUMP => 1 + instruction.operand as usize,
        JUMP_IF_EQUAL | JUMP_IF_AT_LEAST => 1 + usize::from(instruction.jump_true.max(instruction.jump_false)),
        _ => 1,
    }
}
