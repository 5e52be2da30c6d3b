package analyze

import (
	"strings"
	"testing"

	"ckpt/iotrace"
)

// TestLibrary: the launcher, which may have no events, tells the MPI library, whose
// settings alone are named.
func TestLibrary(t *testing.T) {
	for program, want := range map[string]string{"/usr/bin/hydra_pmi_proxy": "ROMIO", "/usr/bin/mpiexec.mpich": "ROMIO", "/usr/bin/mpiexec.openmpi": "OMPIO",
		"/opt/bin/prterun": "OMPIO", "/usr/bin/mpiexec": "", "/home/orted/app": ""} {
		tr := script(4, pieces(iotrace.Write, 0, 4, 200, 0)...)
		tr.Properties = []iotrace.Property{{Name: "program", Value: program}}
		f := found(Analyze(tr, Options{}), "CK06")
		if f == nil {
			t.Fatalf("%s: no CK06", program)
		}
		var text strings.Builder
		for _, h := range f.Hints {
			text.WriteString(h.Text)
		}
		romio, ompio := strings.Contains(text.String(), "ROMIO"), strings.Contains(text.String(), "OMPIO")
		if romio != (want != "OMPIO") || ompio != (want != "ROMIO") {
			t.Errorf("%s: hints of ROMIO %v, of OMPIO %v, want %q", program, romio, ompio, want)
		}
	}
}

// TestNothingToGather: files that are written with one request each cannot be written
// with fewer.
func TestNothingToGather(t *testing.T) {
	tr := script(1)
	tr.Files = nil
	for k := range int64(300) {
		tr.Files = append(tr.Files, "small"+string(rune('0'+k/100))+string(rune('0'+k/10%10))+string(rune('0'+k%10)))
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, File: int32(k), Bytes: 2000, Start: k * ms, End: (k + 1) * ms})
	}
	if f := found(Analyze(tr, Options{}), "CK01"); f != nil {
		t.Errorf("%+v", f)
	}
}
