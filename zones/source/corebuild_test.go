package source

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"

	"ckpt/zones"
)

// A file is a core file that a test builds byte by byte.
type file struct {
	machine elf.Machine
	areas   []area
	notes   []note
	// extended puts the number of program headers into a section header.
	extended bool
}

// An area of file; only the first bytes of its memory may be in the file.
type area struct {
	start, end uint64
	prot       zones.Prot
	contents   []byte
}

type note struct {
	name string
	kind elf.NType
	desc []byte
}

const page = 4096

var le = binary.LittleEndian

// bytes writes the headers, the notes and the contents, in this order.
func (f *file) bytes() []byte {
	headers := 1 + len(f.areas)
	at := uint64(fileHeader + headers*programHeader)
	b := make([]byte, fileHeader)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	le.PutUint16(b[16:], uint16(elf.ET_CORE))
	machine := f.machine
	if machine == 0 {
		machine = elf.EM_X86_64
	}
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], fileHeader)
	le.PutUint16(b[52:], fileHeader)
	le.PutUint16(b[54:], programHeader)
	le.PutUint16(b[56:], uint16(headers))
	if f.extended {
		le.PutUint16(b[56:], 0xffff)
		le.PutUint64(b[40:], at)
		le.PutUint16(b[58:], sectionHeader)
		le.PutUint16(b[60:], 1)
		at += sectionHeader
	}
	var notes []byte
	for _, n := range f.notes {
		name := n.name + "\x00"
		notes = le.AppendUint32(notes, uint32(len(name)))
		notes = le.AppendUint32(notes, uint32(len(n.desc)))
		notes = le.AppendUint32(notes, uint32(n.kind))
		notes = pad(append(notes, name...))
		notes = pad(append(notes, n.desc...))
	}
	b = append(b, headerOf(elf.PT_NOTE, 0, at, 0, uint64(len(notes)), 0)...)
	at += uint64(len(notes))
	for _, a := range f.areas {
		length := uint64(len(a.contents))
		b = append(b, headerOf(elf.PT_LOAD, a.prot, at, a.start, length, a.end-a.start)...)
		at += length
	}
	if f.extended {
		section := make([]byte, sectionHeader)
		le.PutUint32(section[44:], uint32(headers))
		b = append(b, section...)
	}
	b = append(b, notes...)
	for _, a := range f.areas {
		b = append(b, a.contents...)
	}
	return b
}

// filled are bytes that no page of zeros has.
func filled(n int) []byte { return bytes.Repeat([]byte{1}, n) }

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

func headerOf(kind elf.ProgType, prot zones.Prot, offset, addr, length, size uint64) []byte {
	var flags elf.ProgFlag
	for bit, flag := range map[zones.Prot]elf.ProgFlag{zones.Read: elf.PF_R, zones.Write: elf.PF_W, zones.Exec: elf.PF_X} {
		if prot&bit != 0 {
			flags |= flag
		}
	}
	b := le.AppendUint32(nil, uint32(kind))
	b = le.AppendUint32(b, uint32(flags))
	for _, n := range []uint64{offset, addr, 0, length, size, page} {
		b = le.AppendUint64(b, n)
	}
	return b
}

// status is the state of a thread on x86-64.
func status(pid uint32, sp uint64) note {
	b := make([]byte, 336)
	le.PutUint32(b[32:], pid)
	le.PutUint64(b[112+19*8:], sp)
	return note{"CORE", elf.NT_PRSTATUS, b}
}

func info(pid uint32, name string) note {
	b := make([]byte, 136)
	le.PutUint32(b[24:], pid)
	copy(b[40:55], name)
	copy(b[56:], name+" -n 4")
	return note{"CORE", elf.NT_PRPSINFO, b}
}

// auxv takes numbers and values in turn.
func auxv(values ...uint64) note {
	var b []byte
	for _, v := range append(values, 0, 0) {
		b = le.AppendUint64(b, v)
	}
	return note{"CORE", ntAuxv, b}
}

// files lists files with their offsets in pages.
func files(mappings ...mapped) note {
	b := le.AppendUint64(nil, uint64(len(mappings)))
	b = le.AppendUint64(b, page)
	for _, m := range mappings {
		for _, n := range []uint64{m.start, m.end, m.offset} {
			b = le.AppendUint64(b, n)
		}
	}
	for _, m := range mappings {
		b = append(b, m.name+"\x00"...)
	}
	return note{"CORE", ntFile, b}
}

// stackOf is a stack of the given length with the environment at its end.
func stackOf(length int, env ...string) []byte {
	b := bytes.Repeat([]byte{0x5a}, length)
	end := []byte{0}
	for _, e := range env {
		end = append(end, e+"\x00"...)
	}
	end = append(end, "./bt.A.4\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	copy(b[length-len(end):], end)
	return b
}

const (
	r, w, x = zones.Read, zones.Write, zones.Exec
	rw, rx  = r | w, r | x
)

// Addresses of the sample.
const (
	exeAt   = 0x55d6d9924000
	heapAt  = 0x55d6fb552000
	shmAt   = 0x7f0000000000
	libAt   = 0x7f0010000000
	vvarAt  = 0x7f0020000000
	stackAt = 0x7ffee33f0000
	stackTo = stackAt + 0x22000
)

// sample is the core of a rank under MPICH, as Linux writes it: of the texts
// there is the first page or nothing.
func sample(env ...string) *file {
	full := func(start, end uint64, prot zones.Prot) area {
		return area{start, end, prot, filled(int(end - start))}
	}
	return &file{
		areas: []area{
			{exeAt, exeAt + 0x8000, rx, make([]byte, page)},
			full(exeAt+0x9000, exeAt+0xa000, rw),
			full(exeAt+0xa000, exeAt+0xc000, rw), // uninitialized data
			full(heapAt, heapAt+0x3000, rw),
			full(shmAt, shmAt+0x4000, rw),
			{libAt, libAt + 0x10000, rx, nil},
			full(libAt+0x10000, libAt+0x11000, rw),
			full(libAt+0x20000, libAt+0x21000, rw), // anonymous
			{libAt + 0x21000, libAt + 0x31000, 0, nil},
			full(vvarAt, vvarAt+0x4000, r),
			full(vvarAt+0x4000, vvarAt+0x6000, r),
			full(vvarAt+0x6000, vvarAt+0x8000, rx),
			{stackAt, stackTo, rw, stackOf(stackTo-stackAt, env...)},
			full(0xffffffffff600000, 0xffffffffff601000, x),
		},
		notes: []note{
			status(4712, libAt+0x20800), // a thread on a stack of its own
			info(4711, "bt.A.4"),
			{"CORE", 0x53494749, make([]byte, 128)}, // NT_SIGINFO
			auxv(3, exeAt+64, 9, exeAt+0x1040, 25, stackTo-0x700, 31, stackTo-17, 33, vvarAt+0x6000, 6, page),
			files(
				mapped{exeAt, exeAt + 0x8000, 0, "/opt/npb/bt.A.4"},
				mapped{exeAt + 0x9000, exeAt + 0xa000, 8, "/opt/npb/bt.A.4"},
				mapped{shmAt, shmAt + 0x4000, 0, "/dev/shm/mpich_shar_tmpQ (deleted)"},
				mapped{libAt, libAt + 0x10000, 2, "/usr/lib/libmpich.so.12"},
				mapped{libAt + 0x10000, libAt + 0x11000, 0x12, "/usr/lib/libmpich.so.12"},
			),
			{"LINUX", 0x202, make([]byte, 13)}, // NT_X86_XSTATE
			status(4711, stackTo-0x1000),
		},
	}
}

// change returns the bytes of f with some overwritten.
func change(f *file, offset int, b ...byte) []byte {
	return slices.Replace(f.bytes(), offset, offset+len(b), b...)
}
