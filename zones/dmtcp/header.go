package dmtcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const headerSize = 4096 // of the file header, of an area header

// A UPID identifies a process of a cluster for all time, or a computation by its first
// process.
type UPID struct {
	Host       uint64 // gethostid(3)
	Time       uint64 // of its start, seconds since 1970
	PID        int32  // virtual
	Generation uint32 // of the computation; counts its checkpoints
}

// String formats it as in DMTCP's file names.
func (id UPID) String() string { return fmt.Sprintf("%x-%d-%x", id.Host, id.PID, id.Time) }

// A Header has the contents of the file header.
type Header struct {
	ID     UPID
	Parent UPID // zero for the root of the process tree
	Group  UPID // the computation that was checkpointed together
	Root   bool // is the root of the process tree
	Peers  int  // processes in the computation, launchers included
	Name   string
	Exe    string
}

// The offsets of the file header's fields, for decoding and for errors.
var headerFields = []struct {
	at   int
	name string
}{
	{0, "signature"}, {32, "process id"}, {56, "parent's id"}, {80, "computation"},
	{104, "pids"}, {124, "mark of the root"}, {128, "number of peers"}, {132, "ELF type"},
	{136, "vdso's functions"}, {168, "restart buffer"}, {184, "vdso"}, {200, "vvar"},
	{216, "vvar_vclock"}, {232, "brk"}, {240, "end of the stack"}, {248, "restart entry"},
	{256, "program name"}, {1280, "path of the executable"}, {2304, "padding"},
}

const (
	elf32 = 0
	elf64 = 1
)

func decodeHeader(b []byte) Header {
	return Header{
		ID:     decodeUPID(b[32:]),
		Parent: decodeUPID(b[56:]),
		Group:  decodeUPID(b[80:]),
		Root:   binary.LittleEndian.Uint32(b[124:]) != 0,
		Peers:  int(binary.LittleEndian.Uint32(b[128:])),
		Name:   cString(b[256:1280]),
		Exe:    cString(b[1280:2304]),
	}
}

func decodeUPID(b []byte) UPID {
	return UPID{
		Host:       binary.LittleEndian.Uint64(b),
		Time:       binary.LittleEndian.Uint64(b[8:]),
		PID:        int32(binary.LittleEndian.Uint32(b[16:])),
		Generation: binary.LittleEndian.Uint32(b[20:]),
	}
}

// cString returns the bytes before the first NUL, or all.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// A flaw is an error in a record, with its place.
type flaw struct {
	at          int
	reason      string
	unsupported bool
}

func flawed(at int, format string, args ...any) *flaw {
	return &flaw{at: at, reason: fmt.Sprintf(format, args...)}
}

// checkSignature checks the beginning of a file, which may be shorter than the
// signature.
func checkSignature(b []byte) *flaw {
	n := min(len(b), len(signature))
	if string(b[:n]) == signature[:n] {
		return nil
	}
	if bytes.HasPrefix(b, []byte(signaturePrefix)) {
		return &flaw{reason: fmt.Sprintf("format version %s of DMTCP is not supported, only 4.0 (DMTCP 4 and 5)", version(b)), unsupported: true}
	}
	for i := range n {
		if b[i] != signature[i] {
			return flawed(i, "the signature of a DMTCP image is missing")
		}
	}
	return nil
}

// checkHeader checks both copies of the file header.
func checkHeader(b []byte) *flaw {
	first, second := b[:headerSize], b[headerSize:]
	// An old image has data in place of the second signature.
	if f := checkSignature(first); f != nil && checkSignature(second) != nil {
		return f
	}
	for i := range first {
		if first[i] == second[i] {
			continue
		}
		field := headerFields[0].name
		for _, f := range headerFields {
			if f.at <= i {
				field = f.name
			}
		}
		return flawed(i, "the two copies of the file header differ in the %s: 0x%02x here, 0x%02x at offset %d",
			field, first[i], second[i], headerSize+i)
	}
	switch t := binary.LittleEndian.Uint32(first[132:]); t {
	case elf64:
		return nil
	case elf32:
		return &flaw{at: 132, reason: "images of 32-bit processes are not supported", unsupported: true}
	default:
		return flawed(132, "ELF type %d is neither 32 (0) nor 64 bit (1)", t)
	}
}
