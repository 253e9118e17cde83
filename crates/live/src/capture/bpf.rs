//! An assembler for classic BPF (Documentation/networking/filter.rst): instructions with labels in
//! place of jump offsets.

/// One instruction in the kernel's format.
pub type Instruction = libc::sock_filter;

/// Loads relative to this address read the kernel's metadata of the packet.
const ANCILLARY: u32 = (-0x1000_i32) as u32;
/// The EtherType, in host byte order.
pub const PROTOCOL: u32 = ANCILLARY;
/// `PACKET_HOST`, `PACKET_OUTGOING`, ….
pub const PACKET_TYPE: u32 = ANCILLARY.wrapping_add(4);
/// The interface's kind of hardware (`ARPHRD_…`).
pub const HARDWARE_TYPE: u32 = ANCILLARY.wrapping_add(28);

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// Added to the code of a load whose offset is relative to X.
const BEHIND_X: u16 = 0x20;
const LOAD_MEMORY: u16 = 0x60;
const STORE: u16 = 0x02;
const TO_X: u16 = 0x07;
const IP_HEADER_TO_X: u16 = 0xb1;
const XOR_X: u16 = 0xac;
const RETURN: u16 = 0x06;
const GOTO: u16 = 0x05;
/// Arithmetic with a constant.
const MULTIPLY: u16 = 0x24;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const XOR: u16 = 0xa4;
/// Jumps that compare with a constant.
const EQUAL: u16 = 0x15;
const GREATER_OR_EQUAL: u16 = 0x35;
const ANY_BIT: u16 = 0x45;

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

#[derive(Clone, Copy)]
enum Statement {
    Plain(u16, u32),
    Jump(u16, u32, Label, Label),
    Goto(Label),
    Here(Label),
}

/// Width of a load.
#[derive(Clone, Copy)]
pub enum Width {
    /// One byte.
    Byte,
    /// Two, big-endian.
    Half,
    /// Four, big-endian.
    Word,
}

/// A program that is being written. A conditional jump whose target is the next instruction falls
/// through.
#[derive(Default)]
pub struct Assembler {
    steps: Vec<Statement>,
    labels: usize,
}

impl Assembler {
    /// Returns a new label, which has no position yet.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Sets the position of the label to the next instruction.
    pub fn here(&mut self, label: Label) {
        self.steps.push(Statement::Here(label));
    }

    /// Loads the value at `offset` from the packet's start.
    pub fn load(&mut self, width: Width, offset: u32) {
        self.steps.push(Statement::Plain(load_code(width), offset));
    }

    /// Loads the value at X + `offset`.
    pub fn load_behind_x(&mut self, width: Width, offset: u32) {
        self.steps.push(Statement::Plain(load_code(width) + BEHIND_X, offset));
    }

    /// X becomes the length of the IPv4 header at `offset`.
    pub fn ip_header_to_x(&mut self, offset: u32) {
        self.steps.push(Statement::Plain(IP_HEADER_TO_X, offset));
    }

    /// Stores A in word `cell` of the scratch memory.
    pub fn store(&mut self, cell: u32) {
        self.steps.push(Statement::Plain(STORE, cell));
    }

    /// A becomes word `cell` of the scratch memory.
    pub fn recall(&mut self, cell: u32) {
        self.steps.push(Statement::Plain(LOAD_MEMORY, cell));
    }

    /// X becomes A.
    pub fn copy_to_x(&mut self) {
        self.steps.push(Statement::Plain(TO_X, 0));
    }

    /// A becomes A XOR X.
    pub fn xor_x(&mut self) {
        self.steps.push(Statement::Plain(XOR_X, 0));
    }

    /// A becomes A XOR `value`.
    pub fn xor(&mut self, value: u32) {
        self.steps.push(Statement::Plain(XOR, value));
    }

    /// A becomes A AND `mask`.
    pub fn and(&mut self, mask: u32) {
        self.steps.push(Statement::Plain(AND, mask));
    }

    /// A is shifted right.
    pub fn shift_right(&mut self, bits: u32) {
        self.steps.push(Statement::Plain(SHIFT_RIGHT, bits));
    }

    /// A is multiplied, modulo 2³².
    pub fn multiply(&mut self, by: u32) {
        self.steps.push(Statement::Plain(MULTIPLY, by));
    }

    /// Keeps up to `bytes` of the packet; 0 drops it.
    pub fn keep(&mut self, bytes: u32) {
        self.steps.push(Statement::Plain(RETURN, bytes));
    }

    /// Continues at `label`.
    pub fn goto(&mut self, label: Label) {
        self.steps.push(Statement::Goto(label));
    }

    /// Jumps to `yes` if A equals `value`.
    pub fn if_equal(&mut self, value: u32, yes: Label) {
        self.jump(EQUAL, value, Some(yes), None);
    }

    /// Jumps to `no` unless A equals `value`.
    pub fn unless_equal(&mut self, value: u32, no: Label) {
        self.jump(EQUAL, value, None, Some(no));
    }

    /// Jumps to `yes` if A is at least `value`.
    pub fn if_at_least(&mut self, value: u32, yes: Label) {
        self.jump(GREATER_OR_EQUAL, value, Some(yes), None);
    }

    /// Jumps to `no` unless A is at least `value`.
    pub fn unless_at_least(&mut self, value: u32, no: Label) {
        self.jump(GREATER_OR_EQUAL, value, None, Some(no));
    }

    /// Jumps to `yes` if A has one of the bits of `mask`.
    pub fn if_any_bit(&mut self, mask: u32, yes: Label) {
        self.jump(ANY_BIT, mask, Some(yes), None);
    }

    fn jump(&mut self, code: u16, value: u32, yes: Option<Label>, no: Option<Label>) {
        let next = self.label();
        let step = Statement::Jump(code, value, yes.unwrap_or(next), no.unwrap_or(next));
        self.steps.push(step);
        self.here(next);
    }

    /// Returns the program. Conditional jumps reach at most 255 instructions; if one would have to
    /// reach further, all are written with unconditional jumps, which have no such limit.
    pub fn finish(&self) -> Vec<Instruction> {
        self.assemble(false).or_else(|| self.assemble(true)).unwrap_or_default()
    }

    fn assemble(&self, far: bool) -> Option<Vec<Instruction>> {
        let mut places = vec![0; self.labels];
        let mut at = 0;
        for step in &self.steps {
            match step {
                Statement::Here(label) => places[label.0] = at,
                Statement::Jump(..) if far => at += 3,
                _ => at += 1,
            }
        }
        let mut program: Vec<Instruction> = Vec::with_capacity(at);
        for step in &self.steps {
            let next = program.len() + 1;
            let to = |label: &Label, from: usize| places[label.0].checked_sub(from);
            match step {
                Statement::Here(_) => {}
                Statement::Plain(code, k) => program.push(plain(*code, *k)),
                Statement::Goto(label) => program.push(plain(GOTO, to(label, next)? as u32)),
                Statement::Jump(code, k, yes, no) if far => {
                    program.push(Instruction { code: *code, jt: 0, jf: 1, k: *k });
                    program.push(plain(GOTO, to(yes, next + 1)? as u32));
                    program.push(plain(GOTO, to(no, next + 2)? as u32));
                }
                Statement::Jump(code, k, yes, no) => {
                    let (jt, jf) = (to(yes, next)?, to(no, next)?);
                    let (jt, jf) = (u8::try_from(jt).ok()?, u8::try_from(jf).ok()?);
                    program.push(Instruction { code: *code, jt, jf, k: *k });
                }
            }
        }
        Some(program)
    }
}

fn load_code(width: Width) -> u16 {
    match width {
        Width::Byte => LOAD_BYTE,
        Width::Half => LOAD_HALF,
        Width::Word => LOAD_WORD,
    }
}

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

/// Runs a program as the kernel does, for tests.
#[cfg(test)]
pub mod machine {
    use super::*;

    /// A packet with the kernel's metadata.
    pub struct Packet<'a> {
        pub bytes: &'a [u8],
        pub protocol: u32,
        pub packet_type: u32,
        pub hardware_type: u32,
    }

    impl Packet<'_> {
        fn load(&self, code: u16, at: u32) -> Option<u32> {
            match at {
                PROTOCOL => return Some(self.protocol),
                PACKET_TYPE => return Some(self.packet_type),
                HARDWARE_TYPE => return Some(self.hardware_type),
                _ => {}
            }
            let length = match code & 0x18 {
                0x10 => 1,
                0x08 => 2,
                _ => 4,
            };
            let bytes = self.bytes.get(at as usize..at as usize + length)?;
            Some(bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)))
        }
    }

    /// Bytes kept of the packet; a load beyond its end drops it.
    pub fn run(program: &[Instruction], packet: &Packet<'_>) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; 16], 0);
        loop {
            let Instruction { code, jt, jf, k } = program[at];
            at += 1;
            let mut jump = |condition: bool| at += usize::from(if condition { jt } else { jf });
            match code {
                RETURN => return k,
                GOTO => at += k as usize,
                EQUAL => jump(a == k),
                GREATER_OR_EQUAL => jump(a >= k),
                ANY_BIT => jump(a & k != 0),
                LOAD_MEMORY => a = memory[k as usize],
                STORE => memory[k as usize] = a,
                TO_X => x = a,
                XOR_X => a ^= x,
                XOR => a ^= k,
                AND => a &= k,
                SHIFT_RIGHT => a >>= k,
                MULTIPLY => a = a.wrapping_mul(k),
                IP_HEADER_TO_X => match packet.load(LOAD_BYTE, k) {
                    Some(byte) => x = (byte & 15) * 4,
                    None => return 0,
                },
                _ => {
                    let behind = if code & 0xe0 == 0x40 { x } else { 0 };
                    match packet.load(code, k.wrapping_add(behind)) {
                        Some(value) => a = value,
                        None => return 0,
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::machine::{Packet, run};
    use super::*;

    #[test]
    fn jumps_that_are_too_far_are_written_in_full() {
        let packet = |bytes| Packet { bytes, protocol: 0, packet_type: 0, hardware_type: 0 };
        for fillers in [0, 100, 255, 256, 1_000] {
            let mut program = Assembler::default();
            let far = program.label();
            program.load(Width::Byte, 0);
            program.if_equal(7, far);
            (0..fillers).for_each(|_| program.xor(0));
            program.keep(1);
            program.here(far);
            program.keep(2);
            let program = program.finish();
            assert_eq!(run(&program, &packet(&[7])), 2, "{fillers}");
            assert_eq!(run(&program, &packet(&[8])), 1, "{fillers}");
        }
    }
}
