//! Runs programs as the kernel does.

use crate::program::{Instruction, Program};

/// What the kernel says about a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) mark: u32,
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> u32 {
        let half = |value: u64, upper: bool| {
            let value = if upper {
                value >> 32
            } else {
                value & 0xffff_ffff
            };
            u32::try_from(value).expect("half of it")
        };
        match offset {
            0 => self.number,
            4 => self.mark,
            16..64 if offset.is_multiple_of(4) => {
                let argument = usize::try_from((offset - 16) / 8).expect("a small number");
                half(self.arguments[argument], !offset.is_multiple_of(8))
            }
            _ => panic!("no word at {offset}"),
        }
    }
}

/// What a program answers.
pub(super) fn run(program: &Program, call: &Call) -> u32 {
    walk(program, call).0
}

/// How many instructions it takes.
pub(super) fn steps(program: &Program, call: &Call) -> usize {
    walk(program, call).1
}

fn walk(program: &Program, call: &Call) -> (u32, usize) {
    let (mut loaded, mut at) = (0, 0);
    for step in 1.. {
        let Instruction {
            code,
            jump_true,
            jump_false,
            operand,
        } = program.instructions()[at];
        let skip = |holds: bool| usize::from(if holds { jump_true } else { jump_false });
        at += 1;
        match code {
            0x20 => loaded = call.word(operand),
            0x54 => loaded &= operand,
            0x05 => at += usize::try_from(operand).expect("a short jump"),
            0x15 => at += skip(loaded == operand),
            0x35 => at += skip(loaded >= operand),
            0x06 => return (operand, step),
            _ => panic!("instruction {code:#x}"),
        }
    }
    unreachable!("a program only jumps forward")
}

/// Panics unless every jump ends inside of the program and its last instruction returns.
pub(super) fn check(program: &Program) {
    let all = program.instructions();
    for (at, instruction) in all.iter().enumerate() {
        let furthest = match instruction.code {
            0x05 => usize::try_from(instruction.operand).expect("a short jump"),
            0x15 | 0x35 => usize::from(instruction.jump_true.max(instruction.jump_false)),
            _ => 0,
        };
        assert!(at + 1 + furthest <= all.len() - usize::from(instruction.code != 0x06));
    }
    assert_eq!(all.last().map(|last| last.code), Some(0x06));
}
