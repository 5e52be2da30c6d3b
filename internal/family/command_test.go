package family

import (
	"bytes"
	"io"
	"os/exec"
	"testing"
)

// TestEnd: End ends a command that ignores SIGTERM in a child, and all below it.
func TestEnd(t *testing.T) {
	r, w := io.Pipe()
	cmd := exec.Command("sh", "-c", "sh -c 'sleep 1000 & echo ready; wait' & wait")
	cmd.Stdout = w
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 6)); err != nil { // until the innermost runs
		t.Fatal(err)
	}
	list := Descendants(p.PID())
	if len(list) != 3 {
		t.Errorf("%d processes: %v", len(list), list)
	}
	p.End()
	for _, q := range list {
		if q.Alive() {
			t.Errorf("process %d is alive", q.PID)
		}
	}
}

// TestOver: a command that ends by itself says how.
func TestOver(t *testing.T) {
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", "echo here; exit 3")
	cmd.Stdout = &out
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Over()
	if p.Err() == nil || p.Status() != 3 || out.String() != "here\n" {
		t.Errorf("%v, %q", p.Err(), out.String())
	}
	if Descendants(p.PID()) != nil {
		t.Error("it has descendants after its end")
	}
	p.End()
	if _, err := Start(exec.Command("/nosuch")); err == nil {
		t.Error("nothing started, without an error")
	}
}
