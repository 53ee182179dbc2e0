//! Writing programs of the kernel's filter language.
//!
//! Such a program only ever jumps forward, and a conditional jump reaches 255 instructions at most. It is therefore
//! written from its end: everything that an instruction leads to is there already, and what has come to lie too far away
//! is repeated (a return) or reached over a stepping stone (an unconditional jump, which has no such limit).

use std::collections::HashMap;

use super::rules::{Action, Rule, Test, Values};
use crate::program::Instruction;

/// Loads a word of what the kernel says about the call.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Where the number of the call stands.
const NUMBER: u32 = 0;
/// Where the architecture stands.
const MARK: u32 = 4;
/// Where the arguments begin, of eight bytes each, the lower half first.
const ARGUMENTS: u32 = 16;

/// As far as a conditional jump is let go; the few instructions that it could go further are for stepping stones.
const REACH: usize = 250;

/// An instruction that was written: how many were written before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label(usize);

/// A program that is being written, from its end.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// The last instruction first.
    reversed: Vec<Instruction>,
    /// The latest stand-in of what came to lie too far away.
    stand_ins: HashMap<Label, Label>,
    /// Where rules were written: calls that are treated alike share them.
    written: HashMap<Vec<Rule>, Label>,
}

impl Assembler {
    /// The instructions in the kernel's order; the one that was written last is run first.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        self.reversed.reverse();
        self.reversed
    }

    fn write(&mut self, code: u16, jumps: (u8, u8), operand: u32) -> Label {
        self.reversed.push(Instruction {
            code,
            jump_true: jumps.0,
            jump_false: jumps.1,
            operand,
        });
        Label(self.reversed.len() - 1)
    }

    /// How many instructions one that is written next skips to get there.
    fn distance(&self, to: Label) -> usize {
        self.reversed.len() - 1 - to.0
    }

    /// The same as `label`, near enough for a conditional jump that is written next or after the next.
    fn near(&mut self, label: Label) -> Label {
        let latest = self.stand_ins.get(&label).copied().unwrap_or(label);
        if self.distance(latest) <= REACH {
            return latest;
        }
        let there = self.reversed[label.0];
        let stand_in = if there.code == RETURN {
            self.write(RETURN, (0, 0), there.operand)
        } else {
            self.jump(label)
        };
        self.stand_ins.insert(label, stand_in);
        stand_in
    }

    fn jump(&mut self, to: Label) -> Label {
        let distance = u32::try_from(self.distance(to)).expect("programs are short");
        self.write(JUMP, (0, 0), distance)
    }

    fn branch(&mut self, code: u16, operand: u32, yes: Label, no: Label) -> Label {
        let (yes, no) = (self.near(yes), self.near(no));
        let skip = |to: Label| u8::try_from(self.distance(to)).expect("it is near");
        let jumps = (skip(yes), skip(no));
        self.write(code, jumps, operand)
    }

    /// An instruction after which `next` is run.
    fn before(&mut self, code: u16, operand: u32, next: Label) -> Label {
        if self.distance(next) > 0 {
            self.jump(next);
        }
        self.write(code, (0, 0), operand)
    }

    /// Finds the span that the loaded value is in. A span has its first value, the next one begins where it ends, and
    /// the first begins at zero. The costs are the logarithm of how many there are.
    fn search<T>(
        &mut self,
        spans: &[(u32, T)],
        target: &mut impl FnMut(&mut Self, &T) -> Label,
    ) -> Label {
        if let [(_, only)] = spans {
            return target(self, only);
        }
        let (low, high) = spans.split_at(spans.len() / 2);
        let first_of_high = high[0].0;
        let high = self.search(high, target);
        let low = self.search(low, target);
        self.branch(JUMP_IF_AT_LEAST, first_of_high, high, low)
    }

    fn finish_with(&mut self, action: Action) -> Label {
        self.rules(&Rule::always(action))
    }

    /// The first of the rules that holds decides; without one, the call is allowed.
    pub(super) fn rules(&mut self, rules: &[Rule]) -> Label {
        if let Some(label) = self.written.get(rules) {
            return *label;
        }
        let label = match rules {
            [] => self.write(RETURN, (0, 0), Action::Allow.value()),
            [rule, ..] if rule.tests.is_empty() => self.write(RETURN, (0, 0), rule.action.value()),
            [rule, others @ ..] => {
                let otherwise = self.rules(others);
                let holds = self.finish_with(rule.action);
                let tests = rule.tests.iter().rev();
                tests.fold(holds, |holds, test| self.test(test, holds, otherwise))
            }
        };
        self.written.insert(rules.to_vec(), label);
        label
    }

    fn test(&mut self, test: &Test, yes: Label, no: Label) -> Label {
        let mut label = self.is_in(&test.values, yes, no);
        if test.mask != u32::MAX {
            label = self.before(AND, test.mask, label);
        }
        self.before(LOAD, ARGUMENTS + 8 * u32::from(test.argument), label)
    }

    fn is_in(&mut self, values: &Values, yes: Label, no: Label) -> Label {
        if let [(first, last)] = values.ranges()
            && first == last
        {
            return self.branch(JUMP_IF_EQUAL, *first, yes, no);
        }
        let mut spans = Vec::new();
        let mut next = Some(0);
        for &(first, last) in values.ranges() {
            spans.extend(next.filter(|next| *next < first).map(|next| (next, no)));
            spans.push((first, yes));
            next = last.checked_add(1);
        }
        spans.extend(next.map(|next| (next, no)));
        self.search(&spans, &mut |_, label| *label)
    }

    /// Decides by the number of the call. The first span begins at zero.
    pub(super) fn numbers(&mut self, spans: &[(u32, Vec<Rule>)]) -> Label {
        let label = self.search(spans, &mut |assembler, rules| assembler.rules(rules));
        match spans {
            [_] => label,
            _ => self.before(LOAD, NUMBER, label),
        }
    }

    /// Decides by the architecture; the last of `marks` is looked at first.
    pub(super) fn marks(&mut self, marks: &[(u32, Label)], otherwise: Label) -> Label {
        let label = marks.iter().fold(otherwise, |no, (mark, yes)| {
            self.branch(JUMP_IF_EQUAL, *mark, *yes, no)
        });
        self.before(LOAD, MARK, label)
    }
}
