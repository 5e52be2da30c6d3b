package source

import (
	"bytes"
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"testing"

	"ckpt/zones"
)

func TestCoreMalformed(t *testing.T) {
	u32 := func(n uint32) []byte { return le.AppendUint32(nil, n) }
	u64 := func(n uint64) []byte { return le.AppendUint64(nil, n) }
	const (
		first   = fileHeader + programHeader // header of the first area
		second  = first + programHeader
		offset  = 8 // in a program header
		addr    = 16
		filesz  = 32
		memsz   = 40
		noteLen = fileHeader + filesz
	)
	notesAt := int64(fileHeader + programHeader*(1+len(sample().areas)))
	withNote := func(n note) []byte {
		f := sample()
		f.notes = []note{n}
		return f.bytes()
	}
	short := func(n note, length int) note {
		n.desc = n.desc[:length]
		return n
	}
	desc := notesAt + 12 + 8 // contents of the first note
	set := func(n note, at int, b []byte) note {
		copy(n.desc[at:], b)
		return n
	}
	oneFile := func() note { return files(mapped{exeAt, exeAt + page, 0, "/a"}) }
	many := sample()
	many.extended = true
	manyAt := int64(fileHeader + programHeader*(1+len(many.areas)))
	for _, c := range []struct {
		what   string
		b      []byte
		offset int64
		want   string
	}{
		{"empty", nil, 0, "too few"},
		{"text", []byte(strings.Repeat("hello ", 20)), 0, "not an ELF core"},
		{"program", change(sample(), 16, 3), 0, "not an ELF core"},
		{"no program headers", change(sample(), 56, 0, 0), 56, "no program headers"},
		{"program headers of another size", change(sample(), 54, 32, 0), 54, "of 32 bytes"},
		{"program headers beyond the end", change(sample(), 32, u64(1<<40)...), 32, "truncated core"},
		{"program headers at the last byte", change(sample(), 32, u64(1<<64-1)...), 32, "truncated core"},
		{"too many program headers", change(sample(), 56, 0xfe, 0xff), 32, "truncated core: 65534 program headers"},
		{"section header beyond the end", change(many, 40, u64(1<<63)...), 40, "truncated core"},
		{"count of areas beyond all bounds", change(many, int(manyAt)+44, u32(1<<31)...), 56, "2147483648 program headers"},
		{"no areas", (&file{notes: sample().notes}).bytes(), 56, "no area"},
		{"contents beyond the end", change(sample(), first+offset, u64(1<<50)...), first, "at offset 1125899906842624 reach beyond"},
		{"contents wrap around", change(sample(), first+offset, u64(1<<64-1)...), first, "truncated core"},
		{"contents larger than the area", change(sample(), first+memsz, u64(page-1)...), first, "with contents of 4096"},
		{"addresses wrap around", change(sample(), first+addr, u64(1<<64-page)...), first, "beyond the last address"},
		{"area beyond all bounds", change(sample(), first+memsz, u64(1<<62)...), first, "larger than any address space"},
		{"areas overlap", change(sample(), second+addr, u64(exeAt+page)...), second, "overlaps another"},
		{"contents overlap", change(sample(), second+offset, sample().bytes()[first+offset:first+offset+8]...), second, "those of another area too"},
		{"notes beyond the end", change(sample(), noteLen, u64(1<<40)...), fileHeader, "truncated core"},
		{"half a note", change(sample(), noteLen, u64(5)...), notesAt, "less than its header"},
		{"note longer than the notes", change(sample(), int(notesAt)+4, u32(1<<31)...), notesAt, "a note of 2147483668 bytes"},
		{"name longer than the notes", change(sample(), int(notesAt), u32(1<<32-1)...), notesAt, "a note of"},
		{"short state of a thread", withNote(short(status(1, 0), 200)), desc, "state of a thread in 200 bytes"},
		{"short state of the process", withNote(short(info(1, "a"), 40)), desc, "state of the process in 40 bytes"},
		{"odd auxiliary vector", withNote(short(auxv(1, 2), 24)), desc, "auxiliary vector of 24 bytes"},
		{"short list of files", withNote(short(oneFile(), 15)), desc, "list of files in 15 bytes"},
		{"count of files", withNote(set(oneFile(), 0, u64(1<<60))), desc, "list of 1152921504606846976 files"},
		{"a file backwards", withNote(set(oneFile(), 24, u64(exeAt))), desc + 16, "file mapped from"},
		{"offset in a file", withNote(set(oneFile(), 32, u64(1<<62))), desc + 16, "beyond 2⁶⁴"},
		{"name of a file", withNote(short(oneFile(), 42)), desc + 16, "is missing"},
		{"files overlap", withNote(files(mapped{2 * page, 4 * page, 0, "/a"}, mapped{page, 3 * page, 0, "/b"})), desc, "two files are mapped at 0x2000"},
	} {
		_, err := read(c.b)
		var f *zones.FormatError
		if !errors.As(err, &f) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if f.Offset != c.offset || !strings.Contains(f.Reason, c.want) || f.Unsupported || f.File != "core" {
			t.Errorf("%s: %v, want %q at offset %d", c.what, err, c.want, c.offset)
		}
	}
}

func TestReadUnsupported(t *testing.T) {
	for what, b := range map[string][]byte{
		"32-bit":     change(sample(), elf.EI_CLASS, byte(elf.ELFCLASS32)),
		"big-endian": change(sample(), elf.EI_DATA, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4),
	} {
		_, err := read(b)
		var f *zones.FormatError
		if !errors.As(err, &f) || !f.Unsupported {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// However a core is cut, it is noticed.
func TestReadTruncated(t *testing.T) {
	b := sample("PMI_RANK=3").bytes()
	for n := 0; n < len(b); n += 1 + n/100 {
		_, err := read(b[:n])
		var f *zones.FormatError
		if !errors.As(err, &f) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
}

// Notes that are too large are refused before memory is allocated for them.
func TestReadNotesTooLarge(t *testing.T) {
	f := sample()
	f.notes = []note{{"CORE", elf.NT_PRSTATUS, nil}}
	b := f.bytes()
	size := int64(1 << 40)
	le.PutUint64(b[fileHeader+32:], maxNotes+1)
	_, err := readCore(t.Context(), "core", sparse(b), size)
	var e *zones.FormatError
	if !errors.As(err, &e) || !strings.Contains(e.Reason, "notes of more than 64 MiB") {
		t.Errorf("%v", err)
	}
}

// sparse is a file that goes on with zeros.
type sparse []byte

func (s sparse) ReadAt(b []byte, offset int64) (int, error) {
	clear(b)
	if offset < int64(len(s)) {
		copy(b, s[offset:])
	}
	return len(b), nil
}

func FuzzCore(f *testing.F) {
	f.Add(sample("PMI_RANK=3").bytes())
	f.Add(change(sample(), 56, 0xff, 0xff))
	small := &file{
		areas:    []area{{0x10000, 0x14000, rw, make([]byte, 64)}, {0x20000, 0x30000, r, nil}},
		notes:    []note{status(1, 0x20010), files(mapped{0x11000, 0x22000, 1, "/a"}), auxv(3, 0x11000, 33, 0x12000)},
		extended: true,
	}
	f.Add(small.bytes())
	small.extended, small.areas[1].contents = false, stackOf(0x10000, "PMI_RANK=1")
	f.Add(small.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := read(b)
		if err != nil {
			if e := (*zones.FormatError)(nil); !errors.As(err, &e) || e.Offset < 0 || e.Offset > int64(len(b))+sectionHeader {
				t.Fatalf("%v", err)
			}
			return
		}
		if zeros := zerosIn(t, b); p.Image()+zeros != int64(len(b)) || p.Overhead < 0 {
			t.Fatalf("image of %d bytes with overhead %d, %d zeros, file of %d", p.Image(), p.Overhead, zeros, len(b))
		}
		var last uint64
		for i, a := range p.Areas {
			if i > 0 && a.Start < last || a.Bytes() <= 0 || a.Stored < 0 || a.Stored > a.Bytes() {
				t.Fatalf("area %d: %+v", i, a)
			}
			last = a.End
		}
	})
}

// zerosIn counts the pages of zeros in the memory of a process that no file has.
func zerosIn(t *testing.T, b []byte) (zeros int64) {
	c := &core{ctx: t.Context(), r: bytes.NewReader(b), size: int64(len(b))}
	if err := errors.Join(c.readHeaders(), c.readNotes(), c.divide()); err != nil {
		t.Fatal(err)
	}
	c.nameAreas(c.executable())
	for i, a := range c.areas {
		if a.Stored == 0 || a.Name != "" && a.Name[0] != '[' || a.Name == "[vdso]" || a.Name == "[vsyscall]" {
			continue
		}
		part := b[c.contents[i]:][:a.Stored]
		for page := range slices.Chunk(part, 4096) {
			if len(bytes.Trim(page, "\x00")) == 0 {
				zeros += int64(len(page))
			}
		}
	}
	return zeros
}
