//go:build linux && amd64

package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A program is a program for the kernel while it is written. It keeps in
//
//	R6  its context
//	R7  the state of the current thread
//	R8  any value that calls must not change
//	R9  a buffer for a piece
type program struct {
	asm.Instructions
	offsets
	memory *memory
	labels int
}

// The state of a recorded thread, which the kernel keeps with it and removes with it.
const (
	stateThread = 0  // uint32, in the namespace of the recorder
	stateTask   = 4  // uint32, its process
	stateRole   = 8  // uint32
	stateCall   = 12 // uint32: number of the call it is in, plus one; else 0
	stateBegin  = 16 // uint64, of the call
	stateLevel  = 24 // uint32: depth of the namespace
	stateSize   = 32
)

// Roles of a thread.
const (
	roleStarted  = 1 // by the recorder; not recorded before its first exec
	roleRecorded = 2
	roleRecorder = 3
)

// Places on the stack, below R10.
const (
	onRecord = -recordSize // the record of the program
	temp     = onRecord - 8
	dentry   = onRecord - 16
	mount    = onRecord - 24
	root     = onRecord - 32
	saved    = onRecord - 40
)

func (p *program) add(list ...asm.Instruction) { p.Instructions = append(p.Instructions, list...) }

func (p *program) label() string {
	p.labels++
	return fmt.Sprint("l", p.labels)
}

// mark puts a label here. It changes R0.
func (p *program) mark(label string) { p.add(asm.Mov.Imm(asm.R0, 0).WithSymbol(label)) }

// end is the last part of all programs.
func (p *program) end() asm.Instructions {
	p.mark("out")
	p.add(asm.Return())
	return p.Instructions
}

// stateOf puts the state of the thread in R8 into R7, or ends. It is made if that is
// wanted.
func (p *program) stateOf(create bool, none string) {
	flags := int32(0)
	if create {
		flags = 1 // BPF_LOCAL_STORAGE_GET_F_CREATE
	}
	p.add(
		asm.LoadMapPtr(asm.R1, p.memory.states.FD()),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, flags),
		asm.FnTaskStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, none),
		asm.Mov.Reg(asm.R7, asm.R0),
	)
}

// current finds the state of the current thread, and leaves the thread in R8. The
// program ends if the thread is not recorded.
func (p *program) current() {
	p.add(asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R8, asm.R0))
	p.stateOf(false, "out")
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateRole, asm.Word),
		asm.JNE.Imm(asm.R1, roleRecorded, "out"),
	)
}

// buffer puts a buffer for a piece into R9, and the thread into its head.
func (p *program) buffer() {
	p.add(
		asm.StoreImm(asm.R10, temp, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, p.memory.buffers.FD()),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, temp),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.R7, stateThread, asm.DWord),
		asm.StoreMem(asm.R9, 8, asm.R1, asm.DWord),
	)
}

// kernel reads 4 or 8 bytes of the kernel at base+offset. A failure gives 0.
func (p *program) kernel(dst, base asm.Register, offset int16, size asm.Size) {
	p.add(asm.Mov.Reg(asm.R3, base), asm.Add.Imm(asm.R3, int32(offset)))
	p.zero(temp)
	p.add(
		asm.Mov.Reg(asm.R1, asm.R10),
		asm.Add.Imm(asm.R1, temp),
		asm.Mov.Imm(asm.R2, int32(size.Sizeof())),
		asm.FnProbeReadKernel.Call(),
		asm.LoadMem(dst, asm.R10, temp, asm.DWord),
	)
}

// now stores the time on the stack.
func (p *program) now(at int16) {
	p.add(asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.R10, at, asm.R0, asm.DWord))
}

// zero clears 8 bytes of the stack. It changes R1.
func (p *program) zero(at int16) {
	p.add(asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R10, at, asm.R1, asm.DWord))
}

// head begins the record on the stack, without times and registers.
func (p *program) head(k kind, index int) {
	p.add(
		asm.LoadImm(asm.R1, int64(k)|int64(index)<<16, asm.DWord),
		asm.StoreMem(asm.R10, onRecord, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, stateThread, asm.DWord),
		asm.StoreMem(asm.R10, onRecord+8, asm.R1, asm.DWord),
	)
}

// reg is the place of a register in the record on the stack.
func reg(i int) int16 { return int16(onRecord + 32 + 8*i) }

// registersOf copies the registers of the thread in R8 to the record on the stack.
func (p *program) registersOf() {
	p.add(asm.Mov.Reg(asm.R1, asm.R8), asm.FnTaskPtRegs.Call())
	for i, name := range []string{"r10", "r9", "r8", "ax", "dx", "si", "di"} {
		p.add(
			asm.LoadMem(asm.R1, asm.R0, p.offsets["pt_regs."+name], asm.DWord),
			asm.StoreMem(asm.R10, reg(i), asm.R1, asm.DWord),
		)
	}
}

// send sends the record on the stack.
func (p *program) send() {
	p.add(
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, onRecord),
		asm.Mov.Imm(asm.R3, recordSize),
	)
	p.output()
}

// sendPiece sends the buffer, with as many bytes of text as R0 says.
func (p *program) sendPiece(slot int) {
	p.add(
		asm.StoreImm(asm.R9, 0, int64(pieceRecord)|int64(slot)<<16, asm.Word),
		asm.StoreMem(asm.R9, 4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R9),
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, headSize),
	)
	p.output()
}

// output sends R3 bytes at R2. The recorder looks from time to time and needs no call.
func (p *program) output() {
	sent := p.label()
	p.add(
		asm.LoadMapPtr(asm.R1, p.memory.ring.FD()),
		asm.Mov.Imm(asm.R4, 1), // BPF_RB_NO_WAKEUP
		asm.FnRingbufOutput.Call(),
		asm.JSGE.Imm(asm.R0, 0, sent),
		asm.LoadMapValue(asm.R1, p.memory.lost.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
	)
	p.mark(sent)
}

// text sends the text with a zero at its end at the address in R3.
func (p *program) text(slot int, read asm.BuiltinFunc) {
	none := p.label()
	p.add(
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, headSize),
		asm.Mov.Imm(asm.R2, maxText),
		read.Call(),
		asm.JSLE.Imm(asm.R0, 0, none),
		asm.JGT.Imm(asm.R0, maxText, none),
	)
	p.sendPiece(slot)
	p.mark(none)
}

// bytes sends size bytes of the program at the address in R3.
func (p *program) bytes(slot int, size int32) {
	none := p.label()
	p.add(
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, headSize),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, none),
		asm.Mov.Imm(asm.R0, size),
	)
	p.sendPiece(slot)
	p.mark(none)
}

// spec is a program that may run at a tracepoint.
func (p *program) spec(at string) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: at, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: at, License: "GPL", Instructions: p.end(),
	}
}
