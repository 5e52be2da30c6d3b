package images_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/internal/testkit"
)

// killed DIR MNT FLAGS… kills the daemon of a mount with SIGKILL, again and again, while a program
// writes: all that fsync acknowledged is in DIR, with a cache all that write acknowledged after
// recovery, the program gets an error and does not hang, and the mount works again.
func killedCommand(ts *testscript.TestScript, _ bool, args []string) {
	rounds := 3
	if testkit.Nightly() {
		rounds = 100
	}
	k := &killed{ts: ts, dir: ts.MkAbs(args[0]), at: ts.MkAbs(args[1]), rng: rand.New(rand.NewPCG(7, 7))}
	k.args = append([]string{"storage", "mount", k.dir, k.at}, args[2:]...)
	for _, a := range args[2:] {
		k.cached = k.cached || a == "--cache"
	}
	for round := range rounds {
		if err := k.round(byte(round + 1)); err != nil {
			ts.Fatalf("round %d: %v", round, err)
		}
	}
	ts.Check(exec.Command("fusermount3", "-uz", k.at).Run())
}

type killed struct {
	ts      *testscript.TestScript
	dir, at string
	args    []string
	cached  bool
	rng     *rand.Rand
}

func (k *killed) command(args ...string) *exec.Cmd {
	c := exec.Command("ckpt", args...)
	c.Dir = k.ts.Getenv("WORK")
	return c
}

// mount starts a daemon, and returns when it has mounted.
func (k *killed) mount() (*exec.Cmd, error) {
	c := k.command(k.args...)
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return nil, err
	}
	b := make([]byte, 1000)
	n, err := out.Read(b)
	if !strings.Contains(string(b[:n]), "is mounted") {
		return nil, errors.Join(fmt.Errorf("%q", b[:n]), err, c.Wait())
	}
	return c, nil
}

const killedBlock = 10_000

func (k *killed) round(n byte) error {
	daemon, err := k.mount()
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte{n}, killedBlock)
	written, synced, err := k.write(daemon, block)
	_ = daemon.Wait()
	if !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ECONNABORTED) {
		return fmt.Errorf("the program got %w", err)
	}
	if err := k.has(bytes.Repeat(block, synced)); err != nil || !k.cached {
		return err
	}
	if out, err := k.command("storage", "recover", k.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return k.has(bytes.Repeat(block, written))
}

// write appends blocks, and makes some durable, until the daemon is gone. It is killed at any moment.
func (k *killed) write(daemon *exec.Cmd, block []byte) (written, synced int, err error) {
	f, err := os.Create(filepath.Join(k.at, "file"))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for after := 1 + k.rng.IntN(20); ; {
		if _, err = f.WriteAt(block, int64(written*len(block))); err != nil {
			return written, synced, err
		}
		written++
		if k.rng.IntN(3) > 0 {
			if err = f.Sync(); err != nil {
				return written, synced, err
			}
			synced = written
		}
		if written == after {
			go func() { _ = daemon.Process.Kill() }()
		}
	}
}

func (k *killed) has(want []byte) error {
	got, err := os.ReadFile(filepath.Join(k.dir, "file"))
	if err != nil || !bytes.HasPrefix(got, want) {
		return fmt.Errorf("%d bytes, acknowledged were %d, %w", len(got), len(want), err)
	}
	return nil
}
