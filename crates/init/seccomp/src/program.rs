//! What the kernel takes: a program of its classic packet filter language.

/// The most instructions that the kernel takes in one program.
pub const MAX_INSTRUCTIONS: usize = 4096;

/// One instruction, field by field as the kernel's `struct sock_filter` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip if a comparison holds.
    pub jump_true: u8,
    /// How many instructions to skip if it does not.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

/// A filter that `seccomp(SECCOMP_SET_MODE_FILTER)` takes: between one and [`MAX_INSTRUCTIONS`] instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(pub(crate) Vec<Instruction>);

impl Program {
    /// The instructions in the order in which the kernel takes them. [`Instruction`] has the layout of
    /// `struct sock_filter`.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }

    /// How many instructions there are, as `struct sock_fprog` counts them.
    #[must_use]
    pub fn length(&self) -> u16 {
        u16::try_from(self.0.len()).expect("a program is never longer than the kernel takes")
    }

    /// The instructions as bytes, eight of them each, in the byte order of the machine.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 8);
        for instruction in &self.0 {
            bytes.extend(instruction.code.to_ne_bytes());
            bytes.extend([instruction.jump_true, instruction.jump_false]);
            bytes.extend(instruction.operand.to_ne_bytes());
        }
        bytes
    }
}
