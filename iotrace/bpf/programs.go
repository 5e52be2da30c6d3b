//go:build linux && amd64

package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// maxVectors bounds the pieces of an environment.
const maxVectors = 16

// The tracepoints of all calls.
const (
	sysEnter = "sys_enter"
	sysExit  = "sys_exit"
)

// compat is TS_COMPAT: the thread is in a call of 32 bits, whose numbers are others.
const compat = 2

// dispatch goes on to the program of the call that a recorded thread makes.
func (o offsets) dispatch(m *memory, table *ebpf.Map, at string) *program {
	p := &program{offsets: o, memory: m}
	p.add(asm.Mov.Reg(asm.R6, asm.R1))
	p.current()
	p.add(
		asm.LoadMem(asm.R1, asm.R8, o["task_struct.thread_info"]+o["thread_info.status"], asm.Word),
		asm.JSet.Imm(asm.R1, compat, "out"),
	)
	if at == sysEnter {
		p.add(asm.LoadMem(asm.R3, asm.R6, 8, asm.DWord)) // after the registers
	} else {
		p.add(
			asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord),
			asm.LoadMem(asm.R3, asm.R1, o["pt_regs.orig_ax"], asm.DWord),
		)
	}
	p.add(
		asm.JGE.Imm(asm.R3, int32(table.MaxEntries()), "out"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, table.FD()),
		asm.FnTailCall.Call(),
	)
	return p
}

// enterProgram notes that a call began. close says so: another thread may get the descriptor
// before it returns.
func enterProgram(o offsets, m *memory, index int) *program {
	p := &program{offsets: o, memory: m}
	p.add(asm.Mov.Reg(asm.R6, asm.R1))
	p.current()
	p.add(
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, stateBegin, asm.R0, asm.DWord),
		asm.StoreImm(asm.R7, stateCall, int64(index+1), asm.Word),
	)
	if syscalls[index].name == "close" {
		p.add(
			asm.StoreMem(asm.R10, onRecord+16, asm.R0, asm.DWord),
			asm.StoreMem(asm.R10, onRecord+24, asm.R0, asm.DWord),
		)
		p.head(closesRecord, index)
		p.registersOf()
		p.send()
	}
	return p
}

// exitProgram sends the record of a call.
func exitProgram(o offsets, m *memory, index int) *program {
	s := &syscalls[index]
	p := &program{offsets: o, memory: m}
	p.add(asm.Mov.Reg(asm.R6, asm.R1))
	p.current()
	p.now(onRecord + 24)
	if s.brief {
		p.add(asm.StoreMem(asm.R10, onRecord+16, asm.R0, asm.DWord))
	} else {
		p.add(
			asm.LoadMem(asm.R1, asm.R7, stateCall, asm.Word),
			asm.JNE.Imm(asm.R1, int32(index+1), "out"),
			asm.StoreImm(asm.R7, stateCall, 0, asm.Word),
			asm.LoadMem(asm.R1, asm.R7, stateBegin, asm.DWord),
			asm.StoreMem(asm.R10, onRecord+16, asm.R1, asm.DWord),
		)
	}
	p.head(callRecord, index)
	p.registersOf()
	if s.name == "mmap" {
		p.add(
			asm.LoadMem(asm.R1, asm.R10, reg(r10), asm.DWord),
			asm.JSet.Imm(asm.R1, mapAnonymous, "out"),
		)
	}
	p.pieces(s)
	p.send()
	return p
}

// forkProgram records the children of recorded threads, and those that the recorder
// starts.
func forkProgram(o offsets, m *memory) *program {
	p := &program{offsets: o, memory: m}
	p.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R8, asm.R6, 0, asm.DWord), // the parent
	)
	p.stateOf(false, "leader")
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateRole, asm.Word),
		asm.JEq.Imm(asm.R1, roleRecorded, "recorded"),
		asm.JEq.Imm(asm.R1, roleRecorder, "recorder"),
		asm.Ja.Label("out"),
	)
	p.mark("leader")
	p.add(asm.LoadMem(asm.R8, asm.R8, o["task_struct.group_leader"], asm.DWord))
	p.stateOf(false, "out")
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateRole, asm.Word),
		asm.JNE.Imm(asm.R1, roleRecorder, "out"),
	)
	p.mark("recorder")
	p.add(
		asm.LoadMapValue(asm.R1, m.armed.FD(), 0),
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, "out"),
		// The recorder starts threads too.
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord),
		asm.LoadMem(asm.R2, asm.R1, o["task_struct.tgid"], asm.Word),
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
		asm.LoadMem(asm.R3, asm.R1, o["task_struct.tgid"], asm.Word),
		asm.JEq.Reg(asm.R2, asm.R3, "out"),
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord),
	)
	p.kernel(asm.R1, asm.R1, o["task_struct.thread_pid"], asm.DWord)
	p.kernel(asm.R1, asm.R1, o["pid.level"], asm.Word)
	p.add(
		asm.StoreMem(asm.R10, saved, asm.R1, asm.DWord),
		asm.LoadMem(asm.R8, asm.R6, 8, asm.DWord),
	)
	p.stateOf(true, "lost")
	p.add(asm.StoreImm(asm.R7, stateRole, roleStarted, asm.Word))
	p.identify()
	p.add(asm.Ja.Label("out"))

	p.mark("recorded")
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateLevel, asm.Word),
		asm.StoreMem(asm.R10, saved, asm.R1, asm.DWord),
	)
	p.head(forkRecord, 0)
	p.add(asm.LoadMem(asm.R8, asm.R6, 8, asm.DWord))
	p.stateOf(true, "lost")
	p.add(asm.StoreImm(asm.R7, stateRole, roleRecorded, asm.Word))
	p.identify()
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateThread, asm.Word),
		asm.StoreMem(asm.R10, reg(0), asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, stateTask, asm.Word),
		asm.StoreMem(asm.R10, reg(1), asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R9, 0),
	)
	for _, s := range []struct {
		member string
		flag   int32
	}{{"mm", cloneVM}, {"files", cloneFiles}, {"fs", cloneFS}, {"group_leader", cloneThread}} {
		differ := p.label()
		p.add(asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord))
		p.kernel(asm.R8, asm.R1, o["task_struct."+s.member], asm.DWord)
		p.add(asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord))
		p.kernel(asm.R1, asm.R1, o["task_struct."+s.member], asm.DWord)
		p.add(asm.JNE.Reg(asm.R1, asm.R8, differ), asm.Or.Imm(asm.R9, s.flag))
		p.mark(differ)
	}
	p.add(asm.StoreMem(asm.R10, reg(2), asm.R9, asm.DWord))
	for i := 3; i < registers; i++ {
		p.zero(reg(i))
	}
	p.now(onRecord + 16)
	p.add(asm.StoreMem(asm.R10, onRecord+24, asm.R0, asm.DWord))
	p.send()
	p.add(asm.Ja.Label("out"))
	p.mark("lost")
	p.add(
		asm.LoadMapValue(asm.R1, m.lost.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
	)
	return p
}

// identify writes the numbers of the thread in R8 to its state in R7. saved has the
// level of the namespace.
func (p *program) identify() {
	o := p.offsets
	p.add(
		asm.LoadMem(asm.R1, asm.R10, saved, asm.DWord),
		asm.StoreMem(asm.R7, stateLevel, asm.R1, asm.Word),
		asm.StoreImm(asm.R7, stateCall, 0, asm.Word),
	)
	for _, at := range []int16{stateThread, stateTask} {
		if at == stateTask {
			p.kernel(asm.R8, asm.R8, o["task_struct.group_leader"], asm.DWord)
		}
		p.kernel(asm.R1, asm.R8, o["task_struct.thread_pid"], asm.DWord)
		p.add(
			asm.LoadMem(asm.R2, asm.R10, saved, asm.DWord),
			asm.Mul.Imm(asm.R2, int32(o["upid"])),
			asm.Add.Reg(asm.R1, asm.R2),
		)
		p.kernel(asm.R1, asm.R1, o["pid.numbers"]+o["upid.nr"], asm.Word)
		p.add(asm.StoreMem(asm.R7, at, asm.R1, asm.Word))
	}
}

// execProgram records the programs that recorded threads execute.
func execProgram(o offsets, m *memory) *program {
	p := &program{offsets: o, memory: m}
	p.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R8, asm.R6, 0, asm.DWord),
	)
	p.stateOf(false, "out")
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateRole, asm.Word),
		asm.JEq.Imm(asm.R1, roleRecorder, "out"),
		asm.StoreImm(asm.R7, stateRole, roleRecorded, asm.Word),
		asm.StoreImm(asm.R7, stateCall, 0, asm.Word),
		// The thread gets the number of the process.
		asm.LoadMem(asm.R1, asm.R7, stateThread, asm.Word),
		asm.StoreMem(asm.R10, reg(0), asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, stateTask, asm.Word),
		asm.StoreMem(asm.R7, stateThread, asm.R1, asm.Word),
	)
	p.buffer()
	p.head(execRecord, 0)
	p.add(asm.LoadMem(asm.R1, asm.R6, 16, asm.DWord))
	p.kernel(asm.R3, asm.R1, o["linux_binprm.filename"], asm.DWord)
	p.text(slotFile, asm.FnProbeReadKernelStr)
	p.add(asm.LoadMem(asm.R1, asm.R6, 16, asm.DWord))
	p.kernel(asm.R1, asm.R1, o["linux_binprm.buf"]+4, asm.Byte) // EI_CLASS
	p.add(asm.StoreMem(asm.R10, reg(1), asm.R1, asm.DWord))
	for i := 2; i < registers; i++ {
		p.zero(reg(i))
	}
	p.add(asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord))
	p.kernel(asm.R8, asm.R1, o["task_struct.mm"], asm.DWord)
	p.add(asm.StoreMem(asm.R10, root, asm.R8, asm.DWord))
	for _, part := range []struct {
		slot, pieces int
		name         string
	}{{slotArguments, 1, "arg"}, {slotEnvironment, maxVectors, "env"}} {
		p.area(part.slot, part.pieces, o["mm_struct."+part.name+"_start"], o["mm_struct."+part.name+"_end"])
	}
	p.now(onRecord + 16)
	p.add(asm.StoreMem(asm.R10, onRecord+24, asm.R0, asm.DWord))
	p.send()
	return p
}

// endProgram records the end of threads, with the call that did not return.
func endProgram(o offsets, m *memory) *program {
	p := &program{offsets: o, memory: m}
	p.add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R8, asm.R6, 0, asm.DWord),
	)
	p.stateOf(false, "out")
	p.add(
		asm.LoadMem(asm.R1, asm.R7, stateRole, asm.Word),
		asm.JNE.Imm(asm.R1, roleRecorded, "out"),
	)
	p.head(exitRecord, 0)
	p.add(asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R8, asm.R0))
	p.registersOf()
	p.add(
		// In the place of the result, which is missing.
		asm.LoadMem(asm.R1, asm.R7, stateCall, asm.Word),
		asm.StoreMem(asm.R10, reg(ax), asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, stateBegin, asm.DWord),
		asm.StoreMem(asm.R10, onRecord+16, asm.R1, asm.DWord),
	)
	p.now(onRecord + 24)
	p.send()
	return p
}
