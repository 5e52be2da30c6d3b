package dmtcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ckpt/internal/family"
)

// A server is DMTCP's coordinator.
type server struct {
	tools *Tools
	env   []string // of the programs that speak to it
	port  int
	child *child
}

// startTime is how long DMTCP's coordinator may take to listen.
const startTime = 20 * time.Second

// startServer starts a coordinator of DMTCP for one run. Its files lie in dir.
func startServer(ctx context.Context, t *Tools, dir *directory, own []string, temp, session string) (*server, error) {
	port, status, log := dir.path("port"), dir.path("status"), dir.path(logName)
	if err := errors.Join(dir.remove(port), dir.remove(status)); err != nil {
		return nil, err
	}
	out, err := dir.create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	env := environment(own, dir.path(liveName), temp, session, 0)
	cmd := exec.Command(t.coordinator, "-q", "-p", "0", option("port-file"), port, option("status-file"), status,
		option("ckptdir"), dir.path(liveName), option("stale-timeout"), "-1", "-i", "0")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir.root, env, out, out
	c, err := startChild(cmd)
	if err != nil {
		return nil, fmt.Errorf("start DMTCP's coordinator: %w", err)
	}
	s := &server{tools: t, child: c}
	end := time.Now().Add(startTime)
	for s.port == 0 {
		text := dir.read(port)
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n > 0 && n < 1<<16 {
			s.port = n
			break
		}
		switch {
		case c.ended():
			err = fmt.Errorf("DMTCP's coordinator %s: %s", cause(c.err), lastLine(dir.read(log)))
		case time.Now().After(end):
			err = fmt.Errorf("DMTCP's coordinator does not listen after %v", startTime)
		case ctx.Err() != nil:
			err = ctx.Err()
		}
		if err != nil {
			c.kill()
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.env = environment(own, dir.path(liveName), temp, session, s.port)
	return s, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return filepath.ToSlash(strings.TrimSpace(lines[len(lines)-1]))
}

// command sends a command and returns what the coordinator says.
func (s *server) command(ctx context.Context, what string) (string, error) {
	cmd := exec.CommandContext(ctx, s.tools.command, "-h", loopback, "-p", strconv.Itoa(s.port), what)
	cmd.Env = s.env
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("dmtcp_command %s %s: %s", what, cause(err), lastLine(complaint.String()))
	}
	return out.String(), errors.Join(err, ctx.Err())
}

var (
	peersLine   = regexp.MustCompile(`NUM_PEERS=([0-9]+)`)
	runningLine = regexp.MustCompile(`RUNNING=yes`)
	workerLine  = regexp.MustCompile(`\[([0-9]+):([0-9]+)\]@`)
)

// status says how many processes the program has, and whether all of them compute.
func (s *server) status(ctx context.Context) (peers int, running bool, err error) {
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	said, err := s.command(ctx, "-s")
	if err != nil {
		return 0, false, err
	}
	m := peersLine.FindStringSubmatch(said)
	if m == nil {
		return 0, false, fmt.Errorf("dmtcp_command -s says %.80q, without the number of processes", said)
	}
	peers, err = strconv.Atoi(m[1])
	return peers, runningLine.MatchString(said), err
}

// A worker is a process of the program, which DMTCP gives a number of its own that stays
// the same over restarts.
type worker struct {
	family.Process
	virtual int
}

// workers lists the processes of the program.
func (s *server) workers(ctx context.Context) []worker {
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	said, err := s.command(ctx, "-l")
	if err != nil {
		return nil
	}
	var list []worker
	for _, m := range workerLine.FindAllStringSubmatch(said, -1) {
		virtual, verr := strconv.Atoi(m[1])
		pid, err := strconv.Atoi(m[2])
		if p, ok := family.Find(pid); ok && errors.Join(err, verr) == nil {
			list = append(list, worker{p, virtual})
		}
	}
	return list
}

func processesOf(list []worker) []family.Process {
	var all []family.Process
	for _, w := range list {
		all = append(all, w.Process)
	}
	return all
}

// checkpoint has all processes write their images, and returns when they compute again.
func (s *server) checkpoint(ctx context.Context) error {
	_, err := s.command(ctx, "-bc")
	return err
}

// endProgram has all processes end.
func (s *server) endProgram(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, killTime)
	defer done()
	_, _ = s.command(ctx, "-k") // those that stay are killed
}
