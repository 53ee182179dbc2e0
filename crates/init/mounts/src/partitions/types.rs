//! What partitions are marked with, by what they are for.

use crate::image::Part;

/// Any file system of Linux.
pub(super) const LINUX: [u8; 16] = guid(0x0FC6_3DAF_8483_4772_8E79_3D69_D847_7DE4);
const PARTS: [([u8; 16], Part); 4] = [
    (guid(0x933A_C7E1_2EB4_4F13_B844_0E14_E2AE_F915), Part::Home),
    (guid(0x3B8F_8425_20E0_4F3B_907F_1A25_A76F_98E8), Part::Srv),
    (guid(0x4D21_B016_B534_45C2_A9FB_5C16_E091_FD2D), Part::Var),
    (guid(0x7EC6_F557_3BC5_4ACA_B293_16EF_5DF6_39D1), Part::Tmp),
];

/// What the root and `/usr` of one kind of machine are marked with.
pub(super) struct Architecture {
    /// The compiler's name, and that of unit files.
    names: (&'static str, &'static str),
    pub(super) root: [u8; 16],
    pub(super) usr: [u8; 16],
}

pub(super) const ARCHITECTURES: [Architecture; 6] = [
    Architecture {
        names: ("x86_64", "x86-64"),
        root: guid(0x4F68_BCE3_E8CD_4DB1_96E7_FBCA_F984_B709),
        usr: guid(0x8484_680C_9521_48C6_9C11_B072_0656_F69E),
    },
    Architecture {
        names: ("x86", "x86"),
        root: guid(0x4447_9540_F297_41B2_9AF7_D131_D5F0_458A),
        usr: guid(0x7525_0D76_8CC6_458E_BD66_BD47_CC81_A812),
    },
    Architecture {
        names: ("aarch64", "arm64"),
        root: guid(0xB921_B045_1DF0_41C3_AF44_4C6F_280D_3FAE),
        usr: guid(0xB0E0_1050_EE5F_4390_949A_9101_B171_04E9),
    },
    Architecture {
        names: ("arm", "arm"),
        root: guid(0x69DA_D710_2CE4_4E3C_B16C_21A1_D49A_BED3),
        usr: guid(0x7D03_59A3_02B3_4F0A_865C_6544_03E7_0625),
    },
    Architecture {
        names: ("riscv64", "riscv64"),
        root: guid(0x72EC_70A6_CF74_40E6_BD49_4BDA_08E8_F224),
        usr: guid(0xBEAE_C34B_8442_439B_A40B_9843_81ED_097D),
    },
    Architecture {
        names: ("s390x", "s390x"),
        root: guid(0x5EEA_D9A9_FE09_4A1E_A1D7_520D_0053_1306),
        usr: guid(0x8A4F_5770_50AA_4ED3_874A_99B7_10DB_6FEA),
    },
];

/// The bytes of a type on disk: its first three fields are little-endian.
pub(super) const fn guid(number: u128) -> [u8; 16] {
    let bytes = number.to_be_bytes();
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut swapped = [0; 16];
    let mut index = 0;
    while index < 16 {
        swapped[index] = bytes[order[index]];
        index += 1;
    }
    swapped
}

pub(super) fn own() -> Option<&'static Architecture> {
    let name = std::env::consts::ARCH;
    ARCHITECTURES.iter().find(|known| known.names.0 == name)
}

/// What unit files call this kind of machine.
pub(crate) fn architecture() -> Option<&'static str> {
    own().map(|known| known.names.1)
}

/// What a partition with this mark is for on this kind of machine, if the mark says so.
pub(super) fn part_of(kind: &[u8]) -> Option<Part> {
    let own = own().and_then(|own| match kind {
        kind if kind == own.root => Some(Part::Root),
        kind if kind == own.usr => Some(Part::Usr),
        _ => None,
    });
    let known = || PARTS.iter().find(|(known, _)| known == kind);
    own.or_else(|| known().map(|(_, part)| *part))
}
