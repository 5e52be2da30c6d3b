//go:build linux && amd64

package bpf

import "github.com/cilium/ebpf/asm"

// maxVectors bounds the pieces of an environment.
const maxVectors = 16

// enterProgram notes that a call began. With closes it says so: another thread may get
// the descriptor before close returns.
func enterProgram(o offsets, m *memory, closes bool, index int) *program {
	p := &program{offsets: o, memory: m}
	p.add(asm.Mov.Reg(asm.R6, asm.R1))
	p.current()
	p.add(
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R7, stateBegin, asm.R0, asm.DWord),
		asm.StoreImm(asm.R7, stateCall, int64(index+1), asm.Word),
	)
	if closes {
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
	if s.event == "mmap" {
		p.add(
			asm.LoadMem(asm.R1, asm.R10, reg(r10), asm.DWord),
			asm.JSet.Imm(asm.R1, mapAnonymous, "out"),
		)
	}
	p.pieces(s)
	p.send()
	return p
}

// pieces sends what a call that succeeded points to.
func (p *program) pieces(s *syscall) {
	needs := s.opens
	for i := range s.args {
		q := parameter(s.args[i])
		needs = needs || q == pathname || q == requests || q == results || sizes[q] > 0
	}
	if !needs {
		return
	}
	p.add(
		asm.LoadMem(asm.R1, asm.R10, reg(ax), asm.DWord),
		asm.JSLT.Imm(asm.R1, 0, "failed"),
	)
	p.buffer()
	for i := range s.args {
		q := parameter(s.args[i])
		address := reg(arguments[i])
		switch {
		case q == pathname:
			p.add(asm.LoadMem(asm.R3, asm.R10, address, asm.DWord))
			p.text(i, asm.FnProbeReadUserStr)
		case q == request:
			// Only FICLONERANGE points to what is needed, and only there is it read.
			p.add(
				asm.LoadMem(asm.R1, asm.R10, reg(si), asm.Word),
				asm.JNE.Imm32(asm.R1, fileCloneRange, "failed"),
				asm.LoadMem(asm.R3, asm.R10, reg(dx), asm.DWord),
			)
			p.bytes(i+1, sizes[q])
		case q == control:
			// Only calls that wait for a lock point to what is needed.
			waits := p.label()
			p.add(
				asm.LoadMem(asm.R1, asm.R10, reg(si), asm.Word),
				asm.JEq.Imm32(asm.R1, lockWait, waits),
				asm.JNE.Imm32(asm.R1, lockWaitOpen, "failed"),
			)
			p.mark(waits)
			p.add(asm.LoadMem(asm.R3, asm.R10, reg(dx), asm.DWord))
			p.bytes(i+1, sizes[q])
		case sizes[q] > 0:
			p.add(asm.LoadMem(asm.R3, asm.R10, address, asm.DWord))
			p.bytes(i, sizes[q])
		case q == requests:
			p.list(address, slotRequest, 64, true)
		case q == results:
			p.list(address, slotResult, 32, false)
		}
	}
	if s.opens {
		p.path()
	}
	p.mark("failed")
}

// list sends as many elements of a list as the call returned.
func (p *program) list(address int16, slot int, size int32, indirect bool) {
	loop, more, done := p.label(), p.label(), p.label()
	p.add(asm.Mov.Imm(asm.R8, 0))
	p.mark(loop)
	p.add(
		asm.LoadMem(asm.R1, asm.R10, reg(ax), asm.DWord),
		asm.JGE.Reg(asm.R8, asm.R1, done),
		asm.JGE.Imm(asm.R8, maxListed, more),
		asm.LoadMem(asm.R3, asm.R10, address, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R8),
	)
	if indirect {
		p.add(
			asm.Mul.Imm(asm.R1, 8),
			asm.Add.Reg(asm.R3, asm.R1),
		)
		p.zero(saved)
		p.add(
			asm.Mov.Reg(asm.R1, asm.R10),
			asm.Add.Imm(asm.R1, saved),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadUser.Call(),
			asm.LoadMem(asm.R3, asm.R10, saved, asm.DWord),
		)
	} else {
		p.add(asm.Mul.Imm(asm.R1, size), asm.Add.Reg(asm.R3, asm.R1))
	}
	p.bytes(slot, size)
	p.add(asm.Add.Imm(asm.R8, 1), asm.Ja.Label(loop))
	p.mark(more)
	p.add(asm.Mov.Imm(asm.R0, 0))
	p.sendPiece(slotMore)
	p.mark(done)
}

// path sends the path of the descriptor that the call returned, from its end to the root.
func (p *program) path() {
	loop, below, done, unknown := p.label(), p.label(), p.label(), p.label()
	// file = files->fdt->fd[n]
	p.kernel(asm.R8, asm.R8, p.offsets["task_struct.files"], asm.DWord)
	p.kernel(asm.R8, asm.R8, p.offsets["files_struct.fdt"], asm.DWord)
	p.kernel(asm.R1, asm.R8, p.offsets["fdtable.max_fds"], asm.Word)
	p.add(
		asm.LoadMem(asm.R2, asm.R10, reg(ax), asm.DWord),
		asm.JGE.Reg(asm.R2, asm.R1, unknown),
	)
	p.kernel(asm.R8, asm.R8, p.offsets["fdtable.fd"], asm.DWord)
	p.add(
		asm.LoadMem(asm.R2, asm.R10, reg(ax), asm.DWord),
		asm.Mul.Imm(asm.R2, 8),
		asm.Add.Reg(asm.R8, asm.R2),
	)
	p.kernel(asm.R8, asm.R8, 0, asm.DWord)
	p.add(asm.JEq.Imm(asm.R8, 0, unknown))
	f := p.offsets["file.f_path"]
	p.kernel(asm.R1, asm.R8, f+p.offsets["path.dentry"], asm.DWord)
	p.add(asm.StoreMem(asm.R10, dentry, asm.R1, asm.DWord))
	p.kernel(asm.R1, asm.R8, f+p.offsets["path.mnt"], asm.DWord)
	p.add(asm.StoreMem(asm.R10, mount, asm.R1, asm.DWord))

	p.add(asm.Mov.Imm(asm.R8, 0))
	p.mark(loop)
	p.add(
		asm.JGE.Imm(asm.R8, maxDepth, unknown),
		asm.Add.Imm(asm.R8, 1),
		asm.LoadMem(asm.R1, asm.R10, mount, asm.DWord),
	)
	p.kernel(asm.R1, asm.R1, p.offsets["vfsmount.mnt_root"], asm.DWord)
	p.add(
		asm.LoadMem(asm.R2, asm.R10, dentry, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, below),
		// At the root of a file system: continue where it is mounted.
		asm.LoadMem(asm.R1, asm.R10, mount, asm.DWord),
		asm.Sub.Imm(asm.R1, int32(p.offsets["mount.mnt"])),
		asm.StoreMem(asm.R10, saved, asm.R1, asm.DWord),
	)
	p.kernel(asm.R2, asm.R1, p.offsets["mount.mnt_parent"], asm.DWord)
	p.add(
		asm.LoadMem(asm.R1, asm.R10, saved, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, done),
		asm.JEq.Imm(asm.R2, 0, unknown),
		asm.Add.Imm(asm.R2, int32(p.offsets["mount.mnt"])),
		asm.StoreMem(asm.R10, mount, asm.R2, asm.DWord),
	)
	p.kernel(asm.R1, asm.R1, p.offsets["mount.mnt_mountpoint"], asm.DWord)
	p.add(asm.StoreMem(asm.R10, dentry, asm.R1, asm.DWord), asm.Ja.Label(loop))
	p.mark(below)
	p.add(asm.LoadMem(asm.R1, asm.R10, dentry, asm.DWord))
	p.kernel(asm.R1, asm.R1, p.offsets["dentry.d_parent"], asm.DWord)
	p.add(
		asm.LoadMem(asm.R2, asm.R10, dentry, asm.DWord),
		asm.JEq.Reg(asm.R1, asm.R2, done),
		asm.JEq.Imm(asm.R1, 0, unknown),
		asm.StoreMem(asm.R10, dentry, asm.R1, asm.DWord),
	)
	p.kernel(asm.R3, asm.R2, p.offsets["dentry.d_name"]+p.offsets["qstr.name"], asm.DWord)
	p.text(slotPath, asm.FnProbeReadKernelStr)
	p.add(asm.Ja.Label(loop))
	p.mark(done)
	p.add(asm.Mov.Imm(asm.R0, 0))
	p.sendPiece(slotRoot)
	p.mark(unknown)
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

// area sends at most so many pieces of the memory between two addresses.
func (p *program) area(slot, pieces int, from, to int16) {
	loop, short, read, done := p.label(), p.label(), p.label(), p.label()
	p.add(asm.LoadMem(asm.R1, asm.R10, root, asm.DWord))
	p.kernel(asm.R2, asm.R1, from, asm.DWord)
	p.add(asm.StoreMem(asm.R10, dentry, asm.R2, asm.DWord))
	p.add(asm.LoadMem(asm.R1, asm.R10, root, asm.DWord))
	p.kernel(asm.R2, asm.R1, to, asm.DWord)
	p.add(asm.StoreMem(asm.R10, mount, asm.R2, asm.DWord))
	p.add(asm.Mov.Imm(asm.R8, 0))
	p.mark(loop)
	p.add(
		asm.JGE.Imm(asm.R8, int32(pieces), done),
		asm.Add.Imm(asm.R8, 1),
		asm.LoadMem(asm.R3, asm.R10, dentry, asm.DWord),
		asm.LoadMem(asm.R2, asm.R10, mount, asm.DWord),
		asm.JGE.Reg(asm.R3, asm.R2, done),
		asm.Sub.Reg(asm.R2, asm.R3),
		asm.JLT.Imm(asm.R2, maxText, short),
		asm.Mov.Imm(asm.R2, maxText),
		asm.Ja.Label(read),
	)
	p.mark(short)
	p.add(asm.And.Imm(asm.R2, maxText-1), asm.JEq.Imm(asm.R2, 0, done))
	p.mark(read)
	p.add(
		asm.StoreMem(asm.R10, saved, asm.R2, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Add.Imm(asm.R1, headSize),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, done),
		asm.LoadMem(asm.R0, asm.R10, dentry, asm.DWord),
		asm.LoadMem(asm.R1, asm.R10, saved, asm.DWord),
		asm.Add.Reg(asm.R0, asm.R1),
		asm.StoreMem(asm.R10, dentry, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R0, asm.R1),
		asm.JGT.Imm(asm.R0, maxText, done),
	)
	p.sendPiece(slot)
	p.add(asm.Ja.Label(loop))
	p.mark(done)
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
		// In the place of the result: there is none.
		asm.LoadMem(asm.R1, asm.R7, stateCall, asm.Word),
		asm.StoreMem(asm.R10, reg(ax), asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, stateBegin, asm.DWord),
		asm.StoreMem(asm.R10, onRecord+16, asm.R1, asm.DWord),
	)
	p.now(onRecord + 24)
	p.send()
	return p
}
