package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
)

// TestManager: a service that a manager starts takes the passed socket, says when it is ready, that
// it is alive, and that it stops, and ends with status 0 at SIGTERM.
func TestManager(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ckpt") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/notify", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	l, err := net.Listen("unix", dir+"/serve")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" serve --store "$1"`, os.Args[0], dir+"/store")
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+dir+"/notify", "WATCHDOG_USEC=100000")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{f}, t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	await := func(want string) {
		t.Helper()
		b := make([]byte, 1024)
		for {
			n, err := notify.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return
			}
		}
	}
	await("READY=1")
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", dir+"/serve") }}}
	resp, err := client.Get("http://localhost/api/session")
	if err != nil {
		t.Fatal(err)
	}
	var who session
	if err := json.NewDecoder(bufio.NewReader(resp.Body)).Decode(&who); err != nil || who.Right != "change" {
		t.Errorf("the user of the service has the right %q, %v", who.Right, err)
	}
	resp.Body.Close()
	await("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	await("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

// TestPeers: a user of a Unix socket sees the stores that this user can read, and changes nothing.
func TestPeers(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	name := jobOf(t, s)
	dir := s.stores[0].Dir
	ask := func(p *peer, method, path string) int {
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), peerKey{}, p), method, "http://localhost"+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w := newRecorder(h, r)
		return w.Code
	}
	stranger := func() *peer { return &peer{uid: 54321, gids: []uint32{54321}, seen: map[string]sight{}} }
	job := "/api/stores/golden/jobs/" + name
	open := func(mode os.FileMode) {
		above := filepath.Dir(dir)
		if err := errors.Join(os.Chmod(filepath.Dir(above), mode), os.Chmod(above, mode), filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Chmod(path, mode)) })); err != nil {
			t.Fatal(err)
		}
	}
	open(0o700)
	if code := ask(stranger(), "GET", job); code != http.StatusNotFound {
		t.Errorf("a job that a stranger cannot read: %d", code)
	}
	open(0o755)
	reach := stranger().reads(filepath.Dir(dir))
	if !reach {
		t.Logf("other users cannot reach %s", dir)
	} else if code := ask(stranger(), "GET", job); code != http.StatusOK {
		t.Errorf("a job that a stranger can read: %d", code)
	}
	if code := ask(stranger(), "POST", job+"/stop"); code != http.StatusForbidden {
		t.Errorf("a stranger stops a job: %d", code)
	}
	private := func(path string, mode os.FileMode, wants map[string]int) {
		t.Helper()
		if err := os.Chmod(dir+path, mode); err != nil {
			t.Fatal(err)
		}
		for request, want := range wants {
			method, path, _ := strings.Cut(request, " ")
			if code := ask(stranger(), method, path); code != want && reach {
				t.Errorf("%s: %d, want %d", request, code, want)
			}
		}
		if err := os.Chmod(dir+path, mode|0o055); err != nil {
			t.Fatal(err)
		}
	}
	private("/jobs/"+name+"/0002/manifest", 0o600, map[string]int{"GET /api/stores/golden/jobs": 200, "GET " + job: 403, "GET " + job + "/checkpoints/2": 403, "POST /api/stores/golden/verify": 403})
	private("/jobs/"+name+"/traces", 0o700, map[string]int{"GET " + job + "/checkpoints/1/trace/tiles": 403})
	private("/jobs/"+name+"/history.jsonl", 0o600, map[string]int{"GET /api/stores/golden/jobs": 404, "GET " + job + "/history": 404})
	private("/jobs/"+name, 0o700, map[string]int{"GET " + job: 404})
	if err := os.Symlink(name, dir+"/jobs/another"); err != nil {
		t.Fatal(err)
	}
	if code := ask(stranger(), "GET", job); code != http.StatusNotFound {
		t.Errorf("a job in a store with a link to another place: %d", code)
	}
	own := &peer{uid: uint32(os.Geteuid()), seen: map[string]sight{}}
	if code := ask(own, "GET", job); code != http.StatusOK {
		t.Errorf("the user of the service: %d", code)
	}
	if code := ask(&peer{uid: ^uint32(0)}, "GET", job); code != http.StatusUnauthorized {
		t.Errorf("a peer that the kernel does not name: %d", code)
	}
}

// TestListenUnix: a socket without a service is replaced, and nothing else is.
func TestListenUnix(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ckpt") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/left", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	for _, err := range []error{left.Close(), os.WriteFile(dir+"/data", []byte("data"), 0o600), os.Mkdir(dir+"/empty", 0o700), os.Symlink("data", dir+"/link"), os.Symlink("left", dir+"/away")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{dir + "/data", dir + "/empty", dir + "/link", dir + "/away", "", "@ckpt"} {
		if _, err := listenUnix(name); ui.ExitCode(err) != ui.ExitUsage || ui.HintOf(err) == "" {
			t.Errorf("%q: %v, want a refusal with a hint", name, err)
		}
	}
	if text, err := os.ReadFile(dir + "/link"); string(text) != "data" {
		t.Errorf("the file has become %q, %v", text, err)
	}
	l, err := listenUnix(dir + "/left")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenUnix(dir + "/left"); ui.HintOf(err) == "" {
		t.Errorf("a socket of a service: %v", err)
	}
}
