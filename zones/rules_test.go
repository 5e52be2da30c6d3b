package zones

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines makes a process out of lines like those of /proc/PID/maps: start-end
// in pages, permissions, name.
func lines(exe string, areas ...Area) *Process {
	return &Process{Name: baseName(exe), Exe: exe, Areas: areas}
}

func area(start, end uint64, perms, name string) Area {
	prot, err := ParseProt(perms)
	if err != nil {
		panic(err)
	}
	return Area{Start: start * PageSize, End: end * PageSize, Prot: prot, Shared: perms[3] == 's', Name: name,
		Stored: int64(end-start) * PageSize, Resident: -1, Dirty: -1, Occupied: -1}
}

func classes(p *Process) []string {
	var out []string
	for i := range p.Areas {
		out = append(out, p.Areas[i].Class.String())
	}
	return out
}

func TestClassify(t *testing.T) {
	const lib, mpi = "/usr/lib/libm.so.6", "/usr/lib/libmpich.so.12.2.0"
	for _, c := range []struct {
		name string
		p    *Process
		want string
		mpi  string
	}{
		{"a static program with a low heap (NPB 3.3: arrays in bss)", lines("/home/u/bt.B.4",
			area(1024, 1100, "r-xp", "/home/u/bt.B.4"),
			area(1100, 1110, "rw-p", "/home/u/bt.B.4"),
			area(1110, 40000, "rw-p", ""), // bss
			area(50000, 50100, "rw-p", "[heap]"),
			area(900000, 900010, "r--p", lib),
			area(900010, 900020, "r-xp", lib),
			area(900020, 900021, "rw-p", lib),
			area(900021, 900040, "rw-p", ""), // bss of the library
			area(950000, 950100, "rw-p", ""),
			area(990000, 990002, "rw-p", "[stack]"),
			area(990010, 990012, "r-xp", "[vdso]"),
		), "data data data data library library library library data shared kernel", ""},
		{"PIE with anonymous arrays (NPB 3.4) under MPICH", lines("/home/u/bt.B.x",
			area(5<<20, 5<<20+5, "r--p", "/home/u/bt.B.x"),
			area(5<<20+5, 5<<20+9, "r-xp", "/home/u/bt.B.x"),
			area(5<<20+9, 5<<20+10, "rw-p", "/home/u/bt.B.x"),
			area(5<<20+100, 5<<20+200, "rw-p", "[heap]"),
			area(7<<20, 7<<20+30000, "rw-p", ""),
			area(8<<20, 8<<20+4352, "rw-s", "/dev/shm/mpich_shar_tmp (deleted)"),
			area(9<<20, 9<<20+10, "r-xp", mpi),
			area(9<<20+10, 9<<20+12, "---p", mpi),
			area(9<<20+20, 9<<20+22, "r--p", "/usr/lib/locale/locale-archive"),
			area(9<<20+30, 9<<20+32, "rw-s", "/SYSV00000000 (deleted)"),
			area(9<<20+40, 9<<20+42, "rw-p", "/home/u/matrix.bin"),
		), "data data data data data shared library library library shared data", "mpich"},
		{"a deleted executable is still the program", lines("/home/u/a.out (deleted)",
			area(1024, 1100, "r-xp", "/home/u/a.out (deleted)"),
			area(1100, 1110, "rw-p", "/home/u/a.out (deleted)"),
			area(1110, 1120, "rw-p", ""),
		), "data data data", ""},
		{"under DMTCP", lines("/home/u/a.out",
			area(1024, 1100, "r-xp", "/home/u/a.out"),
			Area{Start: 4 << 32, End: 4<<32 + 16<<20, Prot: Read | Write, Runs: 1020, Occupied: 4 << 20},
			Area{Start: 5 << 32, End: 5<<32 + 16<<20, Prot: Read | Write, Runs: 1, Occupied: 16 << 20},
			area(8<<20, 8<<20+16384, "---p", ""),
			area(9<<20, 9<<20+10, "r-xp", "/opt/dmtcp/lib/dmtcp/libdmtcp.so"),
			area(9<<20+10, 9<<20+12, "rw-p", "/opt/dmtcp/lib/dmtcp/libdmtcp.so"),
			area(9<<20+12, 9<<20+14, "rw-p", ""), // its bss
			area(9<<20+20, 9<<20+22, "r-xp", "/usr/lib/libmpi.so.40.30.4"),
		), "data runtime data runtime runtime runtime runtime library", "openmpi"},
	} {
		DefaultRules().Classify(c.p)
		if diff := cmp.Diff(strings.Fields(c.want), classes(c.p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.p.MPI != c.mpi {
			t.Errorf("%s: MPI %q, want %q", c.name, c.p.MPI, c.mpi)
		}
		if c.p.Role != RoleRank {
			t.Errorf("%s: role %s", c.name, c.p.Role)
		}
	}
}

func TestLaunchers(t *testing.T) {
	for name, want := range map[string]Role{
		"mpiexec": RoleLauncher, "mpiexec.hydra": RoleLauncher, "hydra_pmi_proxy": RoleLauncher, "orterun": RoleLauncher,
		"bash": RoleLauncher, "dmtcp_coordinator": RoleLauncher, "bt.A.4": RoleRank, "python3": RoleRank,
	} {
		p := &Process{Name: name}
		if DefaultRules().Classify(p); p.Role != want {
			t.Errorf("%s is a %s, want %s", name, p.Role, want)
		}
	}
}

func TestSiteRules(t *testing.T) {
	r := DefaultRules()
	err := r.add("site.yaml", []byte(`
launchers: [our_wrapper]
mpi: {ourmpi: ["libours.so*"]}
rules:
- {zone: iobuffer, backing: [anonymous], min_size: 16 MiB, max_size: 16.1 MiB, program: [flash*]}
- {zone: runtime, names: ["/opt/profiler/*"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	p := lines("/home/u/flash4",
		area(1<<20, 1<<20+4097, "rw-p", ""),
		area(2<<20, 2<<20+10, "r-xp", "/opt/profiler/libprof.so"),
		area(3<<20, 3<<20+10, "r-xp", "/opt/libours.so.3"))
	r.Classify(p)
	if diff := cmp.Diff([]string{"iobuffer", "runtime", "library"}, classes(p)); diff != "" || p.MPI != "ourmpi" {
		t.Errorf("MPI %q (-want +got):\n%s", p.MPI, diff)
	}
	w := &Process{Name: "our_wrapper"}
	if r.Classify(w); w.Role != RoleLauncher {
		t.Error("the site's launcher is not known")
	}
	for text, want := range map[string]string{
		"rules: [{zone: stack}]":                    "neither a zone",
		"rules: [{names: [x]}]":                     "zone is missing",
		"rules: [{zone: data, backing: [disk]}]":    "backing",
		"rules: [{zone: data, min_size: 3 parsec}]": "not a size",
		"rules: [{zone: data, prot: rw}]":           "prot",
		"rules: [{zone: data, names: ['[']}]":       "pattern",
		"rules: [{zone: data, colour: red}]":        "colour",
		"launchers: ['[']":                          "pattern",
		"{":                                         "yaml",
	} {
		if err := DefaultRules().add("site.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func TestProt(t *testing.T) {
	for p := Prot(0); p < 8; p++ {
		if back, err := ParseProt(p.String() + "p"); err != nil || back != p {
			t.Errorf("%v came back as %v, %v", p, back, err)
		}
	}
	for _, s := range []string{"", "rw", "wr-p", "rwz"} {
		if _, err := ParseProt(s); err == nil {
			t.Errorf("%q is accepted as a permission", s)
		}
	}
}
