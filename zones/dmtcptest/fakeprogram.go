package dmtcptest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A program counts. Its count is in the files that DMTCP writes beside the images.
type program struct {
	conn    net.Conn
	dir     string // of the images
	steps   int
	pause   time.Duration
	step    int
	missing int // processes that do not come back
	// The shell that the program runs in, and the file that it marks the end in.
	script, mark string
}

// countName is the file with the count.
const countName = "count"

func (p *program) run() int {
	rank := 0
	if _, ok := fault("with-rank"); ok {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		runtime.LockOSThread() // the signal is of this thread's end
		if err := cmd.Start(); err != nil {
			return complain("%v", err)
		}
		rank = cmd.Process.Pid
		go func() { _ = cmd.Wait() }()
	}
	fmt.Fprintf(p.conn, "program %d %d %d\n", os.Getpid(), Peers-p.missing, rank)
	orders := make(chan string)
	go func() {
		in := bufio.NewScanner(p.conn)
		for in.Scan() {
			orders <- in.Text()
		}
		close(orders)
	}()
	clock := time.NewTicker(p.pause)
	defer clock.Stop()
	var ended chan int // by itself: the program goes on in its shell for a while
	if p.step >= p.steps {
		ended = p.end(0)
	}
	for {
		select {
		case status := <-ended:
			return status
		case order, ok := <-orders:
			switch {
			case !ok:
				return complain("read invalid message. Did DMTCP coordinator die uncleanly?")
			case order == "kill":
				return 0
			case order == "checkpoint":
				if err := p.checkpoint(); err != nil {
					return complain("%v", err)
				}
				if _, ok := fault("hang-after"); ok {
					fmt.Fprintln(p.conn, "hangs")
					hang()
				}
				fmt.Fprintln(p.conn, "done")
			}
		case <-clock.C:
			if ended != nil || p.missing > 0 || held() {
				continue
			}
			p.step++
			fmt.Println(p.step)
			if status := p.fails(); status != 0 || p.step >= p.steps {
				ended = p.end(status)
			}
		}
	}
}

// end has the shell of the program do what it does when the program has ended with a status.
// The shell dies with this process.
func (p *program) end(status int) chan int {
	ended := make(chan int, 1)
	cmd := exec.Command("/bin/sh", "-c", p.script, "sh", p.mark, "sh", "-c", fmt.Sprintf("exit %d", status))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func() {
		runtime.LockOSThread()
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			ended <- complain("%v", err)
			return
		}
		ended <- cmd.ProcessState.ExitCode()
	}()
	return ended
}

// fails returns the exit status with which the program is to fail now, 0 if it is not.
func (p *program) fails() int {
	for _, name := range []string{fmt.Sprintf("exit at %d with ", p.step), "exit with "} {
		what, ok := fault(name)
		if !ok {
			continue
		}
		status, err := strconv.Atoi(what)
		if err != nil {
			return complain("%v", err)
		}
		return status
	}
	return 0
}

// checkpoint writes the images of all processes.
func (p *program) checkpoint() error {
	if _, ok := fault("hang-checkpoint"); ok {
		hang()
	}
	for {
		if _, ok := fault("wait-checkpoint"); !ok {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c := Job(Ranks, Options{Seed: 7, Name: "count", Private: 64 << 10, Shared: 64 << 10, Libraries: 64 << 10})
	if err := c.WriteDir(p.dir); err != nil {
		return err
	}
	image := filepath.Join(p.dir, c.Images[0].FileName())
	count := fmt.Sprintf("%d %d %s %q %q", p.step, p.steps, p.pause, p.script, p.mark)
	if err := os.WriteFile(filepath.Join(companions(image), countName), []byte(count), 0o600); err != nil {
		return err
	}
	if _, ok := fault("missing-image"); ok {
		return os.Remove(image)
	}
	if _, ok := fault("temp-left"); ok {
		return os.Rename(image, image+".temp")
	}
	if _, ok := fault("short-image"); ok {
		return os.Truncate(image, c.Images[0].Size()/2)
	}
	return nil
}

func companions(image string) string { return strings.TrimSuffix(image, ".dmtcp") + "_files" }

// restore reads the count of the images of a checkpoint.
func restore(images []string) (*program, error) {
	if len(images) != Peers {
		return nil, fmt.Errorf("%d images of %d processes", len(images), Peers)
	}
	var count string
	for _, image := range images {
		if fi, err := os.Stat(image); err != nil || fi.Size() < 4096 {
			return nil, fmt.Errorf("failed to read checkpoint image %s: %v", image, err)
		}
		if b, err := os.ReadFile(filepath.Join(companions(image), countName)); err == nil {
			count = string(b)
		}
	}
	p := &program{}
	var pause string
	if _, err := fmt.Sscanf(count, "%d %d %s %q %q", &p.step, &p.steps, &pause, &p.script, &p.mark); err != nil {
		return nil, errors.New("no image has the count")
	}
	var err error
	p.pause, err = time.ParseDuration(pause)
	return p, err
}

// hang waits until the process is killed. Without cgo, Go ends a process whose goroutines all
// wait for each other; one that sleeps does not count.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}
