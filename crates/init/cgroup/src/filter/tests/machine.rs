//! As much of the kernel's machine as the filters use.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the machine's instructions work on parts of its registers"
)]

use std::net::IpAddr;

use super::super::Instruction;

const CONTEXT: u64 = 1 << 32;
const STACK_TOP: u64 = 2 << 32;
const COUNTERS: u64 = 3 << 32;
const FILE: u64 = 4 << 32;
const INODE: u64 = 5 << 32;
const SUPER_BLOCK: u64 = 6 << 32;
const TASK: u64 = 7 << 32;
const STACK_SIZE: u64 = 512;
/// More than any filter takes: a program that runs longer goes in circles.
const MOST_STEPS: usize = 100_000;

/// A packet as the filters see it, from its network header on.
pub(super) struct Packet {
    protocol: u16,
    bytes: Vec<u8>,
}

impl Packet {
    pub(super) fn with_peer(peer: IpAddr, incoming: bool) -> Self {
        let mut bytes = vec![0xee; 60];
        let (protocol, places) = match peer {
            IpAddr::V4(_) => (0x0800u16, [12, 16]),
            IpAddr::V6(_) => (0x86dd, [8, 24]),
        };
        let octets = match peer {
            IpAddr::V4(peer) => peer.octets().to_vec(),
            IpAddr::V6(peer) => peer.octets().to_vec(),
        };
        let at = places[usize::from(!incoming)];
        bytes[at..at + octets.len()].copy_from_slice(&octets);
        Self { protocol, bytes }
    }

    pub(super) fn too_short() -> Self {
        Self {
            protocol: 0x0800,
            bytes: vec![0; 10],
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn context(&self, interface: u32) -> [u32; 11] {
        let mut context = [0xdead_beef; 11];
        context[10] = interface;
        context[0] = u32::try_from(self.bytes.len()).unwrap();
        context[4] = self.protocol.to_be().into();
        context
    }
}

pub(super) struct Ended {
    pub(super) verdict: u64,
    /// Packets and bytes.
    pub(super) counted: [u64; 2],
}

/// Runs a program to its end. Whatever the kernel would not take is a panic.
pub(super) fn run(program: &[Instruction], context: &[u32], packet: Option<&Packet>) -> Ended {
    let mut registers = [0u64; 11];
    registers[1] = CONTEXT;
    registers[10] = STACK_TOP;
    let mut stack = [0u8; STACK_SIZE as usize];
    let mut counted = [0u64; 2];
    let mut at = 0;
    for _ in 0..MOST_STEPS {
        let step = program[at];
        at += 1;
        let (to, from) = (usize::from(step.to), usize::from(step.from));
        let number = i64::from(step.immediate).cast_unsigned();
        let lower = registers[to] as u32;
        let operand = step.immediate.cast_unsigned();
        let address = |base: u64| base.wrapping_add_signed(step.offset.into());
        let place = |address: u64| usize::try_from(address + STACK_SIZE - STACK_TOP).unwrap();
        let jumps = match step.code {
            0x61 if registers[from] == CONTEXT => {
                registers[to] = context[usize::try_from(step.offset).unwrap() / 4].into();
                false
            }
            // A file that is opened: its number, and the places of what leads there.
            0x79 => {
                let at = u32::try_from(step.offset).unwrap();
                registers[to] = match registers[from] {
                    CONTEXT if at == 0 => FILE,
                    FILE if at == context[1] => INODE,
                    INODE if at == context[2] => SUPER_BLOCK,
                    SUPER_BLOCK if at == context[3] => context[0].into(),
                    other => panic!("nothing is at {other:#x} + {at}"),
                };
                false
            }
            0x61 => {
                let start = place(address(registers[from]));
                let bytes = stack[start..start + 4].try_into().unwrap();
                registers[to] = u32::from_ne_bytes(bytes).into();
                false
            }
            0x62 => {
                let start = place(address(registers[to]));
                stack[start..start + 4].copy_from_slice(&step.immediate.to_ne_bytes());
                false
            }
            0x18 => {
                assert_eq!(step.from, 1, "only maps are loaded so");
                registers[to] = COUNTERS;
                at += 1;
                false
            }
            0xdb => {
                assert_eq!(registers[to], COUNTERS);
                counted[usize::try_from(step.offset).unwrap() / 8] += registers[from];
                false
            }
            0xbf => {
                registers[to] = registers[from];
                false
            }
            0xb7 => {
                registers[to] = number;
                false
            }
            0x07 => {
                registers[to] = registers[to].wrapping_add(number);
                false
            }
            0x54 => {
                registers[to] = (lower & operand).into();
                false
            }
            0x74 => {
                registers[to] = (lower >> operand).into();
                false
            }
            0xdc => {
                registers[to] = (lower as u16).to_be().into();
                false
            }
            0x05 => true,
            0x15 => registers[to] == number,
            0x55 => registers[to] != number,
            0x16 => lower == operand,
            0x56 => lower != operand,
            0xa6 => lower < operand,
            0x26 => lower > operand,
            0x85 => {
                registers[0] = match step.immediate {
                    1 => {
                        assert_eq!(registers[1], COUNTERS);
                        let start = place(registers[2]);
                        assert_eq!(stack[start..start + 4], [0; 4]);
                        COUNTERS
                    }
                    26 => {
                        let bytes = &packet.expect("a packet").bytes;
                        let start = usize::try_from(registers[2]).unwrap();
                        let size = usize::try_from(registers[4]).unwrap();
                        match bytes.get(start..start + size) {
                            Some(found) => {
                                let to = place(registers[3]);
                                stack[to..to + size].copy_from_slice(found);
                                0
                            }
                            None => u64::MAX,
                        }
                    }
                    156 => {
                        assert_eq!(registers[1..5], [COUNTERS, TASK, 0, 0]);
                        if context[4] == 1 { COUNTERS } else { 0 }
                    }
                    158 => TASK,
                    other => panic!("no function {other}"),
                };
                // What a function leaves there is nobody's to read.
                registers[1..6].fill(0xdead_dead_dead);
                false
            }
            0x95 => {
                return Ended {
                    verdict: registers[0],
                    counted,
                };
            }
            other => panic!("no instruction {other:#x}"),
        };
        if jumps {
            at += usize::try_from(step.offset).expect("a jump forward");
        }
    }
    panic!("the program does not end");
}
