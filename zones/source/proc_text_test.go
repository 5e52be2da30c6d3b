package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"ckpt/zones"

	"github.com/google/go-cmp/cmp"
)

// A small program as Linux 6 shows it, with lines that do not matter left in
// some places.
const smaps = `55d6d9924000-55d6d9926000 r-xp 00000000 fe:01 247026                     /opt/solver v2/bt.A.4
Size:                  8 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                   8 kB
Pss:                   8 kB
Pss_Dirty:             0 kB
Shared_Clean:          0 kB
Shared_Dirty:          0 kB
Private_Clean:         8 kB
Private_Dirty:         0 kB
Referenced:            8 kB
Anonymous:             0 kB
KSM:                   0 kB
Swap:                  0 kB
Locked:                0 kB
THPeligible:           0
VmFlags: rd mr mw me 
55d6d992e000-55d6d992f000 rw-p 0000a000 fe:01 247026                     /opt/solver v2/bt.A.4
Rss:                   4 kB
Shared_Dirty:          0 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
Swap:                  0 kB
55d6d992f000-55d6da92f000 rw-p 00000000 00:00 0 
Rss:                4096 kB
Private_Dirty:      4096 kB
Shared_Dirty:          0 kB
Anonymous:          4096 kB
Swap:               1024 kB
55d6fb552000-55d6fb752000 rw-p 00000000 00:00 0                          [heap]
Rss:                 132 kB
Private_Dirty:       132 kB
Shared_Dirty:          0 kB
Anonymous:           132 kB
Swap:                  0 kB
7f0000000000-7f0004000000 ---p 00000000 00:00 0 
Rss:                   0 kB
Private_Dirty:         0 kB
Shared_Dirty:          0 kB
Anonymous:             0 kB
Swap:                  0 kB
7f0010000000-7f0011100000 rw-s 00000000 00:01 1027                       /dev/shm/mpich_shar_tmpQ (deleted)
Rss:                 512 kB
Private_Dirty:       100 kB
Shared_Dirty:        412 kB
Anonymous:             0 kB
Swap:                  0 kB
7f0012000000-7f0012200000 rw-p 00000000 00:0f 5                          /anon_hugepage (deleted)
Rss:                   0 kB
Private_Dirty:         0 kB
Shared_Dirty:          0 kB
Anonymous:             0 kB
Private_Hugetlb:    2048 kB
Swap:                  0 kB
7f0020000000-7f0020001000 rw-p 00000000 00:00 0                          [anon:glibc: malloc]
Rss:                   4 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
7f027e985000-7f027e986000 r--p 00000000 fe:01 325835                     /usr/lib/ld-linux-x86-64.so.2
Rss:                   4 kB
Private_Dirty:         0 kB
Anonymous:             0 kB
7ffee33f9000-7ffee341a000 rw-p 00000000 00:00 0                          [stack]
Rss:                  24 kB
Private_Dirty:        24 kB
Anonymous:            24 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Rss:                   0 kB
Locked:                0 kB
THPeligible:           0
`

func TestReadText(t *testing.T) {
	p, err := ReadText("rank0.smaps", strings.NewReader(smaps))
	if err != nil {
		t.Fatal(err)
	}
	const x, r, w = zones.Exec, zones.Read, zones.Write
	const exe, fe01 = "/opt/solver v2/bt.A.4", 0xfe<<32 | 1
	type area = zones.Area
	want := &zones.Process{
		Source: "rank0.smaps", Format: zones.FormatSmaps, Name: "bt.A.4", Exe: exe, Rank: -1, Overhead: 12 * kib,
		Areas: []area{
			{Start: 0x55d6d9924000, End: 0x55d6d9926000, Prot: r | x, Name: exe, Device: fe01, Inode: 247026,
				Stored: 12 * kib, Resident: 8 * kib},
			{Start: 0x55d6d992e000, End: 0x55d6d992f000, Prot: r | w, Name: exe, Offset: 0xa000, Device: fe01, Inode: 247026,
				Stored: 8 * kib, Resident: 4 * kib, Dirty: 4 * kib, Occupied: 4 * kib},
			// Three headers: of the area, of what was touched, of the rest.
			{Start: 0x55d6d992f000, End: 0x55d6da92f000, Prot: r | w,
				Stored: 5*mib + 12*kib, Resident: 5 * mib, Dirty: 5 * mib, Occupied: 5 * mib},
			// One of two steps of 1 MiB.
			{Start: 0x55d6fb552000, End: 0x55d6fb752000, Prot: r | w, Name: "[heap]",
				Stored: 1*mib + 12*kib, Resident: 132 * kib, Dirty: 132 * kib, Occupied: 132 * kib},
			{Start: 0x7f0000000000, End: 0x7f0004000000, Stored: 8 * kib},
			{Start: 0x7f0010000000, End: 0x7f0011100000, Prot: r | w, Shared: true, Name: "/dev/shm/mpich_shar_tmpQ (deleted)",
				Device: 1, Inode: 1027, Stored: 17*mib + 8*kib, Resident: 512 * kib, Dirty: 512 * kib, Occupied: 512 * kib},
			{Start: 0x7f0012000000, End: 0x7f0012200000, Prot: r | w, Name: "/anon_hugepage (deleted)", Device: 0xf, Inode: 5,
				Stored: 2*mib + 8*kib, Resident: 2 * mib, Dirty: 2 * mib, Occupied: 2 * mib},
			{Start: 0x7f0020000000, End: 0x7f0020001000, Prot: r | w, Name: "[anon:glibc: malloc]",
				Stored: 12 * kib, Resident: 4 * kib, Dirty: 4 * kib, Occupied: 4 * kib},
			{Start: 0x7f027e985000, End: 0x7f027e986000, Prot: r, Name: "/usr/lib/ld-linux-x86-64.so.2", Device: fe01, Inode: 325835,
				Stored: 8 * kib, Resident: 4 * kib},
			// Less than a step is stored whole.
			{Start: 0x7ffee33f9000, End: 0x7ffee341a000, Prot: r | w, Name: "[stack]",
				Stored: 132*kib + 8*kib, Resident: 24 * kib, Dirty: 24 * kib, Occupied: 24 * kib},
			{Start: 0xffffffffff600000, End: 0xffffffffff601000, Prot: x, Name: "[vsyscall]", Dirty: -1},
		},
	}
	// The last area lacks all lines but one.
	want.Areas[len(want.Areas)-1].Occupied = 0
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestReadMaps(t *testing.T) {
	const maps = `00400000-00401000 r-xp 00000000 08:02 18446744073709551615 /home/u/new\012line (x) (deleted)
00601000-00602000 rw-p 00000000 00:00 0
7f3c00000000-7f3c00100000 rw-p 00000000 00:00 0                          //anon
7f3d00000000-7f3d00100000 rw-s 00000000 00:05 99                         /SYSV00000000 (deleted)
7f3e00000000-7f3e00100000 ---p 00000000 00:00 0 
7f3f00000000-7f3f00001000 r--s 00000000 08:02 77                         /etc/gconv-modules.cache
7f4000000000-7f4000100000 rw-s 00000000 00:0e 1028                       anon_inode:[io_uring]
7f4100000000-7f4100100000 rw-s 00000000 00:06 12                         /dev/infiniband/uverbs0
7ffff7fcd000-7ffff7fd1000 r--p 00000000 00:00 0                          [vvar]
7ffff7fd1000-7ffff7fd2000 rw-p 00000000 00:00 0                          [stack]`
	p, err := ReadText("maps", strings.NewReader(maps))
	if err != nil {
		t.Fatal(err)
	}
	if p.Exe != `/home/u/new\012line (x)` || p.Name != `new\012line (x)` {
		t.Errorf("program %q, %q", p.Exe, p.Name)
	}
	if p.Areas[0].Inode != 1<<64-1 || !p.Areas[0].Deleted() {
		t.Errorf("%+v", p.Areas[0])
	}
	stored := []int64{4*kib + 8*kib, 4*kib + 8*kib, 1*mib + 8*kib, 1*mib + 8*kib, 8 * kib, 0, 1*mib + 8*kib, 0, 0, 4*kib + 8*kib}
	for i, a := range p.Areas {
		if a.Resident != -1 || a.Dirty != -1 || a.Occupied != -1 || a.Runs != 0 {
			t.Errorf("maps tell nothing of pages: %+v", a)
		}
		if a.Stored != stored[i] {
			t.Errorf("%s: %d stored, want %d", a.Name, a.Stored, stored[i])
		}
		if a.Companion != (i == 5) {
			t.Errorf("%s: companion %v", a.Name, a.Companion)
		}
	}
}

func TestReadTextMixed(t *testing.T) {
	// Lines of maps and areas with the lines of an old kernel; no line break at
	// the end; blank lines.
	const text = "\n7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \n" +
		"Size: 8 kB\nRss: 4 kB\nShared_Clean: 0 kB\nPrivate_Dirty: 4 kB\n\n" +
		"7f0000002000-7f0000003000 r--p 00000000 08:02 12 /lib/libm.so\nRss: 4 kB\n" +
		"7f0000003000-7f0000004000 rw-p 00000000 00:00 0\n" +
		"7f0000004000-7f0000005000 rw-p 00000000 00:00 0 [stack]\nRss: 4 kB\nSwap: 4 kB"
	p, err := ReadText("text", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got [][3]int64
	for _, a := range p.Areas {
		got = append(got, [3]int64{a.Resident, a.Dirty, a.Occupied})
	}
	// The last area cannot hold more than its length.
	want := [][3]int64{{4096, 4096, 4096}, {4096, -1, -1}, {-1, -1, -1}, {4096, -1, 4096}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadTextMalformed(t *testing.T) {
	const first = "7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \n"
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		name, text string
		line       int64
		want       string
	}{
		{"empty", "", 1, "no area"},
		{"blank", "\n\n", 1, "no area"},
		{"another text", "hello world\n", 1, `not a line of smaps or maps: "hello world"`},
		{"a field first", "Rss: 4 kB\n", 1, "none comes before it"},
		{"long line quoted", first + long, 2, `: "` + long[:80] + `"...`},
		{"line too long", first + strings.Repeat("y", maxLine+1), 2, "longer than 65536 bytes"},
		{"no dash", "7f0000000000 7f0000002000 rw-p 00000000 00:00 0", 1, "not a line"},
		{"capitals", "7F0000000000-7F0000002000 rw-p 00000000 00:00 0", 1, "not a line"},
		{"17 digits", "17f00000000000000-7f0000002000 rw-p 00000000 00:00 0", 1, "not a line"},
		{"empty area", "7f0000000000-7f0000000000 rw-p 00000000 00:00 0", 1, "not a line"},
		{"backwards", "7f0000002000-7f0000000000 rw-p 00000000 00:00 0", 1, "not a line"},
		{"permissions", "7f0000000000-7f0000002000 rwxx 00000000 00:00 0", 1, "not a line"},
		{"short permissions", "7f0000000000-7f0000002000 rw- 00000000 00:00 0", 1, "not a line"},
		{"wrong letter", "7f0000000000-7f0000002000 wr-p 00000000 00:00 0", 1, "not a line"},
		{"no device", "7f0000000000-7f0000002000 rw-p 00000000 0 0", 1, "not a line"},
		{"huge device", "7f0000000000-7f0000002000 rw-p 00000000 100000000:0 0", 1, "not a line"},
		{"no inode", "7f0000000000-7f0000002000 rw-p 00000000 00:00", 1, "not a line"},
		{"hex inode", "7f0000000000-7f0000002000 rw-p 00000000 00:00 ff /x", 1, "not a line"},
		{"inode too large", "7f0000000000-7f0000002000 rw-p 00000000 00:00 18446744073709551616 /x", 1, "not a line"},
		{"unit", first + "Rss: 4 MB\n", 2, "not a size"},
		{"no unit", first + "Rss: 4\n", 2, "not a size"},
		{"negative", first + "Swap: -4 kB\n", 2, "not a size"},
		{"size too large", first + "Anonymous: 99999999999999999 kB\n", 2, "not a size"},
		{"two processes", first + first, 2, "split the text before this line"},
		{"overlap", first + "7f0000001000-7f0000003000 rw-p 00000000 00:00 0 \n", 2, "start again from below"},
		{"rollup", "55d6d9924000-7ffee341a000 ---p 00000000 00:00 0 [rollup]\nRss: 4 kB\n", 1, "smaps_rollup holds the sums only"},
		{"all memory", "0-ffffffffffffffff rw-p 00000000 00:00 0\n", 1, "larger than any address space"},
	} {
		_, err := ReadText("saved.txt", strings.NewReader(c.text))
		var f *zones.FormatError
		if !errors.As(err, &f) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if f.File != "saved.txt" || f.Line != c.line || !strings.Contains(f.Reason, c.want) || len(f.Reason) > 250 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	cause := errors.New("disk on fire")
	if _, err := ReadText("x", iotest.ErrReader(cause)); !errors.Is(err, cause) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func TestReadTextLimits(t *testing.T) {
	p := parser{areas: make([]zones.Area, maxAreas-1, maxAreas)}
	for i, want := range []string{"", fmt.Sprintf("more than %d areas", maxAreas)} {
		line := fmt.Sprintf("%x-%x rw-p 0 0:0 0", i+1, i+2)
		if got := p.add([]byte(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// stackLine is the end of a text of maps.
const stackLine = "7ffee33f9000-7ffee341a000 rw-p 00000000 00:00 0 [stack]\n"

// A text that lacks its end is an error with the line, wherever it was cut, and not a
// smaller process. Of maps, a few bytes may be missing that change no size.
func TestTextCutOff(t *testing.T) {
	pid, _ := start(t, "idle", nil)
	for _, name := range []string{"smaps", "maps"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := ReadText(name, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < len(text); n += 1 + n%31 {
			p, err := ReadText(name, bytes.NewReader(text[:n]))
			var f *zones.FormatError
			switch {
			case err == nil && p.Image() != whole.Image():
				t.Fatalf("%s cut to %d of %d bytes is a process of %d bytes, not %d", name, n, len(text), p.Image(), whole.Image())
			case err != nil && (!errors.As(err, &f) || f.Line != int64(bytes.Count(text[:n-1], []byte("\n")))+1):
				t.Fatalf("%s cut to %d bytes: %v", name, n, err)
			}
		}
	}
	if _, err := ReadText("x", iotest.DataErrReader(io.MultiReader(strings.NewReader(smaps[:900]), iotest.ErrReader(io.ErrUnexpectedEOF)))); err == nil || !strings.Contains(err.Error(), "compressed text is cut off here") {
		t.Errorf("a compressed text: %v", err)
	}
}

func TestExecutable(t *testing.T) {
	for _, c := range []struct{ name, maps, want string }{
		{"through the dynamic linker", "1000-2000 r-xp 0 8:2 1 /bin/prog\n8000-9000 r-xp 0 8:2 2 /lib/ld-linux-x86-64.so.2\n9000-a000 rw-p 0 0:0 0 [heap]\n", "/bin/prog"},
		{"heap far away", "1000-2000 r-xp 0 8:2 1 /bin/prog\n2000-3000 rw-p 0 8:2 1 /bin/prog\n3000-4000 rw-p 0 0:0 0\n9000-a000 rw-p 0 0:0 0 [heap]\nb000-c000 r-xp 0 8:2 3 /lib/libc.so.6\n", "/bin/prog"},
		{"no heap", "1000-2000 r--p 0 8:2 9 /data/table\n2000-3000 r-xp 0 8:2 2 /lib/ld-musl-x86_64.so.1\n3000-4000 r-xp 0 8:2 1 /bin/prog\n", "/bin/prog"},
		{"nothing", "1000-2000 rw-p 0 0:0 0\n", ""},
		{"data alone", "1000-2000 r--p 0 8:2 9 /data/table\n", ""},
	} {
		p, err := ReadText("x", strings.NewReader(c.maps+stackLine))
		if err != nil || p.Exe != c.want {
			t.Errorf("%s: %q, %v", c.name, p.Exe, err)
		}
	}
}

// The kernel's own text about this process parses, as smaps and as maps, to the
// same areas.
func TestReadTextOfThisKernel(t *testing.T) {
	pid, _ := start(t, "idle", nil)
	read := func(name string) *zones.Process {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := ReadText(name, strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// The runtime of the process may map memory between two files: they are read until
	// the first has not changed.
	maps, smaps := read("maps"), read("smaps")
	for again := read("maps"); !reflect.DeepEqual(maps, again); again = read("maps") {
		maps, smaps = again, read("smaps")
	}
	if len(maps.Areas) != len(smaps.Areas) || maps.Exe != smaps.Exe {
		t.Fatalf("%d areas of %s in maps, %d of %s in smaps", len(maps.Areas), maps.Exe, len(smaps.Areas), smaps.Exe)
	}
	for i := range maps.Areas {
		m, s := maps.Areas[i], smaps.Areas[i]
		if m.Start != s.Start || m.End != s.End || m.Name != s.Name || m.Resident != -1 || s.Resident < 0 || s.Dirty < 0 || s.Occupied < 0 {
			t.Errorf("maps: %+v\nsmaps: %+v", m, s)
		}
	}
}

// large is the smaps of a process with many areas.
func large(areas int) string {
	var s strings.Builder
	lines := smaps[strings.Index(smaps, "Size:"):strings.Index(smaps, "55d6d992e000")]
	for i := range areas {
		name := ""
		if i%4 == 0 {
			name = "/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.1"
		}
		at := 0x7f0000000000 + i*0x2000
		fmt.Fprintf(&s, "%x-%x rw-p 00000000 fe:01 325835 %20s%s\n%s", at, at+0x1000, "", name, lines)
	}
	s.WriteString("7fffffffe000-7fffffffff00 rw-p 00000000 00:00 0 [stack]\n" + lines)
	return s.String()
}

func BenchmarkReadText(b *testing.B) {
	text := large(65000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := ReadText("smaps", strings.NewReader(text))
		if err != nil || len(p.Areas) != 65001 {
			b.Fatal(err)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(smaps)
	f.Add("00400000-00401000 r-xp 00000000 08:02 12 /bin/a (deleted)\n7000000-8000000 rw-s 0 0:1 5 /SYSV0 (deleted)\n" + stackLine)
	f.Add("7000000-8000000 rw-s 0 0:1 5 /dev/zero (deleted)\nRss: 99 kB\n7ffee33f9000-7ffee341a000 rw-p 0 0:0 0 [stack]\nRss: 9 kB\n")
	f.Add(large(3))
	f.Add("1000-2000 ---p 0 0:0 0 [stack]\nRss: 99 kB\nPrivate_Hugetlb: 1125899906842624 kB\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadText("fuzz", strings.NewReader(text))
		if err != nil {
			if e := (*zones.FormatError)(nil); !errors.As(err, &e) || e.Line < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		var last uint64
		for i, a := range p.Areas {
			if i > 0 && a.Start < last || a.Bytes() <= 0 {
				t.Fatalf("area %d: %+v", i, a)
			}
			last = a.End
		}
		for m := range Measure(len(measureNames)) {
			m.Apply(p)
			for _, a := range p.Areas {
				// A header for every range, and no more ranges than pages.
				if a.Stored < 0 || a.Stored > 2*a.Bytes()+4*dmtcpHeader || a.Resident > a.Bytes() || a.Occupied > a.Bytes() {
					t.Fatalf("%v: %+v", m, a)
				}
			}
			if p.Image() < 0 {
				t.Fatalf("%v: image of %d bytes", m, p.Image())
			}
		}
	})
}
