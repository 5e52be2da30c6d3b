package coordinator

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// TestOtherCoordinator: the socket and the token of a job are those of another job by now,
// which has the same name. Its coordinator answers no command about this job.
func TestOtherCoordinator(t *testing.T) {
	inst, err := dataset.ParseApp("ring.S.2", 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := job.NewSpec(inst)
	text, err := spec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	store, err := image.CreateStore(vfs.OS{}, filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", text)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := wire.Announce(j, "unix:"+socket, "token"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{spec.ID, image.NewID(), ""} { // earlier versions answer without
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			r := bufio.NewReaderSize(conn, wire.GreetingLimit)
			_, err = wire.ReadGreeting(conn, r, "token")
			if err == nil {
				err = json.NewDecoder(r).Decode(new(wire.Command))
			}
			if err == nil {
				err = json.NewEncoder(conn).Encode(wire.Reply{Status: &wire.Status{Job: "job", ID: id}})
			}
			if err != nil {
				t.Error(err)
			}
		}()
		c, err := wire.Contact(t.Context(), j)
		if other := id != spec.ID && id != ""; other != errors.Is(err, wire.ErrNotRunning) || other && !strings.Contains(err.Error(), "another job that has this name") {
			t.Errorf("id %q: %v", id, err)
		}
		if err == nil {
			c.Close()
		}
	}
}
