//! Instructions one after the other, with jumps forward only.

/// One instruction of the kernel's machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// What.
    pub code: u8,
    /// Register written to.
    pub to: u8,
    /// Register read from.
    pub from: u8,
    /// Distance in memory, or in instructions.
    pub offset: i16,
    /// A number.
    pub immediate: i32,
}

impl Instruction {
    /// As the kernel takes it.
    #[must_use]
    pub fn bytes(self) -> [u8; 8] {
        let registers = if cfg!(target_endian = "little") {
            self.from << 4 | self.to
        } else {
            self.to << 4 | self.from
        };
        let [o0, o1] = self.offset.to_ne_bytes();
        let [i0, i1, i2, i3] = self.immediate.to_ne_bytes();
        [self.code, registers, o0, o1, i0, i1, i2, i3]
    }

    /// Whether the number stands for the descriptor of a map.
    pub(crate) fn is_map(self) -> bool {
        self.code == LOAD_WIDE && self.from == MAP_DESCRIPTOR
    }
}

const LOAD_WORD: u8 = 0x61;
const LOAD_DOUBLE: u8 = 0x79;
const STORE_WORD: u8 = 0x62;
const LOAD_WIDE: u8 = 0x18;
const MAP_DESCRIPTOR: u8 = 1;
const ADD_IN_MEMORY: u8 = 0xdb;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x54;
const SHIFT_RIGHT: u8 = 0x74;
const TURN_AROUND: u8 = 0xdc;
const JUMP: u8 = 0x05;
const JUMP_IF_NULL: u8 = 0x15;
const JUMP_UNLESS_NULL: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Comparisons of the lower halves of a register with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum If {
    Equal,
    Differs,
    Below,
    Above,
}

impl If {
    fn code(self) -> u8 {
        match self {
            Self::Equal => 0x16,
            Self::Differs => 0x56,
            Self::Below => 0xa6,
            Self::Above => 0x26,
        }
    }
}

/// The register that results are in.
pub(super) const RESULT: u8 = 0;
/// The top of the stack.
pub(super) const STACK: u8 = 10;

/// A place that is jumped to before it is known.
#[derive(Debug, Default)]
pub(super) struct Label(Vec<usize>);

impl Label {
    pub(super) fn is_used(&self) -> bool {
        !self.0.is_empty()
    }
}

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    code: Vec<Instruction>,
}

impl Assembly {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction {
            code,
            to,
            from,
            offset,
            immediate,
        });
    }

    /// Reads 32 bits of memory.
    pub(super) fn load(&mut self, to: u8, from: u8, offset: i16) {
        self.add(LOAD_WORD, to, from, offset, 0);
    }

    /// Reads 64 bits of memory.
    pub(super) fn load_wide(&mut self, to: u8, from: u8, offset: i16) {
        self.add(LOAD_DOUBLE, to, from, offset, 0);
    }

    /// Writes 32 bits of memory.
    pub(super) fn store(&mut self, to: u8, offset: i16, number: i32) {
        self.add(STORE_WORD, to, 0, offset, number);
    }

    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.add(MOVE, to, from, 0, 0);
    }

    pub(super) fn set(&mut self, to: u8, number: i32) {
        self.add(MOVE_NUMBER, to, 0, 0, number);
    }

    pub(super) fn add_number(&mut self, to: u8, number: i32) {
        self.add(ADD_NUMBER, to, 0, 0, number);
    }

    /// Keeps these of the lower 32 bits.
    pub(super) fn mask(&mut self, to: u8, bits: u32) {
        self.add(AND_NUMBER, to, 0, 0, bits.cast_signed());
    }

    pub(super) fn shift_right(&mut self, to: u8, bits: i32) {
        self.add(SHIFT_RIGHT, to, 0, 0, bits);
    }

    /// Turns 16 bits from the order of the network around.
    pub(super) fn turn_around(&mut self, to: u8) {
        self.add(TURN_AROUND, to, 0, 0, 16);
    }

    /// Adds a register to 64 bits of memory, at once for all processors.
    pub(super) fn add_in_memory(&mut self, to: u8, offset: i16, from: u8) {
        self.add(ADD_IN_MEMORY, to, from, offset, 0);
    }

    /// The address of the program's map.
    pub(super) fn load_map(&mut self, to: u8) {
        self.add(LOAD_WIDE, to, MAP_DESCRIPTOR, 0, 0);
        self.add(0, 0, 0, 0, 0);
    }

    pub(super) fn call(&mut self, helper: i32) {
        self.add(CALL, 0, 0, 0, helper);
    }

    pub(super) fn jump_if(&mut self, register: u8, how: If, number: u32, label: &mut Label) {
        label.0.push(self.code.len());
        self.add(how.code(), register, 0, 0, number.cast_signed());
    }

    /// For addresses, which are compared as a whole.
    pub(super) fn jump_if_null(&mut self, register: u8, label: &mut Label) {
        label.0.push(self.code.len());
        self.add(JUMP_IF_NULL, register, 0, 0, 0);
    }

    /// Likewise, for those that are some.
    pub(super) fn jump_unless_null(&mut self, register: u8, label: &mut Label) {
        label.0.push(self.code.len());
        self.add(JUMP_UNLESS_NULL, register, 0, 0, 0);
    }

    pub(super) fn jump(&mut self, label: &mut Label) {
        label.0.push(self.code.len());
        self.add(JUMP, 0, 0, 0, 0);
    }

    /// Jumps to the label come here. No filter is so long that the distance does not fit: their rules are bounded.
    pub(super) fn place(&mut self, label: Label) {
        for at in label.0 {
            let distance = self.code.len() - at - 1;
            if let Some(instruction) = self.code.get_mut(at) {
                instruction.offset = i16::try_from(distance).unwrap_or(i16::MAX);
            }
        }
    }

    /// Ends with a verdict.
    pub(super) fn end(&mut self, allowed: bool) {
        self.set(RESULT, i32::from(allowed));
        self.add(EXIT, 0, 0, 0, 0);
    }

    pub(super) fn finish(self) -> Vec<Instruction> {
        self.code
    }
}
