//go:build linux && amd64

package bpf

import "github.com/cilium/ebpf/asm"

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
