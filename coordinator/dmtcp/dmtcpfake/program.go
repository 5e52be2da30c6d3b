package dmtcpfake

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ckpt/zones/dmtcp/dmtcptest"
)

// A program counts. Its count is in the files that DMTCP writes beside the images.
type program struct {
	conn    net.Conn
	dir     string // of the images
	steps   int
	pause   time.Duration
	step    int
	missing int // processes that do not come back
}

// countName is the file with the count.
const countName = "count"

func (p *program) run() int {
	fmt.Fprintf(p.conn, "program %d %d\n", os.Getpid(), Peers-p.missing)
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
	for p.step < p.steps {
		select {
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
					select {}
				}
				fmt.Fprintln(p.conn, "done")
			}
		case <-clock.C:
			if p.missing > 0 || held() {
				continue
			}
			p.step++
			fmt.Println(p.step)
			if status := p.fails(); status != 0 {
				return status
			}
		}
	}
	return 0
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
		select {}
	}
	for {
		if _, ok := fault("wait-checkpoint"); !ok {
			break
		}
		time.Sleep(time.Millisecond)
	}
	c := dmtcptest.Job(Ranks, dmtcptest.Options{Seed: 7, Name: "count", Private: 64 << 10, Shared: 64 << 10, Libraries: 64 << 10})
	if err := c.WriteDir(p.dir); err != nil {
		return err
	}
	image := filepath.Join(p.dir, c.Images[0].FileName())
	count := fmt.Sprintln(p.step, p.steps, p.pause)
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
	if _, err := fmt.Sscan(count, &p.step, &p.steps, &pause); err != nil {
		return nil, errors.New("no image has the count")
	}
	var err error
	p.pause, err = time.ParseDuration(pause)
	return p, err
}
