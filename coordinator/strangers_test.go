package coordinator

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// A target is a running job that somebody tries to get at.
type target struct {
	dir            string // of the job
	address, token string
	ranks          []int // process ids
}

// aim finds a job that runs in a store of the test.
func aim(t *testing.T, store string) *target {
	a := &target{dir: filepath.Join(store, "jobs", "job")}
	var announced struct{ Address, Token string }
	b, err := os.ReadFile(filepath.Join(a.dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(b, &announced)
	}
	if err != nil || len(announced.Token) != 64 {
		t.Errorf("%v: announcement %s", err, b)
	}
	a.address, a.token = announced.Address, announced.Token
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if env, err := os.ReadFile(filepath.Join(dir, "environ")); err == nil && bytes.Contains(env, []byte(a.token)) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			a.ranks = append(a.ranks, pid)
		}
		if line, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && bytes.Contains(line, []byte(a.token)) {
			t.Errorf("the token is on the command line %q", line)
		}
	}
	return a
}

// runTried runs a job in which something is tried when its first checkpoint is there, and
// stops it then. The job has to go on as one that nobody disturbs.
func runTried(t *testing.T, listen string, try func(*target)) {
	t.Helper()
	s := newSpec(t, "bt.S.4", 2)
	s.Iterations, s.Schedule.Every, s.Keep = 1<<20, 20, 2
	opt := Options{Store: t.TempDir(), Job: "job", Listen: listen}
	interrupts := make(chan struct{}, 1)
	opt.Interrupts = interrupts
	var once sync.Once
	var tried sync.WaitGroup
	opt.Observer = &recorder{t: t, on: func(ev any) {
		if _, ok := ev.(*job.CheckpointEvent); ok {
			once.Do(func() {
				tried.Go(func() { // the loop of the job goes on
					try(aim(t, opt.Store))
					interrupts <- struct{}{}
				})
			})
		}
	}}
	result, err := Launch(t.Context(), s, opt)
	tried.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != job.StateStopped || result.Failures != 0 {
		t.Errorf("%s after %d failures, want %s after none", result.Outcome, result.Failures, job.StateStopped)
	}
	verifyAll(t, opt)
}

// asNobody runs do in a thread of another user.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	over := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		const nobody = 65534
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, nobody, nobody, nobody}, {unix.SYS_SETRESUID, nobody, nobody, nobody}} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				over <- errno
				return
			}
		}
		do()
		over <- nil
	}()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// TestOtherUser: another user of the host can neither read the token, nor connect.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	testkit.All(t, "root")
	runTried(t, "", func(a *target) {
		if len(a.ranks) != 4 {
			t.Errorf("%d ranks are there, want 4", len(a.ranks))
		}
		path := strings.TrimPrefix(a.address, "unix:")
		if conn, err := net.Dial("unix", path); err != nil {
			t.Errorf("the owner cannot connect: %v", err)
		} else {
			conn.Close()
		}
		asNobody(t, func() {
			denied := func(what string, err error) {
				if !errors.Is(err, os.ErrPermission) {
					t.Errorf("%s: %v, want that it is not permitted", what, err)
				}
			}
			_, err := os.ReadFile(filepath.Join(a.dir, "run.json"))
			denied("read the announcement", err)
			_, err = os.ReadDir(filepath.Dir(filepath.Dir(a.dir)))
			denied("list the store", err)
			for dir := filepath.Dir(path); filepath.Base(dir) != filepath.Base(os.TempDir()); dir = filepath.Dir(dir) {
				_, err = os.ReadDir(dir)
				denied("list "+dir, err)
			}
			_, err = net.Dial("unix", path)
			denied("connect", err)
			for _, pid := range a.ranks {
				for _, file := range []string{"environ", "mem", "maps"} {
					name := fmt.Sprintf("/proc/%d/%s", pid, file)
					f, err := os.Open(name)
					if err == nil {
						_, err = f.Read(make([]byte, 1))
						f.Close()
					}
					denied("read "+name, err)
				}
				denied("signal a rank", unix.Kill(pid, unix.SIGKILL))
			}
		})
	})
}

// ports returns the addresses at which processes listen.
func ports(t *testing.T, processes []int) (list []string) {
	t.Helper()
	inodes := make(map[string]bool)
	for _, pid := range processes {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if to, err := os.Readlink(fd); err == nil {
				inodes[strings.Trim(strings.TrimPrefix(to, "socket:"), "[]")] = true
			}
		}
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !inodes[f[9]] {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			t.Error(err)
		}
		list = append(list, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return list
}

// TestStrangersOnTheNetwork: whoever does not know the token of a job gets nothing from its
// coordinator and its ranks, by whatever it says, and by saying nothing. Meanwhile commands
// are answered.
func TestStrangersOnTheNetwork(t *testing.T) {
	t.Parallel()
	runTried(t, "127.0.0.1", func(a *target) {
		listening := append(ports(t, a.ranks), strings.TrimPrefix(a.address, wire.TLS+":"))
		if len(listening) < 1+4 {
			t.Errorf("only %v listen", listening)
		}
		other, err := wire.NewKey("another token")
		if err != nil {
			t.Error(err)
			return
		}
		var silent []net.Conn
		defer func() {
			for _, c := range silent {
				c.Close()
			}
		}()
		for _, address := range listening {
			for name, ask := range map[string]func(net.Conn) net.Conn{
				"plain": func(c net.Conn) net.Conn { return c },
				"tls":   func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) },
			} {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Errorf("%s to %s: %v", name, address, err)
					continue
				}
				secret := ask(conn)
				_ = secret.SetDeadline(time.Now().Add(20 * time.Second))
				_ = wire.Greet(secret, wire.Greeting{Token: a.token, Role: wire.RoleControl})
				answer, err := io.ReadAll(secret)
				if name == "tls" && len(answer) > 0 || bytes.Contains(answer, []byte("{")) || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s to %s was answered with %q, %v", name, address, answer, err)
				}
				conn.Close()
			}
			if conn, err := other.Dial(context.Background(), address); err == nil {
				conn.Close()
				t.Errorf("%s has the key of another token", address)
			}
		}
		coordinator := listening[len(listening)-1]
		for range wire.MaxUnproven + 20 {
			conn, err := net.Dial("tcp", coordinator)
			if err != nil {
				t.Error(err)
				return
			}
			silent = append(silent, conn)
		}
		// One that knows the token, and does not say so.
		if key, err := wire.NewKey(a.token); err != nil {
			t.Error(err)
		} else if conn, err := key.Dial(context.Background(), coordinator); err == nil {
			silent = append(silent, conn)
		}
		ask(t, a)
	})
}

// ask asks the job how it is.
func ask(t *testing.T, a *target) {
	t.Helper()
	store, err := image.OpenStore(vfs.OS{}, filepath.Dir(filepath.Dir(a.dir)))
	if err != nil {
		t.Error(err)
		return
	}
	j, err := store.Job("job")
	if err != nil {
		t.Error(err)
		return
	}
	c, err := wire.Contact(context.Background(), j)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if s, err := c.Status(); err != nil || s.Job != "job" {
		t.Errorf("status %+v, %v", s, err)
	}
}
