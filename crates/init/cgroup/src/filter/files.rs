//! On which kinds of file systems files may be opened.

use super::assembly::{Assembly, If, Label, RESULT};
use super::btf::FileLayout;
use super::file_systems::FileSystems;
use super::{Hook, Program};

/// The kernel's functions that the program calls (`enum bpf_func_id`).
const TASK_STORAGE_GET: i32 = 156;
const GET_CURRENT_TASK: i32 = 158;

/// Only files on these kinds of file systems may be opened, or all but those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFilter {
    /// Whether the list is of what is allowed, rather than of what is not.
    pub is_allow_list: bool,
    /// The list.
    pub listed: FileSystems,
    /// Of the kernel that the filter is for.
    pub layout: FileLayout,
}

impl FileFilter {
    /// Whether a file may be opened that lies on a file system with this number.
    #[must_use]
    pub fn allows(&self, number: u32) -> bool {
        self.listed.numbers().contains(&number) == self.is_allow_list
    }

    /// The same for the kernel. Processes that are exempt, which a map says, may open everything.
    pub(crate) fn program(&self) -> Program {
        const ARGUMENTS: u8 = 1;
        const FILE: u8 = 6;
        let layout = self.layout;
        let mut code = Assembly::default();
        let (mut allowed, mut listed) = (Label::default(), Label::default());
        code.load_wide(FILE, ARGUMENTS, 0);
        code.call(GET_CURRENT_TASK);
        // Map, task, no value for one that has none, and so none is made.
        code.load_map(1);
        code.copy(2, RESULT);
        code.set(3, 0);
        code.set(4, 0);
        code.call(TASK_STORAGE_GET);
        code.jump_unless_null(RESULT, &mut allowed);
        for offset in [layout.inode, layout.super_block, layout.magic] {
            code.load_wide(FILE, FILE, offset);
        }
        for number in self.listed.numbers() {
            code.jump_if(FILE, If::Equal, number, &mut listed);
        }
        // The kernel takes no program with a part that is never reached.
        if self.is_allow_list {
            code.end(false);
            code.place(listed);
            code.place(allowed);
            code.end(true);
        } else {
            code.place(allowed);
            code.end(true);
            if listed.is_used() {
                code.place(listed);
                code.end(false);
            }
        }
        Program {
            settings: vec!["RestrictFileSystems"],
            hook: Hook::FileOpen,
            counts: false,
            function: Some(layout.function),
            instructions: code.finish(),
        }
    }
}
