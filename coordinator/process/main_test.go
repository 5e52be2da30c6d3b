package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain is the agent as well, when a client starts it: it hands the link to the test.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "rank" && os.Getenv(EnvClient) != "" {
		if err := beAgent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir, err := os.MkdirTemp("", "process-test-"); err == nil {
		programs.dir = dir
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs.dir)
		os.Exit(code)
	}))
}

// dyingAgents is the directory with a file for each agent that is to die at its start:
// early-N before the client sends its first message, late-N at any time from then on.
const dyingAgents = "CKPT_TEST_DYING_AGENTS"

// dies reports whether this agent is one to die.
func dies(when string) bool {
	files, _ := filepath.Glob(filepath.Join(os.Getenv(dyingAgents), when+"-*"))
	return os.Getenv(dyingAgents) != "" && len(files) > 0 && os.Remove(files[0]) == nil
}

// beAgent sends the link to the socket of the test.
func beAgent() error {
	if dies("early") {
		return nil // the client goes on, as if the agent proper had been started
	}
	detached, err := Detach()
	if err != nil || !detached {
		return err
	}
	if dies("late") {
		return errors.New("killed")
	}
	c, err := net.Dial("unix", os.Getenv("CKPT_SOCKET"))
	if err != nil {
		return err
	}
	defer c.Close()
	fd, err := strconv.Atoi(os.Getenv(EnvClient))
	if err != nil {
		return err
	}
	about := fmt.Sprintf("%d %d %s %s", os.Getpid(), os.Getppid(), os.Getenv("CKPT_RANK"), os.Getenv(EnvSize))
	_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte(about), unix.UnixRights(fd), nil)
	return err
}
